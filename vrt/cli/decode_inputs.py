"""What `vrt decode` searches: a transducer by name or path, and encoder frames or audio from files.

B utterances, T encoder frames, E encoder width.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int64
from safetensors import SafetensorError, safe_open
from torch import Tensor

from vrt.audio import read
from vrt.cli.interrupts import interrupts_held
from vrt.cli.output import remark
from vrt.paths import data_dir
from vrt.rnnt.acoustic import FRAME_SAMPLES, AcousticTransducer
from vrt.rnnt.acoustic_files import CONFIG, load_acoustic
from vrt.rnnt.model import PARAKEET, Transducer
from vrt.rnnt.weights import open_checkpoint
from vrt.voxtral.config import SAMPLE_RATE

RANDOM = "random-parakeet"  # Parakeet's size, seed 0: to try the search without a download
FRAME_FILES = (".npy", ".safetensors")
FRAMES, LENGTHS = "frames", "lengths"  # tensors of a safetensors file


class InputError(ValueError):
    """A file that holds no encoder frames for this model; says what it holds and the way out."""


@dataclass(frozen=True)
class DecodeModel:
    """`acoustic` is there where the model takes audio."""

    name: str
    transducer: Transducer
    acoustic: AcousticTransducer | None = None

    @property
    def frame_seconds(self) -> float | None:
        return FRAME_SAMPLES / SAMPLE_RATE if self.acoustic else None


@dataclass(frozen=True)
class Utterances:
    """Encoder outputs of one file."""

    name: str
    frames: Float[Tensor, "B T E"]
    lengths: Int64[Tensor, "B"]


def open_transducer(name: str) -> DecodeModel:
    """A model of this package by name, a folder of one, a NeMo archive or NeMo weights."""
    shipped = data_dir() / "models" / name
    folder = shipped if "/" not in name and shipped.is_dir() else Path(name)
    if (folder / CONFIG).is_file():
        model = load_acoustic(folder)
        return DecodeModel(name, model.transducer, model)
    if name == RANDOM:
        remark(f"{name}: random weights, its labels mean nothing; --model takes a real checkpoint")
        return DecodeModel(name, Transducer.random(PARAKEET, seed=0))
    found = open_checkpoint(name)
    for note in found.notes:
        remark(f"{name}: {note}")
    return DecodeModel(name, found.transducer(dtype=torch.float32))


def read_utterances(file: Path, model: DecodeModel) -> Utterances:
    """Encoder frames from a .npy or .safetensors file, or those of a recording."""
    if file.suffix not in FRAME_FILES:
        return _of_audio(file, model)
    frames, lengths = _of_npy(file) if file.suffix == ".npy" else _of_safetensors(file)
    width = model.transducer.config.encoder_width
    if frames.ndim == 2:
        frames = frames.unsqueeze(0)
    if frames.ndim != 3 or frames.shape[-1] != width or not frames.dtype.is_floating_point:
        raise InputError(
            f"{file} holds {frames.dtype} of shape {list(frames.shape)}; {model.name} takes"
            f" encoder frames as floats [T, {width}] or [B, T, {width}]"
        )
    if not frames.isfinite().all():
        raise InputError(f"{file} holds NaN or Inf among its encoder frames")
    if lengths is None:
        lengths = torch.full((len(frames),), frames.shape[1])
    if lengths.shape != frames.shape[:1] or lengths.dtype.is_floating_point:
        raise InputError(f"{file}: {LENGTHS} must be {len(frames)} whole numbers")
    return Utterances(str(file), frames.float(), lengths.long())


def _of_audio(file: Path, model: DecodeModel) -> Utterances:
    if model.acoustic is None:
        raise InputError(
            f"{file}: {model.name} has no encoder here; give encoder frames as {FRAMES} in"
            f" {' or '.join(FRAME_FILES)}, or a model of this package that takes audio"
        )
    with interrupts_held():
        clip = read(file)
    for change in clip.changes:
        remark(f"{file}: {change}")
    frames = model.acoustic.encode(torch.from_numpy(clip.samples)).unsqueeze(0)
    return Utterances(str(file), frames, torch.tensor([frames.shape[1]]))


def _of_npy(file: Path) -> tuple[Tensor, None]:
    try:
        return torch.from_numpy(np.load(file, allow_pickle=False)), None
    except (ValueError, EOFError, TypeError) as error:
        raise InputError(f"{file} is no .npy file of numbers: {error}") from error


def _of_safetensors(file: Path) -> tuple[Tensor, Tensor | None]:
    try:
        with safe_open(file, framework="pt") as opened:
            names = list(opened.keys())
            if FRAMES not in names:
                raise InputError(f"{file} holds {names or 'no tensor'}, and none called {FRAMES}")
            lengths = opened.get_tensor(LENGTHS) if LENGTHS in names else None
            return opened.get_tensor(FRAMES), lengths
    except SafetensorError as error:
        raise InputError(f"{file} is truncated or no safetensors file: {error}") from error
