"""Exhaustive truth: with room for every transcript, scores are sums over all alignments.

U labels at most, V = K = 64 classes (the spare labels impossible), T encoder frames.
"""

import math
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
import torch

from vrt.rnnt import BeamConfig, Trace
from vrt.rnnt.malsd import search
from vrt.rnnt.nbest import nbest
from vrt.rnnt.toy import ToyScorer, toy_frames

INF = math.inf
SIZE = 64


def prefixes(labels, longest):
    return [p for n in range(longest + 1) for p in product(range(labels), repeat=n)]


def random_rows(labels, longest, frames, seed):
    """By (frame, labels so far), blank last; after `longest` labels blank alone is possible."""
    random = np.random.default_rng(seed)
    rows = {}
    for t in range(frames):
        for prefix in prefixes(labels, longest):
            row = np.log(random.dirichlet(np.ones(labels + 1))).tolist()
            if len(prefix) == longest:
                row = [-INF] * labels + [row[-1]]
            rows[t, prefix] = row
    return rows


def over_all_alignments(rows, transcript, frames):
    """Log of the summed probability of every way to place the labels on frames, in order."""
    totals = []
    for places in combinations_with_replacement(range(frames), len(transcript)):
        terms, taken = [], 0
        for t in range(frames):
            while taken < len(transcript) and places[taken] == t:
                terms.append(rows[t, transcript[:taken]][transcript[taken]])
                taken += 1
            terms.append(rows[t, transcript[:taken]][-1])
        totals.append(math.fsum(terms))
    top = max(totals)
    return top + math.log(math.fsum(math.exp(total - top) for total in totals))


def widened(rows, labels):
    """The toy's table: spare labels up to 64 classes, impossible."""
    spare = [-INF] * (SIZE - 1 - labels)
    return {(None, t, p): [*row[:-1], *spare, row[-1]] for (t, p), row in rows.items()}


@pytest.mark.parametrize(
    ("labels", "longest", "frames"),
    [(1, 10, 5), (2, 4, 4), (2, 4, 7), (3, 2, 6), (5, 2, 4), (5, 2, 1), (3, 1, 20)],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_transcript_has_the_probability_of_all_its_alignments(labels, longest, frames, seed):
    rows = random_rows(labels, longest, frames, seed)
    scorer, trace = ToyScorer(SIZE, "logprob", widened(rows, labels)), Trace()
    config = BeamConfig(beam_size=SIZE, max_symbols=None, score_norm=False)
    times = toy_frames(1, frames, torch.float64)
    hyps = search(scorer, times, torch.tensor([frames]), config, trace).hyps
    for step in trace.iterations:  # no finite candidate was dropped
        assert int((step.candidates > -INF).sum()) <= SIZE
        assert int((step.score_pruned > -INF).sum()) == int((step.candidates > -INF).sum())
    (found,) = nbest(hyps, score_norm=False)
    assert sorted(h.tokens for h in found) == sorted(prefixes(labels, longest))
    for h in found:
        truth = over_all_alignments(rows, h.tokens, frames)
        assert h.score == pytest.approx(truth, abs=1e-9)


def test_the_probabilities_of_all_transcripts_sum_to_1():
    # Blank alone is left after the last label: its row must be certain for the sum to be 1.
    rows = random_rows(2, 4, 5, seed=3)
    rows = {(t, p): [-INF, -INF, 0.0] if len(p) == 4 else row for (t, p), row in rows.items()}
    scorer = ToyScorer(SIZE, "logprob", widened(rows, 2))
    config = BeamConfig(beam_size=SIZE, max_symbols=None)
    hyps = search(scorer, toy_frames(1, 5, torch.float64), torch.tensor([5]), config).hyps
    assert float(hyps.scores.exp().sum()) == pytest.approx(1.0, abs=1e-9)


def test_a_small_beam_is_below_the_truth():
    rows = random_rows(2, 4, 5, seed=4)
    scorer = ToyScorer(SIZE, "logprob", widened(rows, 2))
    frames, lengths = toy_frames(1, 5, torch.float64), torch.tensor([5])
    hyps = search(scorer, frames, lengths, BeamConfig(beam_size=3, max_symbols=None)).hyps
    (found,) = nbest(hyps)
    truths = [over_all_alignments(rows, h.tokens, 5) for h in found]
    assert all(h.score <= truth + 1e-9 for h, truth in zip(found, truths, strict=True))
    assert any(h.score < truth - 1e-3 for h, truth in zip(found, truths, strict=True))
