"""Results: a hypothesis, a ranked list of them, and how they are read off a finished beam.

B utterances, K beam slots, S iterations.
"""

import html
from dataclasses import dataclass, field
from math import exp, nan
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vrt.rnnt.hypotheses import BeamHypotheses
from vrt.rnnt.ties import descending


@dataclass(frozen=True)
class Step:
    """One step of an alignment: at encoder frame `frame`, `label` (blank or not) was taken."""

    frame: int
    label: int
    log_prob: float  # acoustic: no fusion score in it


@dataclass(frozen=True)
class Hypothesis:
    """A transcript. `score` is the total log-probability, `norm_score` is score / (labels + 1).

    `timestamps` are the encoder frames at which the tokens were emitted. Where
    `preserve_alignments` asked for it, `alignment` is the best single path through the frames
    (`score` also holds the paths merged into it), and `confidence` the probability of each token
    on that path, from unfused scores: 0 to 1.
    """

    tokens: tuple[int, ...]
    score: float
    norm_score: float
    timestamps: tuple[int, ...]
    alignment: tuple[Step, ...] | None = field(default=None, repr=False)
    confidence: tuple[float, ...] | None = field(default=None, repr=False)

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


@dataclass(frozen=True)
class Prefix:
    """What a stream has forgotten the pointers of: the labels that all hypotheses begin with."""

    tokens: tuple[int, ...] = ()
    timestamps: tuple[int, ...] = ()
    alignment: tuple[Step, ...] = ()


def nbest(
    hyps: BeamHypotheses,
    score_norm: bool = True,
    ties: Literal["lowest", "torch"] = "lowest",
    prefix: Prefix | None = None,
) -> list[NBest]:
    """All living hypotheses, ranked; dividing a negative score by the length favours long ones."""
    norm = hyps.scores / (hyps.lengths.to(hyps.scores.dtype) + 1)
    order = descending(norm if score_norm else hyps.scores, ties).tolist()
    alive, scores, norms = hyps.alive.tolist(), hyps.scores.tolist(), norm.tolist()
    paths = _Paths(hyps, prefix or Prefix())
    return [
        NBest(
            paths.hypothesis(row, slot, scores[row][slot], norms[row][slot])
            for slot in slots
            if alive[row][slot]
        )
        for row, slots in enumerate(order)
    ]


class _Paths:
    """The history read backwards, once for all slots."""

    def __init__(self, hyps: BeamHypotheses, prefix: Prefix) -> None:
        self.blank, self.prefix, self.history = hyps.blank, prefix, hyps.history
        paths = hyps.history.paths() if len(hyps.history) else None
        self.tokens = _along(hyps.history.tokens, paths)
        self.stamps = _along(hyps.history.stamps, paths)
        self.log_probs = _along(hyps.history.log_probs or [], paths)

    def hypothesis(self, row: int, slot: int, score: float, norm: float) -> Hypothesis:
        steps = self.steps(row, slot)
        labels = [step for step in steps if step.label != self.blank]
        tokens = self.prefix.tokens + tuple(step.label for step in labels)
        stamps = self.prefix.timestamps + tuple(step.frame for step in labels)
        if self.history.log_probs is None:
            return Hypothesis(tokens, score, norm, stamps)
        steps = self.prefix.alignment + tuple(steps)
        taken = [step.log_prob for step in steps if step.label != self.blank]
        confidence = tuple(min(1.0, exp(value)) for value in taken)
        return Hypothesis(tokens, score, norm, stamps, steps, confidence)

    def steps(self, row: int, slot: int) -> list[Step]:
        """Of one slot's path, without what carried a final hypothesis over."""
        if not self.tokens:
            return []
        tokens, stamps = self.tokens[row][slot], self.stamps[row][slot]
        log_probs = self.log_probs[row][slot] if self.log_probs else [nan] * len(tokens)
        return [
            Step(stamp - (token == self.blank), token, log_prob)
            for stamp, token, log_prob in zip(stamps, tokens, log_probs, strict=True)
            if token >= 0
        ]


def _along(
    columns: list[Int64[Tensor, "B K"]] | list[Float[Tensor, "B K"]],
    paths: Int64[Tensor, "S B K"] | None,
) -> list[list[list]]:
    """Values along each slot's path, [B][K][S]."""
    if paths is None or not columns:
        return []
    return torch.stack(columns).gather(-1, paths).permute(1, 2, 0).tolist()
