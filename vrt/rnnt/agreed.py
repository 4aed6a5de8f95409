"""What all living hypotheses of one stream agree on, and how their pointers up to there go.

K beam slots, S iterations. One utterance: B = 1.
"""

import torch

from vrt.rnnt.config import BeamConfig
from vrt.rnnt.hypotheses import DEAD, BeamHypotheses
from vrt.rnnt.nbest import Prefix, ranked
from vrt.rnnt.paths import steps


def common(lists: list[list[tuple[int, int]]]) -> list[tuple[int, int]]:
    """What all lists begin with."""
    shared = []
    for column in zip(*lists, strict=False):
        if len(set(column)) > 1:
            break
        shared.append(column[0])
    return shared


def absorb(hyps: BeamHypotheses, prefix: Prefix) -> None:
    """Move what led to the newest slot that all living paths run through into `prefix`."""
    meeting = hyps.history.meeting(0, hyps.alive[0].nonzero().flatten().tolist())
    if meeting is None:
        return
    column, slot = meeting
    path = steps(hyps.history.until(column), hyps.blank)[0][slot]
    labels = [step for step in path if step.label != hyps.blank]
    prefix.tokens += [step.label for step in labels]
    prefix.timestamps += [step.frame for step in labels]
    if hyps.history.log_probs is not None:
        prefix.alignment += path
    hyps.history.cut(column + 1)


def settle(hyps: BeamHypotheses, frame: int, config: BeamConfig) -> None:
    """Give up hypotheses that do not come from where the best one was at encoder frame `frame`."""
    if not len(hyps.history) or not hyps.alive.any():
        return
    best = int(ranked(hyps, config.score_norm, config.ties)[0, 0])
    paths = hyps.history.paths()[:, 0]
    stamps = torch.stack(hyps.history.stamps)[:, 0].gather(-1, paths)[:, best]
    columns = (stamps <= frame).nonzero().flatten().tolist()
    if columns:
        apart = paths[columns[-1]] != paths[columns[-1], best]
        hyps.scores = hyps.scores.where(~apart, DEAD)
