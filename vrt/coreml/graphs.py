"""What is exported: a traceable module, and the names, shapes and number types of its two sides.

Every shape is fixed and every type said: without a type Core ML takes and gives FP16, token ids
included, and FP16 holds whole numbers only up to 2048.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy import ndarray
from torch import nn

Dtype = Literal["float32", "int32"]
Arrays = Mapping[str, ndarray]


@dataclass(frozen=True)
class Port:
    """One input or output. `axes` names its axes in order, a letter or a number each.

    Random numbers for a check are standard normal times `spread`, or whole numbers from `low` up
    to `high`, that one left out.
    """

    name: str
    shape: tuple[int, ...]
    axes: str
    dtype: Dtype = "float32"
    spread: float = 1.0
    low: int = 0
    high: int = 0

    def draw(self, random: np.random.Generator) -> ndarray:
        if self.dtype == "int32":
            return random.integers(self.low, self.high, self.shape, dtype=np.int32)
        return (random.standard_normal(self.shape) * self.spread).astype(np.float32)


@dataclass(frozen=True)
class Graph:
    """A module of tensors in, a tuple of tensors out, in the order of `inputs` and `outputs`.

    `wide` are the operation types that stay FP32 where the rest goes FP16. `states` are tensors
    that the runtime itself keeps (experimental); the module has buffers of these names.
    """

    name: str
    module: nn.Module
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    rows: int | None  # K, hypotheses; None where there is no beam
    wide: frozenset[str] = frozenset()
    encoder_side: bool = False  # its weights may be palettized
    facts: Mapping[str, str] = field(default_factory=dict)
    states: tuple[Port, ...] = ()

    def draw(self, random: np.random.Generator) -> dict[str, ndarray]:
        """Random inputs."""
        return {port.name: port.draw(random) for port in self.inputs}

    @torch.no_grad()
    def run(self, feeds: Arrays) -> dict[str, ndarray]:
        """What torch says."""
        given = [torch.from_numpy(np.array(feeds[port.name])) for port in self.inputs]
        answers = self.module(*given)
        names = [port.name for port in self.outputs]
        return {name: a.numpy() for name, a in zip(names, answers, strict=True)}
