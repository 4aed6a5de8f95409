"""A NeMo checkpoint, read: predictor and joint, sizes, vocabulary, and what was left out.

    found = open_checkpoint("parakeet.nemo")     # or its unpacked folder, .ckpt, .safetensors
    found.config, found.skipped, found.notes
    transducer = found.transducer()

A state dict without `model_config.yaml` tells its sizes but not its activation, its durations (of a
TDT model) nor its vocabulary.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from vrt.rnnt.model import Transducer, TransducerConfig
from vrt.rnnt.vocabulary import Vocabulary
from vrt.rnnt.weights.fit import (
    EMBED,
    Stated,
    common_dtype,
    config_of,
    fitted,
    refuse_unsupported,
    usable_dtype,
)
from vrt.rnnt.weights.members import Members, WeightsError, is_archive
from vrt.rnnt.weights.pieces import vocabulary_of
from vrt.rnnt.weights.settings import Settings
from vrt.rnnt.weights.tensors import Skipped, Tensors, read_safetensors, read_torch, split

CONFIG = "model_config.yaml"
WEIGHTS = "model_weights.ckpt"
LFS_POINTER = b"version https://git-lfs"


@dataclass(frozen=True)
class Checkpoint:
    """`tensors` are under our names, in the file's dtype. `skipped` are other parts of the model,
    an encoder above all; `notes` say what the reader may not expect."""

    where: str
    config: TransducerConfig
    tensors: Mapping[str, Tensor]
    vocabulary: Vocabulary | None = None
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()

    def transducer(
        self, *, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
    ) -> Transducer:
        """The model, in evaluation mode; its memory is its own.

        Raises:
            WeightsError: tensors of several dtypes where `dtype` is None, or a dtype that weights
                cannot have.
        """
        dtype = common_dtype(self.tensors, self.where) if dtype is None else usable_dtype(dtype)
        with torch.device("meta"):
            model = Transducer(self.config)
        own = {
            name: tensor.to(device=device, dtype=dtype, copy=True)
            for name, tensor in self.tensors.items()
        }
        model.load_state_dict(own, strict=True, assign=True)
        model.vocabulary = self.vocabulary
        return model.eval()


def load(
    path: str | PathLike[str],
    *,
    config: TransducerConfig | None = None,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = None,
) -> Transducer:
    """Predictor and joint of a `.nemo` archive, its unpacked folder, a state dict or safetensors.

    `dtype` None keeps the file's. `config` is for weights without a `model_config.yaml`.

    Raises:
        WeightsError: naming what is wrong with the file and the way out.
    """
    return open_checkpoint(path, config).transducer(device=device, dtype=dtype)


def open_checkpoint(
    path: str | PathLike[str], config: TransducerConfig | None = None
) -> Checkpoint:
    """As `load`, with all that there is to know."""
    path = Path(path)
    if not path.exists():
        raise WeightsError(f"{path} is not there; give a .nemo archive, its folder, or weights")
    if path.is_dir() or is_archive(path):
        return _open_members(Members.of(path), config)
    with path.open("rb") as file:
        if file.read(len(LFS_POINTER)) == LFS_POINTER:
            raise WeightsError(f"{path} is a Git LFS pointer: get the file with `git lfs pull`")
    safe = path.suffix == ".safetensors"
    named = read_safetensors(path) if safe else read_torch(path, str(path))
    return from_tensors(named, config, where=str(path))


def from_tensors(
    named: Mapping[str, Tensor], config: TransducerConfig | None = None, where: str = "state dict"
) -> Checkpoint:
    """A checkpoint of a state dict in memory, under NeMo's names."""
    tensors, notes = split(dict(named)), ()
    if config is None:
        config = config_of(tensors.held, Stated(), where)
        notes = ("without model_config.yaml the joint's activation is taken for relu",)
    return _checkpoint(where, config, tensors, None, notes)


def _open_members(members: Members, config: TransducerConfig | None) -> Checkpoint:
    where = str(members.path)
    settings = Settings.parse(members.read(CONFIG), f"{where}, {CONFIG}")
    refuse_unsupported(settings)
    with members.open(WEIGHTS) as file:
        tensors = split(read_torch(file, f"{where}, {WEIGHTS}"))
    config = config or config_of(tensors.held, Stated.of(settings), where)
    vocabulary, notes = vocabulary_of(settings, members, config)
    temperature = settings.number("decoding.temperature", 1.0)
    if temperature != 1.0:
        notes += (
            f"decoding.temperature {temperature} is not applied, nor does NeMo when it restores a"
            " model; divide the weights and biases of joint.output by it",
        )
    return _checkpoint(where, config, tensors, vocabulary, notes)


def _checkpoint(
    where: str,
    config: TransducerConfig,
    tensors: Tensors,
    vocabulary: Vocabulary | None,
    notes: tuple[str, ...],
) -> Checkpoint:
    ours = fitted(tensors.held, config, where)
    if ours[EMBED][config.blank].any():
        notes += (
            "blank's embedding is not zero: it is fed at the start, as NeMo's searches do, though"
            " NeMo trains with zeros there",
        )
    return Checkpoint(where, config, ours, vocabulary, tensors.skipped, notes)
