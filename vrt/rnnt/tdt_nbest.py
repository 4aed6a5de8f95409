"""A finished TDT beam read off: hypotheses with token durations.

B utterances, K beam slots, S iterations.
"""

from dataclasses import replace
from itertools import pairwise

from vrt.rnnt.config import BeamConfig
from vrt.rnnt.hypotheses import BeamHypotheses
from vrt.rnnt.nbest import NBest, Prefix, nbest, ranked
from vrt.rnnt.paths import Step, steps


def nbest_with_durations(
    hyps: BeamHypotheses,
    config: BeamConfig,
    prefix: Prefix | None = None,
    durations: tuple[int, ...] = (),
) -> list[NBest]:
    """All living hypotheses, ranked as `nbest` ranks them; `durations` are those of `prefix`."""
    lists = nbest(hyps, config.score_norm, config.ties, prefix)
    order = ranked(hyps, config.score_norm, config.ties).tolist()
    alive, ends = hyps.alive.tolist(), hyps.times.tolist()
    paths = steps(hyps.history, hyps.blank) or [[[] for _ in row] for row in alive]
    tails = [
        [token_durations(paths[b][k], ends[b][k], hyps.blank) for k in slots if alive[b][k]]
        for b, slots in enumerate(order)
    ]
    return [
        NBest(replace(h, durations=durations + d) for h, d in zip(found, part, strict=True))
        for found, part in zip(lists, tails, strict=True)
    ]


def token_durations(path: list[Step], end: int, blank: int) -> tuple[int, ...]:
    """Encoder frames from each token to the next step; `end` is the frame after the last."""
    frames = [*(step.frame for step in path), end]
    moved = [after - before for before, after in pairwise(frames)]
    return tuple(d for step, d in zip(path, moved, strict=True) if step.label != blank)
