"""Alignment-length synchronous beam search of a transducer, as NeMo's `malsd_batch` does it.

B utterances, K beam slots, V classes with blank, T encoder frames, J frame width, R = B*K rows.
Every hypothesis takes one symbol an iteration: blank moves it to the next encoder frame, a label
keeps it there, until it has read its last frame and is final. Sources: Saon, Tüske, Audhkhasi,
"Alignment-Length Synchronous Decoding for RNN Transducer" (ICASSP 2020), without its length
estimate and predictor cache; NeMo 3.0.0, `ModifiedALSDBatchedRNNTComputer`, `BatchedBeamHyps`.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from vrt.rnnt.beam import Beam, begin
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.frames import Frames
from vrt.rnnt.fusion import fused
from vrt.rnnt.hypotheses import CARRIED, DEAD
from vrt.rnnt.limits import goes_on, refuse_lengths, refuse_tdt, refuse_undefined
from vrt.rnnt.nbest import NBest, nbest
from vrt.rnnt.scorer import Scorer
from vrt.rnnt.ties import top_k
from vrt.rnnt.trace import Iteration

Observer = Callable[[Iteration], None]


def malsd(
    scorer: Scorer,
    frames: Float[Tensor, "B T J"],
    lengths: Int[Tensor, "B"],
    config: BeamConfig | None = None,
    observer: Observer | None = None,
) -> list[NBest]:
    """The n-best list of each utterance.

    `frames` are those that `scorer.log_probs` reads; scores have their dtype. `lengths` count each
    utterance's frames, the rest of T is padding. `observer` is called with the arrays of every
    iteration (see `Trace`).

    Raises:
        BeamError: K > V, T = 0, lengths outside 0..T, scores that are no log-probabilities, or a
            search without `max_symbols` that does not end.
    """
    config = config or BeamConfig()
    hyps = search(scorer, frames, lengths, config, observer).hyps
    return nbest(hyps, config.score_norm, config.ties)


@torch.no_grad()
def search(
    scorer: Scorer,
    frames: Float[Tensor, "B T J"],
    lengths: Int[Tensor, "B"],
    config: BeamConfig,
    observer: Observer | None = None,
) -> Beam:
    """As `malsd`; returns the finished beam itself."""
    refuse_tdt(scorer)
    refuse_lengths(frames, lengths)
    beam = begin(scorer, len(frames), config, frames.dtype, frames.device)
    there = Frames.of(frames, lengths.long())
    beam.active = beam.active & there.nonempty
    while goes_on(beam, config, frames.shape[1]):
        step(scorer, there, beam, config, observer)
    return beam


def step(
    scorer: Scorer, frames: Frames, beam: Beam, config: BeamConfig, observer: Observer | None = None
) -> None:
    """One iteration, in NeMo's order. Prune first, then merge: never the reverse."""
    hyps = beam.hyps
    # 1. Log-probabilities of all classes, each slot at its own frame.
    acoustic = scorer.log_probs(frames.at(hyps.times), beam.predictor)
    acoustic = acoustic.unflatten(0, hyps.scores.shape).to(hyps.scores.dtype)
    refuse_undefined(acoustic, beam)
    # 2. The K best labels of each slot.
    rows, values, labels, blank = best_labels(acoustic, beam, config)
    # 3. to 5. K candidates from each slot.
    capped = at_cap(beam, config)
    candidates, labels = expand(beam, values, labels, blank, capped)
    # 6. The K best candidates become the slots, in the order of their scores.
    parent, label, score = prune(candidates, labels, config)
    # 7. Store them. Every counter comes from the parent.
    hyps.extend(parent, label, score)
    if hyps.history.log_probs is not None:
        hyps.history.log_probs.append(taken(acoustic, parent, label))
    # 8. Merge slots that spell the same labels. What that frees is refilled by the next pruning.
    same = hyps.equal(config.collisions)
    hyps.merge(same)
    # 9. Predictor and fusion models move on labels; blank and final slots keep the parent's.
    advance(scorer, beam, parent, label, config)
    # 10. Who has frames left to read.
    beam.active = reads_on(hyps.times, frames, config)
    beam.iterations += 1
    if observer is not None:
        observer(
            Iteration(
                forced_blank_parent=capped,
                parent=parent,
                label=label,
                score_pruned=score,
                equal=same,
                score=hyps.scores,
                last_label=hyps.last_label,
                length_nonblank=hyps.lengths,
                length_with_blank=beam.iterations,
                symbols_at_time=hyps.symbols,
                time_index=hyps.times,
                safe_time_index=frames.clamped(hyps.times),
                active=beam.active,
                hash=hyps.hashes,
                log_probs=acoustic,
                rows=rows,
                candidates=candidates,
                candidate_labels=labels,
            )
        )


