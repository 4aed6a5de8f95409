"""The two orders of a beam's iteration, from the same beam: prune then merge, merge then prune.

K beam slots.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from vrt.lab.beam_steps import MERGED, Move, beam_steps
from vrt.rnnt.trace import Iteration, Trace

Tokens = tuple[int, ...]
TOLERANCE = 1e-5  # log-probability; fp32 sums of a few terms stay below it


@dataclass(frozen=True)
class Orders:
    """Log-probabilities of the transcripts that an iteration keeps, best first, by order."""

    iteration: int  # from 1
    pruned_first: dict[Tokens, float]
    merged_first: dict[Tokens, float]

    @property
    def differ(self) -> bool:
        """Whether another transcript is kept, or one with another probability."""
        ours, other = self.pruned_first, self.merged_first
        return ours.keys() != other.keys() or any(
            abs(ours[tokens] - other[tokens]) > TOLERANCE for tokens in ours
        )


def merge_orders(trace: Trace, blank: int, utterance: int = 0) -> list[Orders]:
    """Each iteration of a search beside what it would have kept, from the same candidates, if all
    of them had been merged before the K best were taken."""
    columns = beam_steps(trace, utterance)
    found = []
    for number, step in enumerate(trace.iterations, start=1):
        kept = {m.tokens: m.score for m in columns[number] if m.fate != MERGED}
        candidates = _candidates(step, columns[number - 1], blank, utterance)
        best = sorted(_sums(candidates).items(), key=lambda item: -item[1])
        found.append(Orders(number, _ordered(kept), dict(best[: step.parent.shape[1]])))
    return found


def _ordered(kept: dict[Tokens, float]) -> dict[Tokens, float]:
    return dict(sorted(kept.items(), key=lambda item: -item[1]))


def _candidates(
    step: Iteration, before: Sequence[Move], blank: int, utterance: int
) -> list[tuple[Tokens, float]]:
    """Transcript and log-probability of every candidate that is possible."""
    scores = step.candidates[utterance].tolist()
    labels = step.candidate_labels[utterance].tolist()
    living = {move.slot: move for move in before if move.fate != MERGED}
    return [
        (move.tokens + ((label,) if 0 <= label != blank else ()), score)
        for slot, move in living.items()
        for label, score in zip(labels[slot], scores[slot], strict=True)
        if math.isfinite(score)
    ]


def _sums(candidates: Sequence[tuple[Tokens, float]]) -> dict[Tokens, float]:
    scores = defaultdict(list)
    for tokens, score in candidates:
        scores[tokens].append(score)
    return {tokens: _logsumexp(parts) for tokens, parts in scores.items()}


def _logsumexp(parts: Sequence[float]) -> float:
    top = max(parts)
    return top + math.log(sum(math.exp(part - top) for part in parts))
