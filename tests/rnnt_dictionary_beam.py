"""The same search once more, in plain Python floats over a dictionary of label lists.

No tensors, slots, hashes or pointers: a hypothesis is known by its labels. Written from the paper
and the spec, to be compared with `vrt.rnnt.malsd`, not to be fast. An utterance without frames
stays empty, equal scores go to the earlier hypothesis and the lower label.
"""

import math
from dataclasses import dataclass

import torch

from vrt.rnnt.toy_formula import ngram_scores

INF = math.inf


@dataclass(frozen=True)
class Entry:
    score: float
    frame: int = 0
    at_frame: int = 0  # labels taken at this frame
    stamps: tuple[int, ...] = ()


def log_sum(values):
    top = max(values)
    return top + math.log(math.fsum(math.exp(value - top) for value in values))


def log_softmax(row):
    whole = log_sum(row)
    return [value - whole for value in row]


def fused_row(row, prefix, config):
    """Per class the score with fusion; the n-grams' state is the last label."""
    blank = row[-1]
    added = [0.0] * (len(row) - 1)
    for part in config.fusion:
        state = prefix[-1] + 1 if prefix else 0
        scores = ngram_scores(part.model.seed, state, len(row) - 1).tolist()
        added = [a + part.alpha * score for a, score in zip(added, scores, strict=True)]
    if config.blank_lm_score_mode == "lm_weighted_full":
        weight = sum(part.alpha for part in config.fusion)
        not_blank = math.log1p(-min(math.exp(blank), 0.99))
        added = [a + weight * not_blank for a in added]
        blank *= 1 + weight
    return [value + a for value, a in zip(row, added, strict=False)] + [blank]


def candidates_of(prefix, entry, row, config):
    """(score, label) of the K best ways on, or of the forced blank alone."""
    blank = len(row) - 1
    decides, scores = row, row
    if config.fusion:
        scores = fused_row(row, prefix, config)
        decides = scores if config.pruning_mode == "late" else row
    if config.max_symbols is not None and entry.at_frame >= config.max_symbols:
        return [(entry.score + decides[blank], blank)]
    best = sorted(range(len(row)), key=lambda v: (-decides[v], v))[: config.beam_size]
    return [(entry.score + scores[v], v) for v in best]


def dictionary_beam(row_at, frames, vocab, config):
    """Ranked (tokens, score, timestamps). `row_at(t, prefix)` gives log-probabilities."""
    beam = {(): Entry(0.0)}
    while any(entry.frame < frames for entry in beam.values()):
        # Every way on from every hypothesis; finished ones stay as they are.
        ways = []
        for prefix, entry in beam.items():
            if entry.frame >= frames:
                ways.append((entry.score, prefix, entry))
                continue
            for score, label in candidates_of(prefix, entry, row_at(entry.frame, prefix), config):
                if label == vocab - 1:
                    new = Entry(score, entry.frame + 1, 0, entry.stamps)
                    ways.append((score, prefix, new))
                else:
                    stamps = (*entry.stamps, entry.frame)
                    new = Entry(score, entry.frame, entry.at_frame + 1, stamps)
                    ways.append((score, (*prefix, label), new))
        ways = [way for way in ways if way[0] > -INF]
        # Prune, then merge; the better one keeps its frames and counters.
        ways = sorted(ways, key=lambda way: -way[0])[: config.beam_size]
        groups = {}
        for _, prefix, entry in ways:
            groups.setdefault(prefix, []).append(entry)
        beam = {}
        for prefix, entries in groups.items():
            assert len({entry.frame for entry in entries}) == 1
            total = entries[0].score if len(entries) == 1 else log_sum([e.score for e in entries])
            first = entries[0]
            beam[prefix] = Entry(total, first.frame, first.at_frame, first.stamps)

    def key(item):
        prefix, entry = item
        return entry.score / (len(prefix) + 1) if config.score_norm else entry.score

    ranked = sorted(beam.items(), key=key, reverse=True)
    return [(prefix, entry.score, entry.stamps) for prefix, entry in ranked]


def rows_of(scorer, utterance):
    """Log-probabilities of a toy, in doubles."""
    kept = {}

    def row_at(frame, prefix):
        if (frame, prefix) not in kept:
            place = torch.tensor([[utterance, frame]], dtype=torch.float64)
            row = scorer.rows(place, [prefix])[0].tolist()
            kept[frame, prefix] = log_softmax(row) if scorer.mode == "logits" else row
        return kept[frame, prefix]

    return row_at
