"""What a beam search carries from one iteration to the next, and how it begins.

B utterances, K beam slots, R = B*K rows.
"""

from dataclasses import dataclass
from math import isfinite

import torch
from jaxtyping import Bool
from torch import Tensor

from vrt.rnnt.config import BeamConfig, BeamError, Fusion
from vrt.rnnt.fusion import FusionState
from vrt.rnnt.hypotheses import BeamHypotheses
from vrt.rnnt.scorer import Scorer


@dataclass
class Beam:
    """All that a search carries from one iteration to the next."""

    hyps: BeamHypotheses
    active: Bool[Tensor, "B K"]  # frames are left to read; dead slots count too
    predictor: object  # the scorer's state, R rows
    fusion: tuple[FusionState, ...]
    iterations: int = 0


def begin(
    scorer: Scorer, batch: int, config: BeamConfig, dtype: torch.dtype, device: torch.device
) -> Beam:
    """One empty hypothesis an utterance, the predictor fed the start symbol."""
    refuse_config(scorer, config)
    rows = batch * config.beam_size
    hyps = BeamHypotheses.start(batch, config.beam_size, scorer.blank, dtype, device)
    if config.preserve_alignments:
        hyps.history.log_probs = []
    models = [part.model for part in config.fusion]
    fusion = tuple(FusionState.of(model, model.start(rows)) for model in models)
    return Beam(hyps, torch.ones_like(hyps.alive), scorer.start(rows), fusion)


def refuse_config(scorer: Scorer, config: BeamConfig) -> None:
    """Before any work."""
    if config.beam_size > scorer.vocab:
        raise BeamError(
            f"beam_size {config.beam_size} is larger than the scorer's {scorer.vocab} classes"
            f" (blank included): use a beam_size of at most {scorer.vocab}"
        )
    if config.fusion and scorer.blank != scorer.vocab - 1:
        raise BeamError(
            f"fusion needs blank as the last class, {scorer.vocab - 1}; it is {scorer.blank}"
        )
    for place, part in enumerate(config.fusion):
        _refuse_fusion(place, part, scorer.vocab - 1)


def _refuse_fusion(place: int, part: Fusion, labels: int) -> None:
    name = f"fusion model {place} ({type(part.model).__name__})"
    if not isfinite(part.alpha):
        raise BeamError(f"alpha of {name} is {part.alpha}; give a finite number")
    scores, _ = part.model.advance(part.model.start(1))
    if scores.shape[-1] != labels:
        raise BeamError(
            f"{name} scores {scores.shape[-1]} labels, the scorer has {labels} (blank not counted):"
            " build it for this model's tokens"
        )
    if (scores * part.alpha).isnan().any():
        raise BeamError(f"{name} times its alpha, {part.alpha}, gives NaN: 0 times infinity?")
