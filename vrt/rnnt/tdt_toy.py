"""A toy TDT to check a search against by hand: one toy for classes, one for durations.

R rows, V classes with blank last, D durations. Frames are those of `toy_frames`: (b, t).
"""

from dataclasses import dataclass

from jaxtyping import Float, Int64
from torch import Tensor

from vrt.rnnt.toy import ToyScorer


@dataclass(frozen=True)
class ToyDurationScorer:
    """Both rows are looked up by (utterance, encoder frame, labels so far). The D classes of
    `lengths` are the durations; none of them is a blank."""

    labels: ToyScorer
    lengths: ToyScorer
    durations: tuple[int, ...]

    @property
    def vocab(self) -> int:
        return self.labels.vocab

    @property
    def blank(self) -> int:
        return self.labels.blank

    def start(self, rows: int) -> list[tuple[int, ...]]:
        return self.labels.start(rows)

    def log_probs(
        self, frames: Float[Tensor, "R 2"], state: list[tuple[int, ...]]
    ) -> tuple[Float[Tensor, "R V"], Float[Tensor, "R D"]]:
        return self.labels.log_probs(frames, state), self.lengths.log_probs(frames, state)

    def advance(
        self,
        state: list[tuple[int, ...]],
        parents: Int64[Tensor, "R"],
        labels: Int64[Tensor, "R"],
    ) -> list[tuple[int, ...]]:
        return self.labels.advance(state, parents, labels)
