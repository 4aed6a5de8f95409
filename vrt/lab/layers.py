"""How far the layers of a streamed encoder are from those of one call over everything.

T encoder frames (20 ms), D width.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vrt.lab.modulo_ring import ModuloRing
from vrt.voxtral.encoder import Encoder


@torch.no_grad()
def layer_rows(
    encoder: Encoder, x: Float[Tensor, "T D"], chunk: int, slots: int | None = None
) -> list[dict[str, Any]]:
    """A row a frame and layer, counted from 1: `layer`, `frame`, `difference` (largest, absolute).

    The stream takes chunks of `chunk` frames (a multiple of 4) over the encoder's own rings, or
    over `ModuloRing`s of `slots` slots.
    """
    state = encoder.state()
    if slots is not None:
        state.rings = [ModuloRing(ring, slots) for ring in state.rings]
    with _Outputs(encoder.layers) as whole:
        encoder(x)
    with _Outputs(encoder.layers) as streamed:
        for piece in x.split(chunk):
            encoder(piece, state)
    rows = []
    for layer, (got, want) in enumerate(zip(streamed.joined, whole.joined, strict=True), start=1):
        apart = (got - want).abs().amax(-1).tolist()
        rows += [
            {"layer": layer, "frame": frame, "difference": difference}
            for frame, difference in enumerate(apart)
        ]
    return rows


class _Outputs:
    """Keeps what the layers give out while it is open."""

    def __init__(self, layers: nn.ModuleList):
        self.layers = layers
        self._kept: list[list[Tensor]] = [[] for _ in layers]

    def __enter__(self) -> "_Outputs":
        self._hooks = [
            layer.register_forward_hook(lambda _layer, _given, out, kept=kept: kept.append(out))
            for layer, kept in zip(self.layers, self._kept, strict=True)
        ]
        return self

    def __exit__(self, *error: object) -> None:
        for hook in self._hooks:
            hook.remove()

    @property
    def joined(self) -> list[Tensor]:
        return [torch.cat(outputs) for outputs in self._kept]
