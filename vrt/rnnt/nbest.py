"""Results: a hypothesis, a ranked list of them, and how they are read off a finished beam.

B utterances, K beam slots, S iterations.
"""

import html
from dataclasses import dataclass, field
from math import exp
from typing import Literal

from jaxtyping import Float, Int64
from torch import Tensor

from vrt.rnnt.hypotheses import BeamHypotheses
from vrt.rnnt.paths import Step, steps
from vrt.rnnt.ties import descending


@dataclass(frozen=True)
class Hypothesis:
    """A transcript. `score` is the total log-probability, `norm_score` is score / (labels + 1).

    `timestamps` are the encoder frames at which the tokens were emitted. Where
    `preserve_alignments` asked for it, `alignment` is the best single path through the frames
    (`score` also holds the paths merged into it), and `confidence` the probability of each token
    on that path, from unfused scores: 0 to 1. `durations` are the encoder frames by which the
    tokens of a TDT moved on.
    """

    tokens: tuple[int, ...]
    score: float
    norm_score: float
    timestamps: tuple[int, ...]
    alignment: tuple[Step, ...] | None = field(default=None, repr=False)
    confidence: tuple[float, ...] | None = field(default=None, repr=False)
    durations: tuple[int, ...] | None = field(default=None, repr=False)

    def seconds(self, frame_seconds: float) -> tuple[float, ...]:
        """Start of each token, for encoder frames of `frame_seconds` (0.08 in FastConformer)."""
        return tuple(frame * frame_seconds for frame in self.timestamps)


class NBest(list[Hypothesis]):
    """Hypotheses of one utterance, best first, transcripts unique; empty if the beam died."""

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("", "tokens", "score", "norm", "frames"))
        body = "".join(
            f"<tr><td>{rank}</td><td>{_spaced(h.tokens)}</td><td>{h.score:.4f}</td>"
            f"<td>{h.norm_score:.4f}</td><td>{_spaced(h.timestamps)}</td></tr>"
            for rank, h in enumerate(self, start=1)
        )
        empty = "<caption>no hypothesis survived</caption>" if not self else ""
        return f"<table>{empty}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _spaced(numbers: tuple[int, ...]) -> str:
    return html.escape(" ".join(map(str, numbers))) or "&empty;"


@dataclass
class Prefix:
    """What all hypotheses of a stream begin with, and whose pointers are forgotten."""

    tokens: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    alignment: list[Step] = field(default_factory=list)


def nbest(
    hyps: BeamHypotheses,
    score_norm: bool = True,
    ties: Literal["lowest", "torch"] = "lowest",
    prefix: Prefix | None = None,
) -> list[NBest]:
    """All living hypotheses, ranked; dividing a negative score by the length favours long ones."""
    order = ranked(hyps, score_norm, ties).tolist()
    alive, scores, norms = (v.tolist() for v in (hyps.alive, hyps.scores, normalised(hyps)))
    taken = steps(hyps.history, hyps.blank) or [[[] for _ in row] for row in alive]
    prefix, aligned = prefix or Prefix(), hyps.history.log_probs is not None
    return [
        NBest(
            hypothesis(
                prefix,
                taken[row][slot],
                hyps.blank,
                aligned,
                scores[row][slot],
                norms[row][slot],
            )
            for slot in slots
            if alive[row][slot]
        )
        for row, slots in enumerate(order)
    ]


def normalised(hyps: BeamHypotheses) -> Float[Tensor, "B K"]:
    """Scores over length + 1, as of searches that count the start symbol."""
    return hyps.scores / (hyps.lengths.to(hyps.scores.dtype) + 1)


def ranked(
    hyps: BeamHypotheses, score_norm: bool, ties: Literal["lowest", "torch"]
) -> Int64[Tensor, "B K"]:
    """Slots of each utterance, best first."""
    return descending(normalised(hyps) if score_norm else hyps.scores, ties)


def hypothesis(
    prefix: Prefix, path: list[Step], blank: int, aligned: bool, score: float, norm: float
) -> Hypothesis:
    """What `path` adds to `prefix`; `aligned`: with its alignment, else only labels matter."""
    labels = [step for step in path if step.label != blank]
    tokens = (*prefix.tokens, *(step.label for step in labels))
    stamps = (*prefix.timestamps, *(step.frame for step in labels))
    if not aligned:
        return Hypothesis(tokens, score, norm, stamps)
    path = [*prefix.alignment, *path]
    confidence = tuple(min(1.0, exp(step.log_prob)) for step in path if step.label != blank)
    return Hypothesis(tokens, score, norm, stamps, tuple(path), confidence)
