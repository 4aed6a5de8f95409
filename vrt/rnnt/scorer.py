"""The seam between a search and a model: all that a beam or a greedy search asks of a transducer.

R rows (one per hypothesis: B utterances x K beam slots), V classes with blank, J frame width.
"""

from typing import Protocol, TypeVar, runtime_checkable

from jaxtyping import Float, Int64
from torch import Tensor

State = TypeVar("State")


@runtime_checkable
class Scorer(Protocol[State]):
    """K rows in, K rows out; a state holds one row per hypothesis and is never changed in place.

    The frames are those that the joint reads: for a network, `joint.project_encoder` of the
    encoder's output, computed once outside the search.
    """

    vocab: int  # V, blank included
    blank: int

    def start(self, rows: int) -> State:
        """The predictor before any label: fed the start symbol once, in every row."""
        ...

    def log_probs(self, frames: Float[Tensor, "R J"], state: State) -> Float[Tensor, "R V"]:
        """One row of log-probabilities per hypothesis, at its own encoder frame."""
        ...

    def advance(
        self, state: State, parents: Int64[Tensor, "R"], labels: Int64[Tensor, "R"]
    ) -> State:
        """Row r is row `parents[r]` fed `labels[r]`, and an exact copy where the label is blank
        or negative (a final hypothesis)."""
        ...
