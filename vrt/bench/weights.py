"""A model of any size with random weights, in the time that writing them takes.

Drawing 4.4 billion numbers takes a minute a core. A step's time does not depend on the values, so
each tensor takes them from one drawn block, cut at a place of its own.
"""

import math
from pathlib import Path

import torch
from torch import Tensor

from vrt.bench.bandwidth import BUFFER_BYTES
from vrt.bench.settings import BenchError
from vrt.voxtral.config import VoxtralConfig
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.packed import pack
from vrt.voxtral.weights import skeleton

BLOCK = (1 << 22) + 15  # odd, so that rows of a matrix do not repeat
STRIDE = 104_729  # between the places where successive tensors start
BIAS_STD = 0.05
RINGS_BYTES = 4 << 30  # both arms' keys and values at the released size, and working memory


def bench_model(
    config: VoxtralConfig, dtype: torch.dtype = torch.bfloat16, seed: int = 0, copies: int = 1
) -> VoxtralRealtime:
    """Every product keeps its input's scale; every page of every tensor is written.

    `copies` of the weights must find room, this one included. Raises `BenchError` where the machine
    has too little free memory.
    """
    model = skeleton(config)
    shapes = {name: weight.shape for name, weight in model.state_dict().items()}
    _check_memory(copies * dtype.itemsize * sum(shape.numel() for shape in shapes.values()))
    block = torch.randn(BLOCK, generator=torch.Generator().manual_seed(seed)).to(dtype)
    weights = {
        name: _weight(name, shape, block.roll(-STRIDE * number))
        for number, (name, shape) in enumerate(shapes.items())
    }
    model.load_state_dict(weights, assign=True)
    return model.requires_grad_(False).eval()


def packed_copy(model: VoxtralRealtime) -> VoxtralRealtime:
    """A second model of the same numbers whose linear layers are packed."""
    copy = skeleton(model.config)
    copy.load_state_dict(model.state_dict(), assign=True)
    return pack(copy.requires_grad_(False).eval())


def _weight(name: str, shape: torch.Size, block: Tensor) -> Tensor:
    if name.endswith("norm.weight"):
        return torch.ones(shape, dtype=block.dtype)
    std = BIAS_STD if len(shape) == 1 else 1 / math.sqrt(math.prod(shape[1:]))
    scaled = block * std
    flat = torch.empty(shape.numel(), dtype=block.dtype)
    for piece in flat.split(BLOCK):
        piece.copy_(scaled[: len(piece)])
    return flat.view(shape)


def _check_memory(weights: int) -> None:
    need = weights + RINGS_BYTES + BUFFER_BYTES
    free = _available_bytes()
    if free is not None and weights > BUFFER_BYTES and free < need:
        raise BenchError(
            f"{weights / 1e9:.1f} GB of weights and what a run needs beside them are"
            f" {need / 1e9:.1f} GB, {free / 1e9:.1f} GB are free: measure fewer --layers"
        )


def _available_bytes() -> int | None:
    """What the system can give without swapping; None where it does not say (not Linux)."""
    listing = Path("/proc/meminfo")
    if not listing.exists():
        return None
    line = next((x for x in listing.read_text().splitlines() if x.startswith("MemAvailable")), None)
    return int(line.split()[1]) * 1024 if line else None
