"""Shallow fusion: a language model's or boosting tree's label scores join the transducer's.

B utterances, K beam slots, V classes with blank last, R = B*K rows.
"""

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

# NeMo keeps 1 - P(blank) at least this large, for the sake of bfloat16.
EPSILON = 1e-2


@runtime_checkable
class FusionModel(Protocol):
    """A model over labels without blank whose state is one whole number a row."""

    def start(self, rows: int) -> Int64[Tensor, "R"]:
        """The state at the beginning of a sentence."""
        ...

    def advance(
        self, states: Int64[Tensor, "R"]
    ) -> tuple[Float[Tensor, "R labels"], Int64[Tensor, "R labels"]]:
        """Log-score of every label, and the state after it. No end-of-sentence score is used."""
        ...


@dataclass(frozen=True)
class FusionState:
    """One model's state in every slot, and what it says of each label there."""

    states: Int64[Tensor, "R"]
    scores: Float[Tensor, "R labels"]
    following: Int64[Tensor, "R labels"]

    @classmethod
    def of(cls, model: FusionModel, states: Int64[Tensor, "R"]) -> "FusionState":
        return cls(states, *model.advance(states))

    def advance(
        self,
        model: FusionModel,
        parents: Int64[Tensor, "R"],
        labels: Int64[Tensor, "R"],
        emitted: Bool[Tensor, "R"],
    ) -> "FusionState":
        """Row r continues row `parents[r]`: after its label where one was emitted, else unmoved."""
        column = labels.where(emitted, 0).unsqueeze(-1)
        moved = self.following[parents].gather(-1, column).squeeze(-1)
        return FusionState.of(model, moved.where(emitted, self.states[parents]))


def fused(
    log_probs: Float[Tensor, "B K V"],
    scores: Float[Tensor, "B K labels"],
    alpha_sum: float,
    blank_lm_score_mode: Literal["lm_weighted_full", "no_score"],
) -> Float[Tensor, "B K V"]:
    """Every class with the fusion scores in it; `scores` already carry their alphas.

    `no_score` leaves blank alone. `lm_weighted_full` gives blank the weight 1 + alpha_sum and
    labels, beside their own scores, alpha_sum times the log-probability of not being blank.
    """
    labels, blank = log_probs[..., :-1], log_probs[..., -1:]
    if blank_lm_score_mode == "no_score":
        return torch.cat([labels + scores, blank], dim=-1)
    not_blank = torch.log1p(-blank.exp().clamp(max=1.0 - EPSILON))
    return torch.cat([labels + (not_blank * alpha_sum + scores), blank * (1 + alpha_sum)], dim=-1)
