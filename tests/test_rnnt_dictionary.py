"""The beam search against a plain dictionary of label lists, in 64-bit floats, on random problems.

Where the two differ it is by what NeMo is documented to do: padding is decoded for an utterance
without frames, and hypotheses of one hash are merged unseen.
"""

import math

import pytest
import torch
from rnnt_cases import DECISION, differences, random_case, unchecked
from rnnt_dictionary_beam import dictionary_beam, rows_of

from vrt.golden.malsd_format import problem_of
from vrt.golden.malsd_recipes import recipes
from vrt.rnnt import BeamConfig, Hypothesis, malsd
from vrt.rnnt.toy import ToyScorer, toy_frames

IDEAL = {"zero_length": "empty", "ties": "lowest", "collisions": "verify"}
# Up to 1,300 additions of numbers below 2,000, each off by 2^-53 of the sum at most: 3e-10.
ROUNDING = 1e-9


def by_dictionary(case, config, padding=False):
    """The n-best lists; with `padding`, utterances without frames read one."""
    found = []
    for row, length in enumerate(case.lengths):
        frames = 1 if padding and length == 0 else length
        ranked = dictionary_beam(rows_of(case.scorer, row), frames, case.scorer.vocab, config)
        found.append([Hypothesis(p, s, s / (len(p) + 1), stamps) for p, s, stamps in ranked])
    return found


def compare(seeds):
    """Counts by outcome; in doubles on both sides, so that scores are equal but for rounding."""
    counts = {"compared": 0, "close decision": 0}
    for seed in seeds:
        case = random_case(seed)
        got, margin = case.search(torch.float64, **IDEAL)
        if margin < DECISION:
            counts["close decision"] += 1
            continue
        found = differences(got, by_dictionary(case, case.config), ROUNDING)
        assert found is None, (seed, case, found)
        counts["compared"] += 1
    return counts


def test_300_random_problems():
    with unchecked():
        counts = compare(range(20_000, 20_300))
    assert sum(counts.values()) == 300 and counts["compared"] >= 180, counts


@pytest.mark.slow
def test_3000_random_problems():
    with unchecked():
        counts = compare(range(30_000, 33_000))
    assert counts["compared"] >= 1800, counts


def test_nemo_reads_one_frame_of_padding_for_an_utterance_without_frames():
    explained = 0
    for seed in range(60):
        case = random_case(seed)
        if 0 not in case.lengths:
            continue
        got, margin = case.search(zero_length="nemo")
        if margin < DECISION:
            continue
        empty = differences(got, by_dictionary(case, case.config))
        assert differences(got, by_dictionary(case, case.config, padding=True)) is None
        explained += empty is not None
    assert explained >= 5


def test_the_hash_collision_is_the_only_shipped_problem_where_the_dictionary_finds_more():
    differing = []
    for recipe in recipes():
        if {"tie", "error", "zero_length"} & set(recipe.tags):
            continue
        problem = problem_of(recipe.problem, recipe.name)
        case = type("Case", (), {"scorer": problem.scorer, "lengths": problem.lengths})
        frames = toy_frames(len(problem.lengths), problem.max_time)
        got = malsd(problem.scorer, frames, torch.tensor(problem.lengths), problem.config)
        if differences(got, by_dictionary(case, problem.config)) is not None:
            differing.append(recipe.name)
    assert differing == ["malsd-hash-collision"]


def test_the_dictionary_sums_two_alignments_by_hand():
    half = math.log(0.5)
    rows = {(None, t, ()): [half, -math.inf, half] for t in (0, 1)}
    scorer = ToyScorer(3, "logprob", rows, default_row=[-math.inf, -math.inf, 0.0])
    found = dictionary_beam(rows_of(scorer, 0), 2, 3, BeamConfig(beam_size=3))
    assert [(p, round(math.exp(s), 9), t) for p, s, t in found] == [
        ((0,), 0.75, (0,)),
        ((), 0.25, ()),
    ]
