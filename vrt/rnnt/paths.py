"""A history read backwards: the steps that led to each hypothesis.

B utterances, K beam slots, S iterations.
"""

from dataclasses import dataclass
from math import nan

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vrt.rnnt.history import History


@dataclass(frozen=True)
class Step:
    """One step of an alignment: at encoder frame `frame`, `label` (blank or not) was taken."""

    frame: int
    label: int
    log_prob: float  # acoustic: no fusion score in it; nan where it was not kept


def steps(history: History, blank: int) -> list[list[list[Step]]]:
    """Of each utterance and slot of the newest column, first step first; none for what carried a
    final hypothesis over. A history of no columns gives []."""
    if not len(history):
        return []
    paths = history.paths()
    tokens, stamps = _along(history.tokens, paths), _along(history.stamps, paths)
    log_probs = torch.full_like(tokens, nan, dtype=torch.float32)
    if history.log_probs:
        log_probs = _along(history.log_probs, paths)
    frames = stamps - (tokens == blank).long()  # a blank's stamp is the frame after it
    return [
        [
            [Step(*step) for step in zip(*columns, strict=True) if step[1] >= 0]
            for columns in zip(*rows, strict=True)
        ]
        for rows in zip(frames.tolist(), tokens.tolist(), log_probs.tolist(), strict=True)
    ]


def _along(
    columns: list[Int64[Tensor, "B K"]] | list[Float[Tensor, "B K"]], paths: Int64[Tensor, "S B K"]
) -> Int64[Tensor, "B K S"] | Float[Tensor, "B K S"]:
    """Values along each slot's path."""
    return torch.stack(columns).gather(-1, paths).permute(1, 2, 0)
