"""Mistakes that ports of the TDT search make, made on purpose: each patches one piece of vrt."""

from importlib import import_module

import torch
from rnnt_mistakes import missing_restore_on_blank, predictor_run_for_blank

from vrt.rnnt.history import History
from vrt.rnnt.hypotheses import DEAD, BeamHypotheses

tdt = import_module("vrt.rnnt.tdt")
read = import_module("vrt.rnnt.tdt_nbest")


def blank_of_duration_0_stays(patch):
    patch.setattr(tdt, "jumps_of", lambda durations, is_blank: durations)


def labels_do_not_move(patch):
    jumps = tdt.jumps

    def still(scorer, label, column, config):
        return jumps(scorer, label, column, config).where(label == scorer.blank, 0)

    patch.setattr(tdt, "jumps", still)


def the_column_for_the_duration(patch):
    def by_column(scorer, label, column, config):
        return tdt.jumps_of(column, label == scorer.blank).where(label >= 0, 0)

    patch.setattr(tdt, "jumps", by_column)


def a_final_hypothesis_moves_on(patch):
    def moving(scorer, label, column, config):
        durations = torch.tensor(scorer.durations)[column]
        return tdt.jumps_of(durations, label == scorer.blank)

    patch.setattr(tdt, "jumps", moving)


def the_duration_of_the_slots_best_label(patch):
    """Label and duration chosen one after the other: the duration is always the best."""
    best_pairs = tdt.best_pairs

    def apart(acoustic, durations, beam, config):
        rows, values, pairs, blank = best_pairs(acoustic, durations, beam, config)
        count = durations.shape[-1]
        best = durations.argmax(-1, keepdim=True)
        return rows, values, pairs // count * count + best, blank

    patch.setattr(tdt, "best_pairs", apart)


def durations_without_a_score(patch):
    paired = tdt.paired
    patch.setattr(tdt, "paired", lambda classes, durations: paired(classes, durations * 0))


def forced_blank_without_a_duration_score(patch):
    best_pairs = tdt.best_pairs

    def unscored(acoustic, durations, beam, config):
        rows, values, pairs, blank = best_pairs(acoustic, durations, beam, config)
        return rows, values, pairs, blank - durations.amax(-1)

    patch.setattr(tdt, "best_pairs", unscored)


def forced_blank_moves_one_frame(patch):
    expand = tdt.expand
    jumps = tdt.jumps
    kept = []

    def remembering(beam, values, labels, blank, capped):
        kept[:] = [capped]
        return expand(beam, values, labels, blank, capped)

    def one(scorer, label, column, config):
        moved = jumps(scorer, label, column, config)
        return moved.where(~(kept[0].any() & (label == scorer.blank)), moved.clamp(max=1))

    patch.setattr(tdt, "expand", remembering)
    patch.setattr(tdt, "jumps", one)


def _extend(patch, change):
    extend = tdt.extend

    def changed(hyps, parent, label, jump, score):
        before = BeamHypotheses(**vars(hyps))
        extend(hyps, parent, label, jump, score)
        change(hyps, before, parent, label, jump)

    patch.setattr(tdt, "extend", changed)


def counter_kept_over_a_moving_label(patch):
    def change(after, before, parent, label, jump):
        taken = (label >= 0) & (label != after.blank)
        symbols = before.symbols.gather(-1, parent) + taken
        after.symbols = symbols.where(label != after.blank, 0)

    _extend(patch, change)


def counter_of_the_wrong_slot(patch):
    def change(after, before, parent, label, jump):
        taken = (label >= 0) & (label != after.blank)
        after.symbols = (before.symbols + taken).where(jump == 0, 0)

    _extend(patch, change)


def time_of_the_wrong_slot(patch):
    def change(after, before, parent, label, jump):
        after.times = before.times + jump

    _extend(patch, change)


def token_stamps_where_the_token_ends(patch):
    def change(after, before, parent, label, jump):
        taken = (label >= 0) & (label != after.blank)
        after.history.stamps[-1] = after.history.stamps[-1] + jump.where(taken, 0)

    _extend(patch, change)


def merge_whatever_the_frame(patch):
    same_place = tdt.same_place

    def anywhere(times, frames, config):
        return same_place(times * 0, frames, config)

    patch.setattr(tdt, "same_place", anywhere)


def finals_kept_apart(patch):
    same_place = tdt.same_place

    def apart(times, frames, config):
        return same_place(times, frames, type(config)(config.beam, config.jumps, "nemo"))

    patch.setattr(tdt, "same_place", apart)


def the_last_frame_taken_for_the_end(patch):
    same_place = tdt.same_place

    def early(times, frames, config):
        return same_place(times.minimum(frames.last), frames, config)

    patch.setattr(tdt, "same_place", early)


def no_merge(patch):
    patch.setattr(BeamHypotheses, "merge", lambda self, same: None)


def merge_keeps_the_best_score_only(patch):
    merge = BeamHypotheses.merge

    def best(self, same):
        scores = self.scores
        merge(self, same)
        self.scores = scores.where(self.alive, DEAD)

    patch.setattr(BeamHypotheses, "merge", best)


def durations_cut_off_at_the_end(patch):
    token_durations = read.token_durations

    def cut(path, end, blank):
        found = token_durations(path, end, blank)
        if not path or path[-1].label == blank or not found:
            return found
        return (*found[:-1], min(found[-1], 1))

    patch.setattr(read, "token_durations", cut)


def parents_one_column_off(patch):
    paths = History.paths

    def off(self):
        shifted = History(self.tokens, [self.parents[0], *self.parents[:-1]], self.stamps)
        return paths(shifted)

    patch.setattr(History, "paths", off)


def one_frame_too_many(patch):
    step = tdt.step

    def late(scorer, frames, beam, config, observer=None):
        step(scorer, frames, beam, config, observer)
        beam.active = (beam.hyps.times <= frames.last + 1) & frames.nonempty

    patch.setattr(tdt, "step", late)


MISTAKES = [
    blank_of_duration_0_stays,
    labels_do_not_move,
    the_column_for_the_duration,
    a_final_hypothesis_moves_on,
    the_duration_of_the_slots_best_label,
    durations_without_a_score,
    forced_blank_without_a_duration_score,
    forced_blank_moves_one_frame,
    counter_kept_over_a_moving_label,
    counter_of_the_wrong_slot,
    time_of_the_wrong_slot,
    token_stamps_where_the_token_ends,
    merge_whatever_the_frame,
    finals_kept_apart,
    the_last_frame_taken_for_the_end,
    no_merge,
    merge_keeps_the_best_score_only,
    durations_cut_off_at_the_end,
    parents_one_column_off,
    one_frame_too_many,
    missing_restore_on_blank,
    predictor_run_for_blank,
]
