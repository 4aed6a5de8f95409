"""Mistakes that ports of the beam search make, made on purpose: each patches one piece of vrt."""

from importlib import import_module

import torch

from vrt.rnnt.history import History
from vrt.rnnt.hypotheses import DEAD, HASH_MULTIPLIER, BeamHypotheses
from vrt.rnnt.toy import ToyScorer

search_module = import_module("vrt.rnnt.malsd")  # the package's `malsd` is the function
answer_module = import_module("vrt.golden.malsd_answer")


def _spelled(beam, labels):
    """Hashes, last labels and lengths of all K*K candidates, [B, K*K, 3]."""
    hyps = beam.hyps
    is_label = (labels >= 0) & (labels != hyps.blank)
    hashes = hyps.hashes.unsqueeze(-1).expand_as(labels)
    hashes = (hashes * HASH_MULTIPLIER + 1 + labels).where(is_label, hashes)
    last = labels.where(is_label, hyps.last_label.unsqueeze(-1))
    lengths = hyps.lengths.unsqueeze(-1) + is_label
    return torch.stack([hashes, last, lengths], dim=-1).flatten(1, 2)


def _merged(scores, keys):
    """Sums of equal candidates at the best of them, -inf at the others."""
    same = (keys.unsqueeze(-2) == keys.unsqueeze(-3)).all(-1)
    rows = scores.unsqueeze(-2).where(same, DEAD)
    first = rows.argmax(-1) == torch.arange(scores.shape[-1])
    return rows.logsumexp(-1).where(first, DEAD)


def merge_before_prune(patch):
    expand = search_module.expand

    def merged_first(beam, values, labels, blank, capped):
        candidates, labels = expand(beam, values, labels, blank, capped)
        merged = _merged(candidates.flatten(1), _spelled(beam, labels))
        return merged.view_as(candidates), labels

    patch.setattr(search_module, "expand", merged_first)


def refill_after_merge(patch):
    expand, prune, kept = search_module.expand, search_module.prune, []

    def remembering(beam, values, labels, blank, capped):
        candidates, labels = expand(beam, values, labels, blank, capped)
        kept[:] = [_spelled(beam, labels)]
        return candidates, labels

    def refilled(candidates, labels, config):
        size, flat = config.beam_size, candidates.flatten(1).clone()
        order = flat.sort(dim=-1, descending=True, stable=True).indices
        best = order[:, :size]
        keys = kept[0].gather(1, best.unsqueeze(-1).expand(-1, -1, 3))
        flat.scatter_(-1, best, _merged(flat.gather(-1, best), keys))
        return prune(flat.view_as(candidates), labels, config)

    patch.setattr(search_module, "expand", remembering)
    patch.setattr(search_module, "prune", refilled)
    patch.setattr(BeamHypotheses, "merge", lambda self, same: None)


def _extend_with(patch, change):
    extend = BeamHypotheses.extend

    def changed(self, parent, label, score):
        before = BeamHypotheses(**vars(self))
        extend(self, parent, label, score)
        change(self, before, parent, label)

    patch.setattr(BeamHypotheses, "extend", changed)


def counter_from_the_wrong_slot(patch):
    def change(after, before, parent, label):
        taken = (label >= 0) & (label != after.blank)
        after.symbols = (before.symbols + taken).where(label != after.blank, 0)

    _extend_with(patch, change)


def counter_not_reset_on_blank(patch):
    def change(after, before, parent, label):
        taken = (label >= 0) & (label != after.blank)
        after.symbols = before.symbols.gather(-1, parent) + taken

    _extend_with(patch, change)


def last_label_is_blank_too(patch):
    def change(after, before, parent, label):
        after.last_label = label.where(label >= 0, before.last_label.gather(-1, parent))

    _extend_with(patch, change)


