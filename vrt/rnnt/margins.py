"""How close a search came to deciding otherwise: what rounding on another device could flip.

B utterances, K beam slots, V classes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from vrt.rnnt.config import BeamConfig
from vrt.rnnt.hypotheses import DEAD
from vrt.rnnt.nbest import NBest
from vrt.rnnt.trace import Iteration


@dataclass(frozen=True)
class Margins:
    """The smallest difference (natural log) behind each kind of decision; inf: none was made."""

    cut: float  # between the last candidate kept and the first dropped
    winner: float  # between the two best of a merged group
    rank: float  # between neighbours in the n-best list, by the key that orders it
    order: float  # between neighbouring slots: moves slots, not hypotheses

    @property
    def decision(self) -> float:
        """Differences in scores below half of this leave tokens and timestamps as they are."""
        return min(self.cut, self.winner, self.rank)

    @property
    def smallest(self) -> float:
        return min(self.decision, self.order)


def margins(
    iterations: Iterable[Iteration], nbests: list[NBest], config: BeamConfig, by_norm: bool
) -> Margins:
    """Of a traced search and its result, ranked by `norm_score` or by `score`."""
    steps = list(iterations)
    early = bool(config.fusion) and config.pruning_mode == "early"
    return Margins(
        min((_cut(step, early) for step in steps), default=torch.inf),
        min((_winner(step) for step in steps), default=torch.inf),
        min((_rank(nbest, by_norm) for nbest in nbests), default=torch.inf),
        min((_gap(step.score_pruned) for step in steps), default=torch.inf),
    )


def _gap(descending: Float[Tensor, "*rows n"]) -> float:
    """Smallest difference of neighbours that are both finite."""
    here, following = descending[..., :-1], descending[..., 1:]
    finite = following > DEAD
    return float((here - following)[finite].min()) if finite.any() else torch.inf


def _cut(step: Iteration, early: bool) -> float:
    """Among all candidates, and within slots whose K-th label came through pruning. In `early`
    fusion a label just missed may outdo those chosen, so there every slot counts."""
    size = step.candidates.shape[-1]
    ranked = step.candidates.flatten(1).sort(dim=-1, descending=True).values
    least = ranked[:, size - 1, None, None]
    between = _gap(ranked[:, size - 1 : size + 1])
    if step.rows.shape[-1] == size:
        return between
    ends = step.rows.topk(size + 1, dim=-1).values[..., -2:]
    missed = ends[..., 0] - ends[..., 1]
    last = step.candidates.amin(-1, keepdim=True)
    at_stake = (last > DEAD) & (early | (last >= least))
    at_stake = at_stake.squeeze(-1) & (ends[..., 1] > DEAD)
    return min(between, float(missed[at_stake].min()) if at_stake.any() else torch.inf)


def _winner(step: Iteration) -> float:
    merged = step.score_pruned.unsqueeze(-2).where(step.equal, DEAD)
    return _gap(merged.sort(dim=-1, descending=True).values[..., :2])


def _rank(nbest: NBest, by_norm: bool) -> float:
    keys = [h.norm_score if by_norm else h.score for h in nbest]
    return min((a - b for a, b in pairwise(keys)), default=torch.inf)
