"""The tensor search of a TDT against a plain dictionary one, in doubles, and against the truth.

U labels at most, K = V = 256 with spare labels impossible, T encoder frames.
"""

import math
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch
from rnnt_cases import DECISION, unchecked
from rnnt_dictionary_beam import rows_of
from rnnt_tdt_cases import random_tdt_case, tdt_differences
from rnnt_tdt_dictionary import tdt_dictionary_beam
from rnnt_tdt_mistakes import MISTAKES

from vrt.rnnt import BeamConfig, BeamError, Hypothesis, Trace
from vrt.rnnt.tdt import search
from vrt.rnnt.tdt_config import TdtConfig
from vrt.rnnt.tdt_nbest import nbest_with_durations
from vrt.rnnt.tdt_toy import ToyDurationScorer
from vrt.rnnt.toy import ToyScorer, toy_frames

INF = math.inf
SIZE = 256
# Up to 1,300 additions of numbers below 2,000, each off by 2^-53 of the sum at most: 3e-10.
ROUNDING = 1e-9


def by_dictionary(case):
    found = []
    for row, length in enumerate(case.lengths):
        labels, lengths = rows_of(case.scorer.labels, row), rows_of(case.scorer.lengths, row)
        rows = lambda t, p, a=labels, b=lengths: (a(t, p), b(t, p))  # noqa: E731
        ranked = tdt_dictionary_beam(rows, case.scorer.durations, length, case.config)
        found.append([Hypothesis(p, s, s / (len(p) + 1), t, durations=d) for p, s, t, d in ranked])
    return found


def compare(seeds, **changes):
    """Counts by outcome; in doubles on both sides, so that scores are equal but for rounding."""
    counts = {"compared": 0, "close decision": 0}
    for seed in seeds:
        case = random_tdt_case(seed).in_doubles()
        got, margin = case.search(torch.float64, **changes)
        if margin < DECISION:
            counts["close decision"] += 1
            continue
        case = type(case)(case.scorer, case.time, case.lengths, replaced(case, changes))
        found = tdt_differences(got, by_dictionary(case), ROUNDING)
        assert found is None, (seed, case, found)
        counts["compared"] += 1
    return counts


def replaced(case, changes):
    return TdtConfig(**{**vars(case.config), **changes})


@pytest.mark.parametrize("jumps", ["durations", "nemo"])
@pytest.mark.parametrize("finals", ["merged", "nemo"])
def test_random_problems(jumps, finals):
    with unchecked():
        counts = compare(range(20_000, 20_060), jumps=jumps, finals=finals)
    assert sum(counts.values()) == 60 and counts["compared"] >= 36, counts


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_1000_random_problems(part):
    with unchecked():
        first = 30_000 + 250 * part
        counts = compare(range(first, first + 250), jumps="durations", finals="merged")
    assert counts["compared"] >= 150, counts


# --- truth


def prefixes(labels, longest):
    return [p for n in range(longest + 1) for p in product(range(labels), repeat=n)]


def random_rows(random, labels, longest, frames, count):
    """Classes and durations by (frame, labels so far); after `longest` labels blank alone."""
    rows = {}
    for t in range(frames):
        for prefix in prefixes(labels, longest):
            row = np.log(random.dirichlet(np.ones(labels + 1))).tolist()
            if len(prefix) == longest:
                row = [-INF] * labels + [0.0]
            rows[t, prefix] = row, np.log(random.dirichlet(np.ones(count))).tolist()
    return rows


def widened(row):
    return [*row[:-1], *[-INF] * (SIZE - len(row)), row[-1]]


def over_all_alignments(rows, durations, frames, transcript):
    """The summed probability of every way through the frames that spells `transcript`."""

    @cache
    def probability(frame, done):
        if frame >= frames:
            return float(done == len(transcript))
        row, lengths = rows[frame, transcript[:done]]
        total = []
        for duration, length in zip(durations, lengths, strict=True):
            here = math.exp(length)
            total.append(here * math.exp(row[-1]) * probability(frame + max(duration, 1), done))
            if done < len(transcript):
                label = math.exp(row[transcript[done]])
                total.append(here * label * probability(frame + duration, done + 1))
        return math.fsum(total)

    return probability(0, 0)