def hash_without_the_1(patch):
    def change(after, before, parent, label):
        taken = (label >= 0) & (label != after.blank)
        hashes = before.hashes.gather(-1, parent)
        after.hashes = (hashes * HASH_MULTIPLIER + label).where(taken, hashes)

    _extend_with(patch, change)


def length_of_the_wrong_slot(patch):
    def change(after, before, parent, label):
        taken = (label >= 0) & (label != after.blank)
        after.lengths = before.lengths + taken

    _extend_with(patch, change)


def _merge_with(patch, change):
    merge = BeamHypotheses.merge

    def changed(self, same):
        before = BeamHypotheses(**vars(self))
        merge(self, same)
        change(self, before, same)

    patch.setattr(BeamHypotheses, "merge", changed)


def winner_takes_the_losers_counter(patch):
    def change(after, before, same):
        living = same & before.alive.unsqueeze(-1) & before.alive.unsqueeze(-2)
        symbols = before.symbols.unsqueeze(-2).where(living, -1).amax(-1)
        after.symbols = symbols.where(before.alive, before.symbols)

    _merge_with(patch, change)


def merge_keeps_the_best_score_only(patch):
    def change(after, before, same):
        after.scores = before.scores.where(after.alive, DEAD)

    _merge_with(patch, change)


def no_merge(patch):
    patch.setattr(BeamHypotheses, "merge", lambda self, same: None)


def merge_by_last_label_only(patch):
    def equal(self, collisions):
        return self.last_label.unsqueeze(-1) == self.last_label.unsqueeze(-2)

    patch.setattr(BeamHypotheses, "equal", equal)


def missing_restore_on_blank(patch):
    """Blank rows keep what stood in their own slot, not what their parent had."""

    def advance(self, state, parents, labels):
        moves = enumerate(zip(parents.tolist(), labels.tolist(), strict=True))
        return [state[p] + (v,) if 0 <= v != self.blank else state[row] for row, (p, v) in moves]

    patch.setattr(ToyScorer, "advance", advance)


def predictor_run_for_blank(patch):
    def advance(self, state, parents, labels):
        moves = zip(parents.tolist(), labels.tolist(), strict=True)
        return [state[p] + ((v,) if v >= 0 else ()) for p, v in moves]

    patch.setattr(ToyScorer, "advance", advance)


def length_divisor_without_1(patch):
    nbest = answer_module.nbest

    def undivided(hyps, *args, **options):
        changed = BeamHypotheses(**vars(hyps))
        changed.lengths = (hyps.lengths - 1).clamp(min=0)
        return nbest(changed, *args, **options)

    patch.setattr(answer_module, "nbest", undivided)


def parents_one_column_off(patch):
    paths = History.paths

    def off(self):
        shifted = History(self.tokens, [self.parents[0], *self.parents[:-1]], self.stamps)
        return paths(shifted)

    patch.setattr(History, "paths", off)


def label_stamp_of_the_next_frame(patch):
    def change(after, before, parent, label):
        taken = (label >= 0) & (label != after.blank)
        after.history.stamps[-1] = after.history.stamps[-1] + taken

    _extend_with(patch, change)


def forced_blank_from_the_best_labels_only(patch):
    best_labels = search_module.best_labels

    def among_best(acoustic, beam, config):
        rows, values, labels, _ = best_labels(acoustic, beam, config)
        there = values.where(labels == beam.hyps.blank, DEAD).amax(-1)
        return rows, values, labels, there

    patch.setattr(search_module, "best_labels", among_best)


def cap_one_label_late(patch):
    at_cap = search_module.at_cap

    def late(beam, config):
        return at_cap(beam, config) & (beam.hyps.symbols > (config.max_symbols or 0))

    patch.setattr(search_module, "at_cap", late)


def final_hypothesis_pinned_to_slot_0(patch):
    """Final hypotheses first, the others behind them by score."""
    prune = search_module.prune

    def pinned(candidates, labels, config):
        parent, label, score = prune(candidates, labels, config)
        final = (label == -1) & (score > DEAD)
        order = torch.sort((~final).int(), dim=-1, stable=True).indices
        return tuple(part.gather(-1, order) for part in (parent, label, score))

    patch.setattr(search_module, "prune", pinned)


