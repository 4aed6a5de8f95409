"""Named tensors out of a file: PyTorch's (never more than weights are unpickled) or safetensors."""

import pickle
import zipfile
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

import torch
from torch import Tensor

from vrt.rnnt.weights.members import WeightsError

OURS = ("decoder.", "joint.")


@dataclass(frozen=True)
class Skipped:
    """A part of the checkpoint that was not loaded, such as its encoder."""

    name: str
    tensors: int
    numbers: int


@dataclass(frozen=True)
class Tensors:
    """Those of predictor and joint, under the file's names, and what else there was."""

    held: dict[str, Tensor]
    skipped: tuple[Skipped, ...] = ()


def split(named: dict[str, Tensor]) -> Tensors:
    held = {name: tensor for name, tensor in named.items() if name.startswith(OURS)}
    rest: dict[str, list[Tensor]] = {}
    for name, tensor in named.items():
        if name not in held:
            rest.setdefault(name.split(".")[0], []).append(tensor)
    skipped = (Skipped(n, len(of), sum(t.numel() for t in of)) for n, of in rest.items())
    return Tensors(held, tuple(skipped))


def read_torch(file: BufferedIOBase | Path, where: str) -> dict[str, Tensor]:
    """A state dict, or the one inside a Lightning checkpoint.

    All tensors of the file are in memory for a moment, an encoder's too.

    Raises:
        WeightsError: a damaged file, one that holds more than tensors, or no state dict.
    """
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = str(error).strip().splitlines()[0]
        raise WeightsError(
            f"{where} is damaged, or holds Python objects beside tensors, which could run code"
            f" ({reason}); where it is known to be sound, save its state dict alone:"
            " torch.save(model.state_dict(), path)"
        ) from error
    except (RuntimeError, EOFError, OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        reason = str(error).strip().splitlines()[0] if str(error) else type(error).__name__
        raise WeightsError(
            f"{where} is damaged or not complete ({reason}); copy or download it again"
        ) from error
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not isinstance(content, dict):
        raise WeightsError(f"{where} holds a {type(content).__name__}, not a state dict")
    return {str(name): value for name, value in content.items() if isinstance(value, Tensor)}


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Raises `WeightsError` for a damaged file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise WeightsError(
            f"{path} is damaged or no safetensors file ({error}); copy or download it again"
        ) from error
