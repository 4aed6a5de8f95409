"""The encoder frames that a search may read.

B utterances, K beam slots, T encoder frames at hand, J frame width, R = B*K rows.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor


@dataclass(frozen=True)
class Frames:
    """Frame t of an utterance lies at `values[b, t - first]`."""

    values: Float[Tensor, "B T J"]
    last: Int64[Tensor, "B 1"]  # last frame of each utterance, at least 0
    nonempty: Bool[Tensor, "B 1"]
    first: int = 0

    @classmethod
    def of(cls, values: Float[Tensor, "B T J"], lengths: Int64[Tensor, "B"]) -> "Frames":
        """Whole utterances, padded to T."""
        lengths = lengths.unsqueeze(-1).to(values.device)
        return cls(values, (lengths - 1).clamp(min=0), lengths > 0)

    def clamped(self, times: Int64[Tensor, "B K"]) -> Int64[Tensor, "B K"]:
        return times.minimum(self.last)

    def at(self, times: Int64[Tensor, "B K"]) -> Float[Tensor, "R J"]:
        """One frame a slot. Final slots read the last one and dead slots what is at hand: to no
        effect."""
        index = self.clamped(times) - self.first
        index = index.clamp(min=0, max=self.values.shape[1] - 1)
        rows = torch.arange(len(self.values), device=times.device).unsqueeze(-1)
        return self.values[rows, index].flatten(0, 1)
