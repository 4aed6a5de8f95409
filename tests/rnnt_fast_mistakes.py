"""Mistakes that a fast beam can make, made on purpose: each patches one piece of vrt.rnnt.fast.

Compiled code does not look at patches: the bookkeeping runs as plain Python here.
"""

import numpy as np

from vrt.rnnt.fast import beam, memory, room, slots
from vrt.rnnt.fast.trees import NONE, ROOT, Prefixes


def plain(function):
    """The Python behind a compiled function, where there is numba."""
    return getattr(function, "py_func", function)


def interpreted(patch):
    """All of an iteration, with indices that are checked."""
    patch.setattr(beam, "iterate", plain(slots.iterate))
    for name in ("prune", "offer", "store", "find_equal", "same", "longer", "emitted"):
        patch.setattr(slots, name, plain(getattr(slots, name)))
    patch.setattr(memory, "allot", plain(memory.allot))


def merge_before_prune(patch):
    """Candidates of one transcript are summed, then the K best are kept."""
    prune = slots.prune

    def merged(before, b, best, rows, chosen, rules, counts):
        size = len(chosen.score)
        wide = slots.Chosen.room(size * size, chosen.score.dtype)
        count = prune(before, b, best, rows, wide, rules, counts)
        found = {}
        for n in range(count):
            parent, label = int(wide.parent[n]), int(wide.label[n])
            prefix = int(before.prefix[b, parent])
            spelled = spelling(prefix, label if label != rules.blank else NONE)
            found.setdefault(spelled, []).append(n)
        scores = [np.logaddexp.reduce(wide.score[group]) for group in found.values()]
        order = np.argsort([-score for score in scores], kind="stable")[:size]
        groups = list(found.values())
        for place, n in enumerate(order):
            first = groups[n][0]
            chosen.score[place] = scores[n]
            for column in ("parent", "label", "log_prob"):
                getattr(chosen, column)[place] = getattr(wide, column)[first]
        return len(order)

    trees = {}
    iterate = beam.iterate

    def watched(before, after, best, rows, both, *rest):
        trees["prefixes"] = both[0]
        return iterate(before, after, best, rows, both, *rest)

    def spelling(prefix, label):
        labels = [] if label == NONE else [label]
        while prefix != NONE:
            labels.append(int(trees["prefixes"].label[prefix]))
            prefix = int(trees["prefixes"].parent[prefix])
        return tuple(labels)

    patch.setattr(beam, "iterate", watched)
    patch.setattr(slots, "prune", merged)


def refill_after_merge(patch):
    """A slot that a merge frees takes the next candidate at once."""
    store, find_equal, kept = slots.store, slots.find_equal, {}

    def remembering(before, after, b, chosen, count, *rest):
        kept["store"] = (before, after, b, chosen, count, *rest)
        store(before, after, b, chosen, count, *rest)

    def pruned(before, b, best, rows, chosen, rules, counts):
        size = len(chosen.score)
        wide = slots.Chosen.room(size * size, chosen.score.dtype)
        count = prune(before, b, best, rows, wide, rules, counts)
        kept["wide"], kept["count"] = wide, count
        for column, values in zip(chosen, wide, strict=True):
            column[:] = values[:size]
        return min(count, size)

    def refilled(after, b, prefixes, winner, rules):
        merges = find_equal(after, b, prefixes, winner, rules)
        before, _, _, chosen, count, *rest = kept["store"]
        size, wide = len(chosen.score), kept["wide"]
        lost = [k for k in range(size) if winner[b, k] not in (NONE, k)]
        spare = range(size, kept["count"])
        for k, n in zip(lost, spare, strict=False):
            after.score[b, winner[b, k]] = np.logaddexp(
                after.score[b, winner[b, k]], after.score[b, k]
            )
            for column, values in zip(chosen, wide, strict=True):
                column[k] = values[n]
            score = after.score[b].copy()
            store(before, after, b, chosen, count, *rest)
            score[k] = chosen.score[k]
            after.score[b], winner[b, k] = score, k
            merges -= 1
        return merges

    prune = slots.prune
    patch.setattr(slots, "prune", pruned)
    patch.setattr(slots, "store", remembering)
    patch.setattr(slots, "find_equal", refilled)


def _store_with(patch, change):
    store = slots.store

    def changed(before, after, b, chosen, count, *rest):
        store(before, after, b, chosen, count, *rest)
        change(before, after, b, chosen, count, rest[2])

    patch.setattr(slots, "store", changed)


