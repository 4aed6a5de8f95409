"""Beam search of a token-and-duration transducer (TDT), as NeMo's `malsd_batch` does it.

B utterances, K beam slots, V classes with blank, D durations, P = V*D pairs of a class and a
duration (pair = class * D + column of the duration), T encoder frames, J frame width, R = B*K rows.

Every hypothesis takes one pair an iteration, scored log P(class) + log P(duration), and moves on by
the duration: labels too, or by none (duration 0). A blank moves by one frame at least, so blank
with duration 0 and with duration 1 are two candidates that do the same, and are merged. A
hypothesis is final when it has moved past its last frame, by how far is not cut off; it then
competes as it is, by its score. Slots are merged if they spell the same labels and stand at the
same frame. After `max_symbols` labels of duration 0 at a frame a hypothesis must take blank, with
its best duration; a label that moves on starts the count again.

Token timestamps are the frames at which tokens were emitted, token durations the frames moved on.

Sources: Xu, Jia, Majumdar, Huang, Watanabe, Ginsburg, "Efficient Sequence Transduction by Jointly
Predicting Tokens and Durations" (ICML 2023); NeMo 3.0.0, `ModifiedALSDBatchedTDTComputer`,
`BatchedBeamHyps`. Where they differ in what a step moves by, and in how finished hypotheses meet,
see `TdtConfig`.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from vrt.rnnt.beam import Beam
from vrt.rnnt.beam import refuse_config as refuse_rnnt_config
from vrt.rnnt.config import BeamError
from vrt.rnnt.frames import Frames
from vrt.rnnt.fusion import FusionState
from vrt.rnnt.hypotheses import BeamHypotheses
from vrt.rnnt.limits import goes_on, refuse_lengths, refuse_undefined
from vrt.rnnt.malsd import Observer, advance, at_cap, expand, with_fusion
from vrt.rnnt.nbest import NBest
from vrt.rnnt.tdt_config import TdtConfig
from vrt.rnnt.tdt_nbest import nbest_with_durations
from vrt.rnnt.tdt_scorer import DurationScorer, both_rows, jumps_of, refuse_durations
from vrt.rnnt.ties import top_k
from vrt.rnnt.trace import Iteration


class Spelled(NamedTuple):
    """Slots after a pruning."""

    score: Float[Tensor, "B K"]
    same: Bool[Tensor, "B K K"]  # labels are equal, wherever the slots stand


def tdt_malsd(
    scorer: DurationScorer,
    frames: Float[Tensor, "B T J"],
    lengths: Int[Tensor, "B"],
    config: TdtConfig | None = None,
    observer: Observer | None = None,
) -> list[NBest]:
    """The n-best list of each utterance, with `durations` beside the timestamps.

    Arguments are those of `malsd`. An `observer` (see `Trace`) gets its iterations with pairs in
    place of classes in `log_probs` and `rows`; the time a slot moved on by is its `time_index` less
    that of its parent. With `preserve_alignments`, a step's log-probability and a token's
    confidence are those of label and duration together.

    Raises:
        BeamError: durations that are none, K > P (K > V with early pruning), T = 0, lengths outside
            0..T, scores that are no log-probabilities, or a search that does not end.
    """
    config = config or TdtConfig()
    beam = search(scorer, frames, lengths, config, observer)
    return nbest_with_durations(beam.hyps, config.beam)


@torch.no_grad()
def search(
    scorer: DurationScorer,
    frames: Float[Tensor, "B T J"],
    lengths: Int[Tensor, "B"],
    config: TdtConfig,
    observer: Observer | None = None,
) -> Beam:
    """As `tdt_malsd`; returns the finished beam itself."""
    refuse_lengths(frames, lengths)
    beam = begin(scorer, len(frames), config, frames.dtype, frames.device)
    there = Frames.of(frames, lengths.long())
    beam.active = beam.active & there.nonempty
    while goes_on(beam, config.beam, frames.shape[1]):
        step(scorer, there, beam, config, observer)
    return beam


def begin(
    scorer: DurationScorer, batch: int, config: TdtConfig, dtype: torch.dtype, device: torch.device
) -> Beam:
    """One empty hypothesis an utterance, the predictor fed the start symbol."""
    refuse_config(scorer, config)
    rows = batch * config.beam.beam_size
    hyps = BeamHypotheses.start(batch, config.beam.beam_size, scorer.blank, dtype, device)
    if config.beam.preserve_alignments:
        hyps.history.log_probs = []
    models = [part.model for part in config.beam.fusion]
    fusion = tuple(FusionState.of(model, model.start(rows)) for model in models)
    return Beam(hyps, torch.ones_like(hyps.alive), scorer.start(rows), fusion)


def refuse_config(scorer: DurationScorer, config: TdtConfig) -> None:
    """Before any work."""
    refuse_durations(scorer)
    size, vocab, beam = config.beam.beam_size, scorer.vocab, config.beam
    refuse_rnnt_config(scorer, replace(beam, beam_size=1))  # there are more pairs than classes
    if size > vocab * len(scorer.durations):
        raise BeamError(
            f"beam_size {size} is larger than {vocab} classes (blank included) times"
            f" {len(scorer.durations)} durations: use a beam_size of at most"
            f" {vocab * len(scorer.durations)}"
        )
    if beam.fusion and beam.pruning_mode == "early" and size > vocab:
        raise BeamError(
            f"beam_size {size} is larger than the scorer's {vocab} classes (blank included), of"
            f" which early pruning takes as many: use at most {vocab}, or pruning_mode='late'"
        )


def step(
    scorer: DurationScorer,
    frames: Frames,
    beam: Beam,
    config: TdtConfig,
    observer: Observer | None = None,
) -> Spelled:
    """One iteration, in NeMo's order. Prune first, then merge: never the reverse. Returns what the
    merge decided by, for a stream whose end is not known yet."""
    hyps = beam.hyps
    # 1. Log-probabilities of all classes and durations, each slot at its own frame.
    acoustic, durations = (
        part.unflatten(0, hyps.scores.shape).to(hyps.scores.dtype)
        for part in both_rows(scorer, frames.at(hyps.times), beam.predictor)
    )
    refuse_undefined(acoustic, beam)
    refuse_undefined_durations(durations, beam)
    # 2. The K best pairs of each slot, and its blank with its best duration.
    rows, values, pairs, blank = best_pairs(acoustic, durations, beam, config)
    # 3. to 5. K candidates from each slot.
    capped = at_cap(beam, config.beam)
    columns = pairs % durations.shape[-1]
    candidates, labels = expand(beam, values, pairs // durations.shape[-1], blank, capped)
    # 6. The K best candidates become the slots, in the order of their scores.
    score, index = top_k(candidates.flatten(1), config.beam.beam_size, config.beam.ties)
    parent = index // config.beam.beam_size
    label, column = labels.flatten(1).gather(-1, index), columns.flatten(1).gather(-1, index)
    # 7. Store them. Every counter comes from the parent.
    extend(hyps, parent, label, jumps(scorer, label, column, config), score)
    if hyps.history.log_probs is not None:
        hyps.history.log_probs.append(taken(acoustic, durations, parent, label, column))
    # 8. Merge slots that have come to the same. What that frees is refilled by the next pruning.
    spelled = Spelled(score, hyps.equal(config.beam.collisions))
    same = spelled.same & same_place(hyps.times, frames, config)
    hyps.merge(same)
    # 9. Predictor and fusion models move on labels; blank and final slots keep the parent's.
    advance(scorer, beam, parent, label, config.beam)
    # 10. Who has frames left to read.
    beam.active = (hyps.times <= frames.last) & frames.nonempty
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
                log_probs=paired(acoustic, durations),
                rows=rows,
                candidates=candidates,
                candidate_labels=labels,
            )
        )
    return spelled


def paired(
    classes: Float[Tensor, "B K n"], durations: Float[Tensor, "B K D"]
) -> Float[Tensor, "B K n*D"]:
    """The score of every class with every duration."""
    return (classes.unsqueeze(-1) + durations.unsqueeze(-2)).flatten(-2)


def best_pairs(
    acoustic: Float[Tensor, "B K V"],
    durations: Float[Tensor, "B K D"],
    beam: Beam,
    config: TdtConfig,
) -> tuple[
    Float[Tensor, "B K P"], Float[Tensor, "B K K"], Int64[Tensor, "B K K"], Float[Tensor, "B K"]
]:
    """The rows that decide, values and pairs of each slot's K best by them, and the value of its
    blank with the best duration.

    With fusion, `late` decides by the fused rows. `early` takes the K best classes by the acoustic
    ones, fuses those and decides between them and their durations; the blank forced on a slot at
    its cap is unfused, as in NeMo.
    """
    size, ties, blank = config.beam.beam_size, config.beam.ties, beam.hyps.blank
    fused, best = with_fusion(acoustic, beam, config.beam), durations.amax(-1)
    if config.beam.fusion and config.beam.pruning_mode == "early":
        _, classes = top_k(acoustic, size, ties)
        values, where = top_k(paired(fused.gather(-1, classes), durations), size, ties)
        count = durations.shape[-1]
        pairs = classes.gather(-1, where // count) * count + where % count
        return paired(acoustic, durations), values, pairs, acoustic[..., blank] + best
    rows = paired(fused, durations)
    values, pairs = top_k(rows, size, ties)
    return rows, values, pairs, fused[..., blank] + best


def jumps(
    scorer: DurationScorer,
    label: Int64[Tensor, "B K"],
    column: Int64[Tensor, "B K"],
    config: TdtConfig,
) -> Int64[Tensor, "B K"]:
    """Frames that each new slot moves on by. A forced blank has the column of its slot's best pair,
    which is that of its best duration."""
    if config.jumps == "durations":
        column = torch.tensor(scorer.durations, device=column.device)[column]
    return jumps_of(column, label == scorer.blank).where(label >= 0, 0)


def extend(
    hyps: BeamHypotheses,
    parent: Int64[Tensor, "B K"],
    label: Int64[Tensor, "B K"],
    jump: Int64[Tensor, "B K"],
    score: Float[Tensor, "B K"],
) -> None:
    """Slot k becomes slot `parent[k]` with `label[k]` appended, `jump[k]` frames on."""
    times, symbols = hyps.times.gather(-1, parent), hyps.symbols.gather(-1, parent)
    is_label = (label >= 0) & (label != hyps.blank)
    # Stamps are those of an RNN-T: a label's the frame it was emitted at, a blank's the one after.
    hyps.extend(parent, label, score)
    hyps.times = times + jump
    hyps.symbols = (symbols + is_label).where(jump == 0, 0)


def same_place(
    times: Int64[Tensor, "B K"], frames: Frames, config: TdtConfig
) -> Bool[Tensor, "B K K"]:
    """Slots that stand at the same frame; those that have left the last one stand together behind
    it, unless `finals` is "nemo"."""
    if config.finals == "merged":
        times = times.minimum(frames.last + 1)
    return times.unsqueeze(-1) == times.unsqueeze(-2)


def taken(
    acoustic: Float[Tensor, "B K V"],
    durations: Float[Tensor, "B K D"],
    parent: Int64[Tensor, "B K"],
    label: Int64[Tensor, "B K"],
    column: Int64[Tensor, "B K"],
) -> Float[Tensor, "B K"]:
    """Acoustic log-probability of the pair each slot took; 0 where it was carried over."""
    rows = torch.arange(len(parent), device=parent.device).unsqueeze(-1)
    both = acoustic[rows, parent, label.clamp(min=0)] + durations[rows, parent, column]
    return both.where(label >= 0, 0.0)


def refuse_undefined_durations(durations: Float[Tensor, "B K D"], beam: Beam) -> None:
    """As `refuse_undefined`, of durations."""
    used = (beam.active & beam.hyps.alive).unsqueeze(-1)
    wrong = used & ~(durations < torch.inf)
    if not wrong.any():
        return
    row, slot, column = wrong.nonzero()[0].tolist()
    raise BeamError(
        f"log-probability {durations[row, slot, column].item()} of duration number {column} at"
        f" encoder frame {int(beam.hyps.times[row, slot])} of utterance {row} (beam slot {slot}):"
        " the scorer must give numbers below +inf; look for NaN or overflow in frames and weights"
    )
