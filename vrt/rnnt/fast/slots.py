"""One iteration of the bookkeeping of B x K hypotheses: prune, store, merge.

B utterances, K beam slots, R rows (slots that read a frame), V classes.
The order is that of `vrt.rnnt.malsd.step`; a slot is a handful of numbers and points into two
trees, so that nothing is copied but those.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64

from vrt.rnnt.fast.jit import jit
from vrt.rnnt.fast.trees import NONE, ROOT, Emissions, Prefixes, emitted, longer

# Places in `counts`.
BLANKS, LABELS, CARRIED, KNOWN, FORCED, MERGED, READS = range(7)
COUNTS = 7


class Slots(NamedTuple):
    score: Float[np.ndarray, "B K"]  # -inf: a dead slot
    prefix: Int64[np.ndarray, "B K"]
    emission: Int64[np.ndarray, "B K"]  # the last, NONE before the first
    time: Int64[np.ndarray, "B K"]  # encoder frame to be read next
    symbols: Int64[np.ndarray, "B K"]  # labels at that frame
    active: Bool[np.ndarray, "B K"]  # frames are left to read

    @classmethod
    def start(cls, batch: int, size: int, dtype: np.dtype) -> "Slots":
        """One empty hypothesis in slot 0 of each utterance; the other slots are dead."""
        shape = (batch, size)
        score = np.full(shape, -np.inf, dtype=dtype)
        score[:, 0] = 0
        prefix, time, symbols = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        return cls(score, prefix, np.full(shape, NONE), time, symbols, np.ones(shape, dtype=bool))


class Best(NamedTuple):
    """What pruning needs to know of each row. With fusion, `values` are fused."""

    values: Float[np.ndarray, "R K"]  # of the K best labels
    labels: Int64[np.ndarray, "R K"]
    blank: Float[np.ndarray, "R"]
    log_probs: Float[np.ndarray, "R K"]  # acoustic
    blank_log_prob: Float[np.ndarray, "R"]

    @classmethod
    def room(cls, rows: int, size: int, dtype: np.dtype) -> "Best":
        """To be filled, without fusion."""
        values, blank = np.empty((rows, size), dtype=dtype), np.empty(rows, dtype=dtype)
        return cls(values, np.empty((rows, size), dtype=np.int64), blank, values, blank)


class Reads(NamedTuple):
    """The slots that read a frame, as rows."""

    utterance: Int64[np.ndarray, "R"]
    slot: Int64[np.ndarray, "R"]
    frame: Int64[np.ndarray, "R"]
    prefix: Int64[np.ndarray, "R"]

    @classmethod
    def room(cls, rows: int) -> "Reads":
        return cls(*(np.zeros(rows, dtype=np.int64) for _ in range(4)))


class Chosen(NamedTuple):
    """The best candidates of an utterance so far, in the order of their scores."""

    score: Float[np.ndarray, "K"]
    parent: Int64[np.ndarray, "K"]
    label: Int64[np.ndarray, "K"]  # NONE: a final hypothesis carried over
    log_prob: Float[np.ndarray, "K"]

    @classmethod
    def room(cls, size: int, dtype: np.dtype) -> "Chosen":
        numbers = (np.zeros(size, dtype=np.int64) for _ in range(2))
        return cls(np.zeros(size, dtype=dtype), *numbers, np.zeros(size, dtype=dtype))


class Rules(NamedTuple):
    blank: int
    max_symbols: int  # NONE: no cap
    aligned: bool  # blanks are kept for alignments
    by_hash: bool  # equal hash, last label and length merge: collisions="nemo"


@jit
def gather(slots: Slots, reads: Reads, rows: Int64[np.ndarray, "B K"]) -> tuple[int, int]:
    """Fill `reads`, and `rows` with each slot's place there. How many read, and the newest frame
    that one of them needs."""
    count, newest = 0, -1
    for b in range(slots.score.shape[0]):
        for k in range(slots.score.shape[1]):
            rows[b, k] = NONE
            if slots.active[b, k] and slots.score[b, k] > -np.inf:
                rows[b, k] = count
                reads.utterance[count], reads.slot[count] = b, k
                reads.frame[count], reads.prefix[count] = slots.time[b, k], slots.prefix[b, k]
                newest = max(newest, slots.time[b, k])
                count += 1
    return count, newest


@jit
def iterate(
    before: Slots,
    after: Slots,
    best: Best,
    rows: Int64[np.ndarray, "B K"],  # of `best`; NONE: the slot reads no frame
    trees: tuple[Prefixes, Emissions],
    last: Int64[np.ndarray, "B"],  # last frame of each utterance, -1: it has none
    chosen: Chosen,
    winner: Int64[np.ndarray, "B K"],
    rules: Rules,
    counts: Int64[np.ndarray, "COUNTS"],
) -> int:
    """Fill `after` and `winner`; how many slots a merge is to free.

    `after.score` is what pruning left; `winner` is the slot that takes a slot's probability, itself
    where it stays alone, NONE where it is dead.
    """
    merges = 0
    for b in range(len(before.score)):
        count = prune(before, b, best, rows, chosen, rules, counts)
        store(before, after, b, chosen, count, trees, last[b], rules, counts)
        merges += find_equal(after, b, trees[0], winner, rules)
    counts[MERGED] += merges
    return merges


@jit
def prune(
    slots: Slots,
    b: int,
    best: Best,
    rows: Int64[np.ndarray, "B K"],
    chosen: Chosen,
    rules: Rules,
    counts: Int64[np.ndarray, "COUNTS"],
) -> int:
    """The K best candidates of all slots, of equal ones those that come first; how many."""
    count = 0
    for k in range(slots.score.shape[1]):
        score, row = slots.score[b, k], rows[b, k]
        if score == -np.inf:
            continue
        if row == NONE:  # final: its one candidate is itself
            count = offer(chosen, count, score, k, NONE, score)
        elif rules.max_symbols != NONE and slots.symbols[b, k] >= rules.max_symbols:
            counts[FORCED] += 1
            log_prob = best.blank_log_prob[row]
            count = offer(chosen, count, score + best.blank[row], k, rules.blank, log_prob)
        else:
            for j in range(best.values.shape[1]):
                value, log_prob = best.values[row, j], best.log_probs[row, j]
                count = offer(chosen, count, score + value, k, best.labels[row, j], log_prob)
    return count


@jit
def offer(
    chosen: Chosen, count: int, score: float, parent: int, label: int, log_prob: float
) -> int:
    """Put a candidate in its place, behind equal ones, if there is one; how many are held."""
    size = len(chosen.score)
    if score == -np.inf or (count == size and score <= chosen.score[size - 1]):
        return count
    place = min(count, size - 1)
    while place > 0 and chosen.score[place - 1] < score:
        chosen.score[place] = chosen.score[place - 1]
        chosen.parent[place] = chosen.parent[place - 1]
        chosen.label[place] = chosen.label[place - 1]
        chosen.log_prob[place] = chosen.log_prob[place - 1]
        place -= 1
    chosen.score[place] = score
    chosen.parent[place] = parent
    chosen.label[place] = label
    chosen.log_prob[place] = log_prob
    return min(count + 1, size)


@jit
def store(
    before: Slots,
    after: Slots,
    b: int,
    chosen: Chosen,
    count: int,
    trees: tuple[Prefixes, Emissions],
    last: int,
    rules: Rules,
    counts: Int64[np.ndarray, "COUNTS"],
) -> None:
    """The chosen become the slots; every number comes from the parent. The rest are dead."""
    prefixes, emissions = trees
    for k in range(count):
        parent, label = chosen.parent[k], chosen.label[k]
        prefix, emission = before.prefix[b, parent], before.emission[b, parent]
        time, symbols = before.time[b, parent], before.symbols[b, parent]
        if label == NONE:
            counts[CARRIED] += 1
        else:
            if label != rules.blank or rules.aligned:
                emission = emitted(emissions, emission, label, time, chosen.log_prob[k])
            if label == rules.blank:
                counts[BLANKS] += 1
                time, symbols = time + 1, 0
            else:
                counts[LABELS] += 1
                prefix, symbols = longer(prefixes, prefix, label), symbols + 1
                counts[KNOWN] += prefixes.row[prefix] != NONE
        after.score[b, k] = chosen.score[k]
        after.prefix[b, k], after.emission[b, k] = prefix, emission
        after.time[b, k], after.symbols[b, k] = time, symbols
        after.active[b, k] = time <= last
    for k in range(count, len(chosen.score)):
        after.score[b, k] = -np.inf
        after.prefix[b, k], after.emission[b, k] = ROOT, NONE
        after.time[b, k], after.symbols[b, k] = 0, 0
        after.active[b, k] = False


@jit
def find_equal(
    slots: Slots, b: int, prefixes: Prefixes, winner: Int64[np.ndarray, "B K"], rules: Rules
) -> int:
    """Whom each slot's probability goes to: of equal slots the first, which is the best."""
    merges = 0
    for k in range(slots.score.shape[1]):
        winner[b, k] = NONE
        if slots.score[b, k] == -np.inf:
            continue
        winner[b, k] = k
        for earlier in range(k):
            if winner[b, earlier] == earlier and same(
                prefixes, slots.prefix[b, earlier], slots.prefix[b, k], rules.by_hash
            ):
                winner[b, k] = earlier
                merges += 1
                break
    return merges


@jit
def same(prefixes: Prefixes, left: int, right: int, by_hash: bool) -> bool:
    if left == right or not by_hash:
        return left == right
    return (
        prefixes.hash[left] == prefixes.hash[right]
        and prefixes.label[left] == prefixes.label[right]
        and prefixes.length[left] == prefixes.length[right]
    )
