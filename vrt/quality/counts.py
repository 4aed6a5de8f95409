"""The work of a beam search, counted clip by clip (an observer of `malsd`).

B utterances, K beam slots, V classes.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from vrt.rnnt.hypotheses import DEAD
from vrt.rnnt.trace import Iteration


@dataclass(frozen=True)
class Work:
    """What one clip took. Rows are those that a search must compute, padding left out."""

    iterations: int
    joint_rows: int  # living slots that read a frame, over all iterations
    predictor_rows: int  # labels fed to the predictor, the start symbol left out
    blanks: int  # transitions stored after pruning
    labels: int
    carried: int  # final hypotheses that an iteration carried over
    merged: int  # hypotheses that recombination freed
    forced: int  # slots at `max_symbols` that had to take blank
    candidates: int  # of the K * K of an iteration, those above minus infinity
    tokens: int  # of the result

    def describe(self) -> dict[str, int]:
        return asdict(self)


def mean_work(works: Sequence[Work]) -> dict[str, float]:
    """Means over clips, and the living slots of a mean iteration."""
    names = [field.name for field in fields(Work)]
    means = {name: sum(getattr(w, name) for w in works) / len(works) for name in names}
    return means | {"active_slots": means["joint_rows"] / max(means["iterations"], 1e-9)}


class Moves(NamedTuple):
    """What an iteration did, of each slot after it; `forced` and `candidates` of those before."""

    forced: Bool[Tensor, "B K"]
    candidates: Float[Tensor, "B K K"]
    label: Int64[Tensor, "B K"]
    pruned: Float[Tensor, "B K"]  # scores after pruning
    merged: Float[Tensor, "B K"]  # after the merge
    kept: Float[Tensor, "B K"]  # after whatever else gives slots up
    active: Bool[Tensor, "B K"]


class WorkCounter:
    """Pass it as `observer`. Utterances that are done are not counted on, so a clip's numbers do
    not depend on its batch."""

    def __init__(self, lengths: Int64[Tensor, "B"], beam_size: int, blank: int):
        self.blank = blank
        self._alive = torch.zeros(len(lengths), beam_size, dtype=torch.bool)
        self._alive[:, 0] = True
        self._active = (lengths > 0).unsqueeze(-1).expand_as(self._alive)
        self._totals = torch.zeros(len(fields(Work)) - 1, len(lengths), dtype=torch.int64)

    def __call__(self, iteration: Iteration) -> None:
        one = iteration
        self.add(
            Moves(
                one.forced_blank_parent,
                one.candidates,
                one.label,
                one.score_pruned,
                one.score,
                one.score,
                one.active,
            )
        )

    def add(self, moves: Moves) -> None:
        going = self._alive & self._active
        running = going.any(-1)
        living, alive = moves.pruned > DEAD, moves.merged > DEAD
        blank = living & (moves.label == self.blank)
        carried = living & (moves.label < 0)
        label = living & ~blank & ~carried
        kept = moves.kept > DEAD
        flags = (
            running.unsqueeze(-1),
            going,
            label & kept,
            blank,
            label,
            carried,
            living & ~alive,
            moves.forced & going,
            (moves.candidates > DEAD).flatten(1),
        )
        counted = [(flag & running.unsqueeze(-1)).sum(-1) for flag in flags]
        self._totals += torch.stack(counted)
        self._alive, self._active = kept, moves.active

    def works(self, tokens: Sequence[int]) -> list[Work]:
        """After the search; `tokens` of each utterance's result."""
        columns = self._totals.T.tolist()
        return [Work(*column, count) for column, count in zip(columns, tokens, strict=True)]
