"""Word errors of one arm against the truth and against another arm, clip by clip."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from vrt.quality.clips import Clip
from vrt.quality.searches import Answer
from vrt.rnnt.acoustic import AcousticTransducer
from vrt.train.evaluation import Errors, word_errors


def texts_of(model: AcousticTransducer, answers: Sequence[Answer]) -> list[str]:
    """The best hypothesis of each clip."""
    return [model.text(answer.tokens) for answer in answers]


def errors_of(
    model: AcousticTransducer, clips: Sequence[Clip], answers: Sequence[Answer]
) -> Errors:
    return word_errors([clip.text for clip in clips], texts_of(model, answers))


def oracle(references: Sequence[str], candidates: Sequence[Sequence[str]]) -> Errors:
    """Errors of the candidate that is nearest to the truth, the first of equally near ones;
    an empty list is an empty text."""
    chosen = [_nearest(r, list(c) or [""]) for r, c in zip(references, candidates, strict=True)]
    return word_errors(references, chosen)


def _nearest(reference: str, candidates: list[str]) -> str:
    edits = word_errors([reference] * len(candidates), candidates).edits
    return candidates[int(np.argmin(edits))]


def oracle_of(
    model: AcousticTransducer, clips: Sequence[Clip], answers: Sequence[Answer]
) -> Errors:
    """Of all living hypotheses."""
    lists = [[model.text(h.tokens) for h in answer.nbest] for answer in answers]
    return oracle([clip.text for clip in clips], lists)


def difference(arm: Errors, other: Errors) -> dict[str, Any]:
    """Points of word error rate, paired; below 0 the arm is better."""
    points, interval = arm.difference(other)
    return {"points": points, "points_95": list(interval)}


def equal_share(arm: Sequence[Answer], other: Sequence[Answer]) -> float:
    """Share of clips whose best hypothesis has the other's tokens."""
    pairs = zip(arm, other, strict=True)
    return sum(one.tokens == two.tokens for one, two in pairs) / len(arm)


def right_share(errors: Errors) -> float:
    """Share of strings without a single error."""
    return float((errors.edits == 0).mean())
