"""The TDT search once more, in plain Python floats over a dictionary.

No tensors, slots, hashes or pointers: a hypothesis is known by its labels and the frame it stands
at. Written from the description of the search, to be compared with `vrt.rnnt.tdt`, not to be fast.
Equal scores go to the earlier hypothesis, the lower label and the earlier duration.
"""

import math
from dataclasses import dataclass
from itertools import product

from rnnt_dictionary_beam import fused_row, log_sum

INF = math.inf


@dataclass(frozen=True)
class Entry:
    score: float
    at_frame: int = 0  # labels taken at this frame
    stamps: tuple[int, ...] = ()
    durations: tuple[int, ...] = ()


def candidates_of(prefix, entry, row, durations, config):
    """(score, label, column) of the K best ways on, or of the forced blank alone."""
    beam, blank = config.beam, len(row) - 1
    scores, classes = row, range(len(row))
    if beam.fusion:
        scores = fused_row(row, prefix, beam)
        if beam.pruning_mode == "early":
            classes = sorted(classes, key=lambda v: (-row[v], v))[: beam.beam_size]
    if beam.max_symbols is not None and entry.at_frame >= beam.max_symbols:
        early = beam.fusion and beam.pruning_mode == "early"
        best = max(range(len(durations)), key=durations.__getitem__)
        return [(entry.score + ((row if early else scores)[blank] + durations[best]), blank, best)]
    ways = list(product(classes, range(len(durations))))
    ways.sort(key=lambda way: -(scores[way[0]] + durations[way[1]]))
    return [(entry.score + scores[v] + durations[d], v, d) for v, d in ways[: beam.beam_size]]


def onward(prefix, frame, entry, rows, values, config):
    """Ways on from one hypothesis: (score, labels, frame, what else it carries)."""
    row, lengths = rows(frame, prefix)
    blank = len(row) - 1
    for score, label, column in candidates_of(prefix, entry, row, lengths, config):
        moved = values[column]
        if label == blank:
            moved = max(moved, 1)
            at_frame, stamps, durations, tokens = 0, entry.stamps, entry.durations, prefix
        else:
            at_frame = 0 if moved else entry.at_frame + 1
            stamps, durations = (*entry.stamps, frame), (*entry.durations, moved)
            tokens = (*prefix, label)
        yield score, tokens, frame + moved, Entry(score, at_frame, stamps, durations)


def summed(groups):
    """One entry a group: the first, at the sum of all."""
    return {
        key: entries[0]
        if len(entries) == 1
        else Entry(
            log_sum([e.score for e in entries]),
            entries[0].at_frame,
            entries[0].stamps,
            entries[0].durations,
        )
        for key, entries in groups.items()
    }


def tdt_dictionary_beam(rows, values, length, config):
    """Ranked (tokens, score, timestamps, durations). `rows(t, prefix)` gives log-probabilities of
    classes and of durations, `values` are the frames that durations stand for."""
    if config.jumps == "nemo":
        values = range(len(values))
    beam = {((), 0): Entry(0.0)}
    while any(frame < length for _, frame in beam):
        ways = []
        for (prefix, frame), entry in beam.items():
            if frame >= length:
                ways.append((entry.score, prefix, frame, entry))
            else:
                ways.extend(onward(prefix, frame, entry, rows, values, config))
        ways = [way for way in ways if way[0] > -INF]
        # Prune, then merge; the better one keeps its frames and counters.
        ways = sorted(ways, key=lambda way: -way[0])[: config.beam.beam_size]
        groups = {}
        for _, prefix, frame, entry in ways:
            place = min(frame, length) if config.finals == "merged" else frame
            groups.setdefault((prefix, place), []).append(entry)
        beam = summed(groups)

    def key(item):
        (prefix, _), entry = item
        return entry.score / (len(prefix) + 1) if config.beam.score_norm else entry.score

    ranked = sorted(beam.items(), key=key, reverse=True)
    return [(prefix, e.score, e.stamps, e.durations) for (prefix, _), e in ranked]
