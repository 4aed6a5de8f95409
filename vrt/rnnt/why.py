"""Why a hypothesis is what it is: at each step, what the model and the fusion models said.

T encoder frames, J frame width, V classes with blank last.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from vrt.rnnt.config import BeamConfig, BeamError
from vrt.rnnt.fusion import FusionState, fused
from vrt.rnnt.nbest import Hypothesis
from vrt.rnnt.scorer import Scorer
from vrt.rnnt.trace import Table


@torch.no_grad()
def why(
    scorer: Scorer, frames: Float[Tensor, "T J"], hypothesis: Hypothesis, config: BeamConfig
) -> Table:
    """One row for each step of the hypothesis's alignment, natural-log units.

    `acoustic`, `fusion` (alphas in it) and `total` are of the class that was taken; `blank` and
    `blank_total` of blank, before and after `blank_lm_score_mode`; `best_label`, its parts and
    `best_total` of the label that the totals put first: where blank was taken, what it won
    against. The totals add up to the hypothesis's score, less what other alignments added to it.
    `frames` and `config` are those of the search.

    Raises:
        BeamError: a hypothesis without alignment.
    """
    if hypothesis.alignment is None:
        raise BeamError("why needs an alignment; search with BeamConfig(preserve_alignments=True)")
    models = [part.model for part in config.fusion]
    states = [FusionState.of(model, model.start(1)) for model in models]
    predictor = scorer.start(1)
    here = torch.zeros(1, dtype=torch.int64, device=frames.device)
    rows, symbols, frame = [], 0, -1
    for step in hypothesis.alignment:
        symbols = symbols if step.frame == frame else 0
        frame = step.frame
        acoustic = scorer.log_probs(frames[frame : frame + 1], predictor)
        scores, total = _fused(acoustic, states, config)
        taken, blank = step.label, scorer.blank
        capped = config.max_symbols is not None and symbols >= config.max_symbols
        if capped and config.pruning_mode == "early":
            total[blank] = acoustic[0, blank]  # as the search has it: forced, it stays unfused
        rows.append(_row(frame, taken, blank, acoustic[0], scores, total))
        if taken == blank:
            continue
        symbols += 1
        label = here + taken
        predictor = scorer.advance(predictor, here, label)
        emitted = torch.ones_like(here, dtype=torch.bool)
        states = [
            state.advance(model, here, label, emitted)
            for model, state in zip(models, states, strict=True)
        ]
    return Table(rows)


def _fused(
    acoustic: Float[Tensor, "1 V"], states: list[FusionState], config: BeamConfig
) -> tuple[Float[Tensor, "V"], Float[Tensor, "V"]]:
    """Fusion scores of every class, 0 for blank, and what the search makes of them."""
    scores = torch.zeros_like(acoustic)
    if not states:
        return scores[0], acoustic[0].clone()
    for part, state in zip(config.fusion, states, strict=True):
        scores[:, :-1] += state.scores.to(acoustic.dtype) * part.alpha
    total = fused(
        acoustic[None], scores[None, :, :-1], config.alpha_sum, config.blank_lm_score_mode
    )
    return scores[0], total[0, 0]


def _row(
    frame: int,
    taken: int,
    blank: int,
    acoustic: Float[Tensor, "V"],
    scores: Float[Tensor, "V"],
    total: Float[Tensor, "V"],
) -> dict[str, int | float | bool]:
    labels = total.clone()
    labels[blank] = -torch.inf
    best = int(labels.argmax())
    return {
        "frame": frame,
        "label": taken,
        "is_blank": taken == blank,
        "acoustic": float(acoustic[taken]),
        "fusion": float(scores[taken]),
        "total": float(total[taken]),
        "blank": float(acoustic[blank]),
        "blank_total": float(total[blank]),
        "best_label": best,
        "best_acoustic": float(acoustic[best]),
        "best_fusion": float(scores[best]),
        "best_total": float(total[best]),
    }
