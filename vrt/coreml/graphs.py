"""What is exported: a traceable module, and the names, shapes and number types of its two sides.

Every shape is fixed and every type said: without a type Core ML takes and gives FP16, token ids
included, and FP16 holds whole numbers only up to 2048.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import nn

from vrt.coreml.contract import Kind, Port

Arrays = Mapping[str, ndarray]


@dataclass(frozen=True)
class Draw:
    """How an input is drawn for a check: standard normal times `spread` for floats, whole numbers
    from `low` up to `high` (left out) for int32."""

    spread: float = 1.0
    low: int = 0
    high: int = 2

    def draw(self, port: Port, random: np.random.Generator) -> ndarray:
        if port.dtype == "int32":
            return random.integers(self.low, self.high, port.shape, dtype=np.int32)
        return (random.standard_normal(port.shape) * self.spread).astype(port.dtype)


@dataclass(frozen=True)
class Graph:
    """A module of tensors in, a tuple of tensors out, in the order of `inputs` and `outputs`.

    Where the rest goes FP16, operations of the types `wide` stay FP32 with those that feed them,
    and operations of the types `wide_from` with all that depends on them. `states` are tensors
    that the runtime itself keeps; the module has buffers of these names. `sizes` and `facts` go
    to the package's contract.
    """

    kind: Kind
    module: nn.Module
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    sizes: Mapping[str, int]
    draws: Mapping[str, Draw] = field(default_factory=dict)
    wide: frozenset[str] = frozenset()
    wide_from: frozenset[str] = frozenset()
    encoder_side: bool = False  # may be palettized
    states: tuple[Port, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def draw(self, random: np.random.Generator) -> dict[str, ndarray]:
        """Random inputs, each as `draws` has it."""
        return {p.name: self.draws.get(p.name, Draw()).draw(p, random) for p in self.inputs}

    def reset(self) -> None:
        """Zeros in all states."""
        for port in self.states:
            self.module.get_buffer(port.name).zero_()

    @torch.no_grad()
    def run(self, feeds: Arrays) -> dict[str, ndarray]:
        """What torch says; the module's states, if any, move on."""
        given = [torch.from_numpy(np.array(feeds[port.name])) for port in self.inputs]
        names = [port.name for port in self.outputs]
        return {n: a.numpy() for n, a in zip(names, self.module(*given), strict=True)}
