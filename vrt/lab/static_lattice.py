"""A transducer without its predictor: one table of scores, whatever has been said.

R rows, T encoder frames, V classes with blank last, J frame width. A frame is its own number.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vrt.rnnt.scorer import Scorer


@dataclass(frozen=True)
class StaticLattice:
    """Scores of every class at every frame, as a CTC model has them; labels change nothing."""

    table: Float[Tensor, "T V"]  # log-probabilities

    @property
    def vocab(self) -> int:
        return self.table.shape[1]

    @property
    def blank(self) -> int:
        return self.vocab - 1

    @property
    def frames(self) -> Float[Tensor, "1 T 1"]:
        """What a search of this table reads."""
        return torch.arange(len(self.table), dtype=self.table.dtype).reshape(1, -1, 1)

    def start(self, rows: int) -> int:
        return rows

    def log_probs(self, frames: Float[Tensor, "R 1"], state: int) -> Float[Tensor, "R V"]:
        return self.table[frames[:, 0].long()]

    def advance(self, state: int, parents: Int64[Tensor, "R"], labels: Int64[Tensor, "R"]) -> int:
        return state


@torch.no_grad()
def rows_after(
    scorer: Scorer, frames: Float[Tensor, "T J"], labels: tuple[int, ...] = ()
) -> Float[Tensor, "T V"]:
    """Every frame's row once `labels` have been said: right for that prefix and for no other."""
    state = scorer.start(1)
    for label in labels:
        state = scorer.advance(state, torch.zeros(1, dtype=torch.int64), torch.tensor([label]))
    return torch.cat([scorer.log_probs(frame.unsqueeze(0), state) for frame in frames])