def best_labels(
    acoustic: Float[Tensor, "B K V"], beam: Beam, config: BeamConfig
) -> tuple[
    Float[Tensor, "B K V"],
    Float[Tensor, "B K K"],
    Int64[Tensor, "B K K"],
    Float[Tensor, "B K"],
]:
    """The rows that decide, values and labels of each slot's K best by them, and the value of its
    blank, in the K or not.

    With fusion, `late` decides by the fused rows. `early` decides by the acoustic ones and adds
    the fusion scores afterwards: its K values are no longer sorted, and the blank forced on a slot
    at its cap is unfused, as in NeMo.
    """
    size, blank = config.beam_size, beam.hyps.blank
    both = with_fusion(acoustic, beam, config)
    rows = acoustic if config.pruning_mode == "early" else both
    values, labels = top_k(rows, size, config.ties)
    if config.pruning_mode == "early":
        values = both.gather(-1, labels)
    return rows, values, labels, rows[..., blank]


def with_fusion(
    acoustic: Float[Tensor, "B K V"], beam: Beam, config: BeamConfig
) -> Float[Tensor, "B K V"]:
    if not config.fusion:
        return acoustic
    parts = zip(config.fusion, beam.fusion, strict=True)
    scores = sum(state.scores.to(acoustic.dtype) * part.alpha for part, state in parts)
    scores = scores.unflatten(0, acoustic.shape[:2])
    return fused(acoustic, scores, config.alpha_sum, config.blank_lm_score_mode)


def at_cap(beam: Beam, config: BeamConfig) -> Bool[Tensor, "B K"]:
    """Slots that have taken `max_symbols` labels at their frame and must take blank."""
    if config.max_symbols is None:
        return torch.zeros_like(beam.active)
    return beam.active & (beam.hyps.symbols >= config.max_symbols)


def expand(
    beam: Beam,
    values: Float[Tensor, "B K K"],
    labels: Int64[Tensor, "B K K"],
    blank: Float[Tensor, "B K"],
    capped: Bool[Tensor, "B K"],
) -> tuple[Float[Tensor, "B K K"], Int64[Tensor, "B K K"]]:
    """Total scores and labels of K candidates a slot."""
    hyps, active = beam.hyps, beam.active
    # 3. A dead slot has none, whatever the scorer says of it.
    extended = active & hyps.alive & ~capped
    candidates = (hyps.scores.unsqueeze(-1) + values).where(extended.unsqueeze(-1), DEAD)
    # 4. A final slot has one: itself, at an unchanged score.
    only = hyps.scores.where(~active, DEAD)
    labels = labels.where(active.unsqueeze(-1), CARRIED)
    # 5. A slot at its cap has one: blank.
    only = (hyps.scores + blank).where(capped & hyps.alive, only)
    labels = labels.where(~capped.unsqueeze(-1), hyps.blank)
    first = candidates[..., 0].where(extended, only)
    return torch.cat([first.unsqueeze(-1), candidates[..., 1:]], dim=-1), labels


def prune(
    candidates: Float[Tensor, "B K K"], labels: Int64[Tensor, "B K K"], config: BeamConfig
) -> tuple[Int64[Tensor, "B K"], Int64[Tensor, "B K"], Float[Tensor, "B K"]]:
    """Parent, label and score of the K best of an utterance's K*K candidates."""
    score, index = top_k(candidates.flatten(1), config.beam_size, config.ties)
    return index // config.beam_size, labels.flatten(1).gather(-1, index), score


def taken(
    acoustic: Float[Tensor, "B K V"], parent: Int64[Tensor, "B K"], label: Int64[Tensor, "B K"]
) -> Float[Tensor, "B K"]:
    """Acoustic log-probability of the step each slot took; 0 where it was carried over."""
    rows = torch.arange(len(parent), device=parent.device).unsqueeze(-1)
    return acoustic[rows, parent, label.clamp(min=0)].where(label >= 0, 0.0)


def advance(
    scorer: Scorer,
    beam: Beam,
    parent: Int64[Tensor, "B K"],
    label: Int64[Tensor, "B K"],
    config: BeamConfig,
) -> None:
    """The predictor's and the fusion models' states of the new slots, from those of the old."""
    batch, size = parent.shape
    offsets = torch.arange(batch, device=parent.device).unsqueeze(-1) * size
    parents, labels = (parent + offsets).flatten(), label.flatten()
    beam.predictor = scorer.advance(beam.predictor, parents, labels)
    emitted = (labels >= 0) & (labels != scorer.blank)
    beam.fusion = tuple(
        state.advance(part.model, parents, labels, emitted)
        for part, state in zip(config.fusion, beam.fusion, strict=True)
    )


def reads_on(
    times: Int64[Tensor, "B K"], frames: Frames, config: BeamConfig
) -> Bool[Tensor, "B K"]:
    """NeMo forgets here that an utterance may have no frames, and decodes its padding."""
    active = times <= frames.last
    return active if config.zero_length == "nemo" else active & frames.nonempty
