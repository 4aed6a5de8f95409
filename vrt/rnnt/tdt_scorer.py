"""The seam between a search and a token-and-duration transducer (TDT): labels and how far they go.

R rows (one per hypothesis: B utterances x K beam slots), V classes with blank, D durations,
J frame width.
"""

from typing import Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vrt.rnnt.config import BeamError

State = TypeVar("State")


@runtime_checkable
class DurationScorer(Protocol[State]):
    """As `vrt.rnnt.Scorer`, but a row says two things: which class comes next, and by how many
    encoder frames the search then moves on. A TDT joint has V + D outputs; the first V and the
    last D are normalised apart, each a log-softmax of its own.

    `durations[d]` is what column d of the second row stands for, in encoder frames: (0, 1, 2, 3, 4)
    in the published Parakeet TDT models.
    """

    vocab: int  # V, blank included, durations not
    blank: int
    durations: tuple[int, ...]

    def start(self, rows: int) -> State:
        """The predictor before any label: fed the start symbol once, in every row."""
        ...

    def log_probs(
        self, frames: Float[Tensor, "R J"], state: State
    ) -> tuple[Float[Tensor, "R V"], Float[Tensor, "R D"]]:
        """Log-probabilities of classes and of durations, at each hypothesis' own encoder frame."""
        ...

    def advance(
        self, state: State, parents: Int64[Tensor, "R"], labels: Int64[Tensor, "R"]
    ) -> State:
        """Row r is row `parents[r]` fed `labels[r]`, and an exact copy where the label is blank
        or negative (a final hypothesis)."""
        ...


def refuse_durations(scorer: DurationScorer) -> None:
    """Before any work.

    A blank of duration 0 moves on by one frame, so that durations without a positive one end too:
    with (0,) a TDT is an RNN-T.
    """
    durations = scorer.durations
    if not durations:
        raise BeamError("durations are empty: a TDT has at least one; use malsd for an RNN-T")
    for duration in durations:
        if not isinstance(duration, int) or duration < 0:
            raise BeamError(
                f"durations are {tuple(durations)}: each must be a whole number of encoder frames,"
                f" 0 or more, {duration!r} is not"
            )
    if len(set(durations)) < len(durations):
        raise BeamError(f"durations are {tuple(durations)}: one is named twice")


def both_rows(
    scorer: DurationScorer, frames: Float[Tensor, "R J"], state: object
) -> tuple[Float[Tensor, "R V"], Float[Tensor, "R D"]]:
    """The scorer's two rows, of the widths that it promises.

    Raises:
        BeamError: rows of another width.
    """
    labels, durations = scorer.log_probs(frames, state)
    widths, due = (labels.shape[-1], durations.shape[-1]), (scorer.vocab, len(scorer.durations))
    if widths != due:
        raise BeamError(
            f"the scorer gave {widths[0]} classes and {widths[1]} durations a row; it says it has"
            f" {due[0]} (blank included) and {due[1]}: split the joint's {sum(due)} outputs there"
        )
    return labels, durations


def jumps_of(durations: Int64[Tensor, "*rows"], is_blank: torch.Tensor) -> Int64[Tensor, "*rows"]:
    """Encoder frames that a step moves on by: a blank moves by one at least."""
    return durations.where(~is_blank, durations.clamp(min=1))
