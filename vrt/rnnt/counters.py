"""What a beam search did, counted: iterations, calls and rows of joint and predictor, transitions.

B utterances, K beam slots.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from jaxtyping import Bool, Int
from torch import Tensor

from vrt.rnnt.nbest import NBest
from vrt.rnnt.trace import Iteration


@dataclass
class Work:
    """Sums over iterations, utterances and living slots."""

    iterations: int = 0  # of the whole batch
    joint_calls: int = 0
    joint_rows: int = 0
    predictor_calls: int = 0
    predictor_rows: int = 0
    blanks: int = 0  # transitions by blank, forced ones too
    labels: int = 0  # transitions by label
    carried: int = 0  # final hypotheses taken over
    known_prefixes: int = 0  # label transitions to a prefix whose predictor was there
    forced_blanks: int = 0  # slots that were at max_symbols
    recombinations: int = 0  # slots that gave their probability to another
    living_slots: int = 0  # after the merge

    @property
    def selections(self) -> int:
        """Candidates that pruning kept."""
        return self.blanks + self.labels + self.carried


@dataclass(frozen=True)
class Counters:
    """`work` of a search over `utterances` of `frames` encoder frames together. `frame_seconds`,
    where given, is what one of those lasts (0.08 in FastConformer)."""

    work: Work
    utterances: int
    frames: int
    tokens: int  # of the best hypotheses
    frame_seconds: float | None = None

    @property
    def totals(self) -> dict[str, int]:
        work = {part.name: getattr(self.work, part.name) for part in fields(self.work)}
        return work | {"selections": self.work.selections, "tokens": self.tokens}

    def per_utterance(self) -> dict[str, float]:
        return {name: count / self.utterances for name, count in self.totals.items()}

    def per_second(self) -> dict[str, float]:
        """Of audio.

        Raises:
            ValueError: the length of a frame is not known, or there are no frames.
        """
        if self.frame_seconds is None or not self.frames:
            raise ValueError(
                f"counts per second need frames and their length: {self.frames} frames of"
                f" {self.frame_seconds} seconds; give frame_seconds"
            )
        seconds = self.frames * self.frame_seconds
        return {name: count / seconds for name, count in self.totals.items()}

    def _repr_html_(self) -> str:
        columns = {"total": self.totals, "per utterance": self.per_utterance()}
        if self.frame_seconds is not None and self.frames:
            columns["per second"] = self.per_second()
        head = "".join(f"<th>{name}</th>" for name in ("", *columns))
        body = "".join(
            f"<tr><td>{html.escape(name.replace('_', ' '))}</td>"
            + "".join(f"<td>{column[name]:,.5g}</td>" for column in columns.values())
            + "</tr>"
            for name in self.totals
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@dataclass
class Tally:
    """Counts a search: `malsd(..., observer=tally)` or `fast_malsd(..., tally=tally)`, then
    `tally.counters(lengths, nbests)`. The clear search asks for every slot at every iteration."""

    work: Work = field(default_factory=Work)
    _alive: Bool[Tensor, "B K"] | None = None

    def __call__(self, step: Iteration) -> None:
        rows = step.score.numel()
        chosen = step.score_pruned.isfinite()
        # After a blank a slot has no label at its frame yet, after a label it has.
        blank = chosen & (step.label >= 0) & (step.symbols_at_time == 0)
        self.take(
            Work(
                iterations=1,
                joint_calls=1,
                joint_rows=rows,
                predictor_calls=1,
                predictor_rows=rows,
                blanks=int(blank.sum()),
                labels=int((chosen & (step.label >= 0) & ~blank).sum()),
                carried=int((chosen & (step.label < 0)).sum()),
                forced_blanks=int((step.forced_blank_parent & self._before(step)).sum()),
                recombinations=int((chosen & ~step.alive).sum()),
                living_slots=int(step.alive.sum()),
            )
        )
        self._alive = step.alive

    def _before(self, step: Iteration) -> Bool[Tensor, "B K"]:
        """Who lived before the iteration; before the first, slot 0."""
        if self._alive is not None:
            return self._alive
        alive = step.alive.new_zeros(step.alive.shape)
        alive[:, 0] = True
        return alive

    def take(self, work: Work) -> None:
        """Add what was done."""
        for part in fields(work):
            now = getattr(self.work, part.name) + getattr(work, part.name)
            setattr(self.work, part.name, now)

    def counters(
        self,
        lengths: Int[Tensor, "B"],
        nbests: Sequence[NBest],
        frame_seconds: float | None = None,
    ) -> Counters:
        tokens = sum(len(best[0].tokens) for best in nbests if best)
        return Counters(self.work, len(nbests), int(lengths.sum()), tokens, frame_seconds)