PROBLEMS = [
    (1, 3, 4, (0, 1)),
    (1, 2, 5, (0, 1, 2)),
    (2, 2, 3, (0, 1, 2, 3, 4)),
    (2, 2, 4, (0, 1, 3)),
    (2, 3, 3, (2, 1)),
    (1, 4, 4, (0,)),
    (3, 2, 4, (1,)),
    (2, 2, 6, (0, 2)),
]


@pytest.mark.parametrize(("labels", "longest", "frames", "durations"), PROBLEMS)
@pytest.mark.parametrize("finals", ["merged", "nemo"])
def test_transcripts_have_the_probability_of_all_their_alignments(
    labels, longest, frames, durations, finals
):
    rows = random_rows(np.random.default_rng(labels), labels, longest, frames, len(durations))
    scorer = ToyDurationScorer(
        ToyScorer(SIZE, "logprob", {(None, *k): widened(row) for k, (row, _) in rows.items()}),
        ToyScorer(len(durations), "logprob", {(None, *k): d for k, (_, d) in rows.items()}),
        durations,
    )
    config = TdtConfig(BeamConfig(SIZE, max_symbols=None, score_norm=False), finals=finals)
    times, trace = toy_frames(1, frames, torch.float64), Trace()
    hyps = search(scorer, times, torch.tensor([frames]), config, trace).hyps
    for step in trace.iterations:  # no finite candidate was dropped
        kept = int((step.score_pruned > -INF).sum())
        assert int((step.candidates > -INF).sum()) == kept <= SIZE
    (found,) = nbest_with_durations(hyps, config.beam)
    scores = {}
    for h in found:
        scores.setdefault(h.tokens, []).append(h.score)
    truth = {p: over_all_alignments(rows, durations, frames, p) for p in prefixes(labels, longest)}
    assert scores.keys() == {p for p, probability in truth.items() if probability > 0}
    for tokens, parts in scores.items():
        total = math.log(math.fsum(math.exp(s) for s in parts))
        assert total == pytest.approx(math.log(truth[tokens]), abs=1e-9)
    assert math.fsum(math.exp(h.score) for h in found) == pytest.approx(1.0, abs=1e-9)
    if finals == "merged":
        assert all(len(parts) == 1 for parts in scores.values())
    elif max(durations) > 1:
        assert any(len(parts) > 1 for parts in scores.values())


def test_the_dictionary_by_hand():
    # One frame. Label 0 (0.6) stays (0.25) and then blank follows, or it moves on (0.75); blank
    # (0.4) moves on either way.
    log = math.log
    rows = {
        (0, ()): ([log(0.6), log(0.4)], [log(0.25), log(0.75)]),
        (0, (0,)): ([-INF, 0.0], [0.0, -INF]),
    }
    config = TdtConfig(BeamConfig(4, max_symbols=None, score_norm=False))
    found = tdt_dictionary_beam(lambda t, p: rows[t, p], (0, 1), 1, config)
    assert [(p, round(math.exp(s), 9), t, d) for p, s, t, d in found] == [
        ((0,), 0.6, (0,), (1,)),
        ((), 0.4, (), ()),
    ]


# --- mistakes


@pytest.fixture(scope="module")
def answers():
    """Twenty problems with every kind of duration, and what the dictionary says."""
    found = []
    with unchecked():
        for seed in range(40_000, 40_200):
            case = random_tdt_case(seed).in_doubles()
            case = type(case)(case.scorer, case.time, case.lengths, TdtConfig(case.config.beam))
            if case.search(torch.float64)[1] >= DECISION and sum(case.lengths) < 60:
                found.append((case, by_dictionary(case)))
            if len(found) == 40:
                return found
    raise AssertionError("too few problems")


def first_difference(answers):
    for number, (case, want) in enumerate(answers):
        try:
            got, _ = case.search(torch.float64)
        except (BeamError, ValueError, IndexError) as error:
            return f"{number}: {error}"
        if (found := tdt_differences(got, want, ROUNDING)) is not None:
            return f"{number}: {found}"
    return None


def test_without_a_mistake_there_is_no_difference(answers):
    with unchecked():
        assert first_difference(answers) is None


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_made_on_purpose_is_caught(mistake, answers, monkeypatch):
    mistake(monkeypatch)
    with unchecked():
        assert first_difference(answers) is not None