def final_hypothesis_dropped(patch):
    expand = search_module.expand

    def dropped(beam, values, labels, blank, capped):
        candidates, labels = expand(beam, values, labels, blank, capped)
        going = (beam.active & beam.hyps.alive).any(-1)
        return candidates.where((labels != -1) | ~going[:, None, None], DEAD), labels

    patch.setattr(search_module, "expand", dropped)


def one_frame_too_many(patch):
    def reads_on(times, frames, config):
        return times <= frames.last + 1

    patch.setattr(search_module, "reads_on", reads_on)


def ties_the_other_way(patch):
    top_k = search_module.top_k

    def last_first(values, k, ties):
        found, index = top_k(values.flip(-1), k, ties)
        return found, values.shape[-1] - 1 - index

    patch.setattr(search_module, "top_k", last_first)


def forced_blank_unfused_in_late_mode(patch):
    best_labels = search_module.best_labels

    def unfused(acoustic, beam, config):
        rows, values, labels, _ = best_labels(acoustic, beam, config)
        return rows, values, labels, acoustic[..., beam.hyps.blank]

    patch.setattr(search_module, "best_labels", unfused)


def fusion_state_moves_on_blank(patch):
    advance = search_module.advance

    def moved(scorer, beam, parent, label, config):
        before = beam.fusion
        advance(scorer, beam, parent, label, config)
        start = [part.model.start(label.numel()) for part in config.fusion]
        blank = (label == scorer.blank).flatten()
        beam.fusion = tuple(
            type(state).of(part.model, begun.where(blank, state.states))
            for part, state, begun in zip(config.fusion, beam.fusion, start, strict=True)
        )
        assert len(before) == len(beam.fusion)

    patch.setattr(search_module, "advance", moved)


def zero_length_row_kept_empty(patch):
    def reads_on(times, frames, config):
        return (times <= frames.last) & frames.nonempty

    patch.setattr(search_module, "reads_on", reads_on)


def collisions_verified(patch):
    equal = BeamHypotheses.equal
    patch.setattr(BeamHypotheses, "equal", lambda self, collisions: equal(self, "verify"))


# Each with the shipped golden file that is there for it.
MISTAKES = {
    merge_before_prune: "merge-after-pruning",
    refill_after_merge: "merge-frees-a-slot",
    counter_from_the_wrong_slot: "forced-blank",
    counter_not_reset_on_blank: "cap-1",
    last_label_is_blank_too: "merge-same-label",
    hash_without_the_1: "merge-sums",
    length_of_the_wrong_slot: "score-norm",
    winner_takes_the_losers_counter: "merge-winner-counter",
    merge_keeps_the_best_score_only: "merge-sums",
    no_merge: "merge-dead-twin",
    merge_by_last_label_only: "merge-same-label",
    missing_restore_on_blank: "merge-many",
    predictor_run_for_blank: "beam-1",
    length_divisor_without_1: "score-norm",
    parents_one_column_off: "uneven",
    label_stamp_of_the_next_frame: "one-frame",
    forced_blank_from_the_best_labels_only: "forced-blank-outside-k",
    cap_one_label_late: "forced-blank",
    final_hypothesis_pinned_to_slot_0: "final-not-first",
    final_hypothesis_dropped: "final-pruned",
    one_frame_too_many: "padded",
    ties_the_other_way: "tie-all",
    forced_blank_unfused_in_late_mode: "fusion-late-weighted-two",
    fusion_state_moves_on_blank: "fusion-late-unscored",
    zero_length_row_kept_empty: "zero-length",
    collisions_verified: "hash-collision",
}
# What these change shows in the trace alone.
TRACE_ONLY = {hash_without_the_1, final_hypothesis_pinned_to_slot_0}