def counter_from_the_wrong_slot(patch):
    def change(before, after, b, chosen, count, rules):
        for k in range(count):
            taken = chosen.label[k] not in (NONE, rules.blank)
            after.symbols[b, k] = before.symbols[b, k] + 1 if taken else after.symbols[b, k]

    _store_with(patch, change)


def emissions_of_the_wrong_slot(patch):
    def change(before, after, b, chosen, count, rules):
        for k in range(count):
            if chosen.label[k] == rules.blank:
                after.emission[b, k] = before.emission[b, k]

    _store_with(patch, change)


def emitted_at_the_next_frame(patch):
    emitted = slots.emitted

    def late(emissions, previous, label, frame, log_prob):
        return emitted(emissions, previous, label, frame + 1, log_prob)

    patch.setattr(slots, "emitted", late)


def memo_keyed_by_the_wrong_parent(patch):
    longer = slots.longer
    patch.setattr(slots, "longer", lambda prefixes, parent, label: longer(prefixes, ROOT, label))


def memo_without_the_label(patch):
    longer = slots.longer

    def any_child(prefixes, parent, label):
        child = int(prefixes.child[parent])
        return longer(prefixes, parent, label) if child == NONE else child

    patch.setattr(slots, "longer", any_child)


def merge_with_the_last(patch):
    find_equal = slots.find_equal

    def last(after, b, prefixes, winner, rules):
        merges = find_equal(after, b, prefixes, winner, rules)
        row = winner[b].copy()
        for k in range(len(row)):
            if row[k] != NONE:
                winner[b, k] = max(n for n in range(len(row)) if row[n] == row[k])
        return merges

    patch.setattr(slots, "find_equal", last)


def no_merge(patch):
    def none(after, b, prefixes, winner, rules):
        winner[b] = np.where(after.score[b] > -np.inf, np.arange(after.score.shape[1]), NONE)
        return 0

    patch.setattr(slots, "find_equal", none)


def cap_one_label_late(patch):
    prune = slots.prune

    def late(before, b, best, rows, chosen, rules, counts):
        rules = rules._replace(max_symbols=rules.max_symbols + 1)
        return prune(before, b, best, rows, chosen, rules, counts)

    patch.setattr(slots, "prune", late)


def ties_the_other_way(patch):
    """Of equal candidates the one that came last goes first."""

    def offer(chosen, count, score, parent, label, log_prob):
        size = len(chosen.score)
        if score == -np.inf or (count == size and score < chosen.score[size - 1]):
            return count
        place = int(np.sum(chosen.score[:count] > score))
        for column, value in zip(chosen, (score, parent, label, log_prob), strict=True):
            column[place + 1 :] = column[place:-1].copy()
            column[place] = value
        return min(count + 1, size)

    patch.setattr(slots, "offer", offer)


def prefix_freed_while_alive(patch):
    """Rows of all prefixes but the root are given up when room is needed."""
    keep = memory.Memory.keep
    patch.setattr(memory.Memory, "keep", lambda self, held, prefixes: keep(self, [ROOT], prefixes))


def stale_predictor_row(patch):
    """A row is given to another prefix, and its old owner is still believed to lie there."""

    def keep(self, held, prefixes):
        self.owner[(self.owner != NONE) & ~np.isin(self.owner, held)] = NONE

    patch.setattr(memory.Memory, "keep", keep)


def trimmed_without_new_numbers(patch):
    patch.setattr(memory.Memory, "renumber", lambda self, new: None)


def ancestors_dropped(patch):
    """Living prefixes are kept and those between them and their meeting are not."""

    def ancestry(parents, heads, top):
        there = np.zeros(len(parents), dtype=bool)
        there[heads] = True
        return there

    usual = room.trimmed

    def trimmed(tree, *rest):
        with_mistake = isinstance(tree, Prefixes)
        patch.setattr(room, "ancestry", ancestry if with_mistake else plain(usual_ancestry))
        return usual(tree, *rest)

    usual_ancestry = room.ancestry
    patch.setattr(beam, "trimmed", trimmed)


BOOKKEEPING = [
    merge_before_prune,
    refill_after_merge,
    counter_from_the_wrong_slot,
    emissions_of_the_wrong_slot,
    emitted_at_the_next_frame,
    memo_keyed_by_the_wrong_parent,
    memo_without_the_label,
    merge_with_the_last,
    no_merge,
    cap_one_label_late,
    ties_the_other_way,
]
# These show where there is no room to spare.
TREES = [
    prefix_freed_while_alive,
    stale_predictor_row,
    trimmed_without_new_numbers,
    ancestors_dropped,
]
