"""The models that packages are made of, by the names that a command line and a contract use.

open_source("random-parakeet")        # random weights of Parakeet's sizes; ":7" sets the seed
open_source("parakeet.nemo")          # NeMo archive, its folder, a state dict, safetensors
open_source("random-tiny")            # a model of this package, or a checkpoint folder
"""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from vrt.coreml.errors import CoreMLError
from vrt.paths import data_dir
from vrt.receipt import digest
from vrt.rnnt import acoustic_files
from vrt.rnnt.model import PARAKEET, Transducer
from vrt.rnnt.weights import load as load_transducer
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.weights import load as load_voxtral
from vrt.voxtral.weights.checkpoint import shipped_models

RANDOM_PARAKEET = "random-parakeet"
CONFIG, PARAMS = "config.json", "params.json"


@dataclass(frozen=True)
class Source:
    """A model in FP32 and the name that it was asked for by."""

    name: str
    model: Transducer | VoxtralRealtime

    @cached_property
    def digest(self) -> str:
        """Of the weights, by name; the same for the same numbers in another file."""
        return digest(self.model.state_dict())


def open_source(name: str) -> Source:
    """Of a small transducer with its encoder, the transducer.

    Raises `CoreMLError`, `CheckpointError` or `WeightsError` for what is no model.
    """
    base, _, seed = name.partition(":")
    if base == RANDOM_PARAKEET:
        return Source(name, Transducer.random(PARAKEET, _seed(name, seed)))
    path = Path(name).expanduser()
    if not path.exists() and name in shipped_models():
        path = data_dir() / "models" / name
    if not path.exists():
        known = ", ".join([RANDOM_PARAKEET, *shipped_models()])
        raise CoreMLError(
            f"{name} is no file, no folder and no model of this package ({known}); give a NeMo"
            " archive, a checkpoint folder, or one of these names"
        )
    if _is_acoustic(path / CONFIG):
        return Source(name, acoustic_files.load_acoustic(path).transducer)
    if (path / CONFIG).is_file() or (path / PARAMS).is_file():
        return Source(name, load_voxtral(path, dtype=torch.float32))
    return Source(name, load_transducer(path, dtype=torch.float32))


def _is_acoustic(config: Path) -> bool:
    try:
        content = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("model") == acoustic_files.KIND


def _seed(name: str, text: str) -> int:
    if text and not text.isdecimal():
        raise CoreMLError(f"{name}: the seed after the colon is a whole number, as :7")
    return int(text or 0)
