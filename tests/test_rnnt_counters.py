"""Counters: by hand, and the same of the clear and of the fast search where they mean the same."""

from dataclasses import replace

import pytest
import torch
from rnnt_cases import random_case, unchecked

from vrt.rnnt import BeamConfig, malsd
from vrt.rnnt.counters import Counters, Tally, Work
from vrt.rnnt.fast import fast_malsd
from vrt.rnnt.toy import ToyScorer, toy_frames

SAME = (
    "iterations",
    "blanks",
    "labels",
    "carried",
    "forced_blanks",
    "recombinations",
    "living_slots",
    "selections",
    "tokens",
)


def counted(scorer, frames, lengths, config):
    tallies = Tally(), Tally()
    clear = malsd(scorer, frames, lengths, config, tallies[0])
    fast = fast_malsd(scorer, frames, lengths, config, tallies[1])
    assert clear == fast
    return [tally.counters(lengths, clear) for tally in tallies]


def test_clear_and_fast_count_the_same():
    seen = dict.fromkeys(SAME, 0)
    with unchecked():
        for seed in range(70):
            scorer, frames, lengths, config = random_case(seed).arguments
            config = replace(config, ties="lowest", zero_length="nemo" if seed % 2 else "empty")
            clear, fast = (c.totals for c in counted(scorer, frames, lengths, config))
            assert {n: clear[n] for n in SAME} == {n: fast[n] for n in SAME}, seed
            assert fast["joint_rows"] <= clear["joint_rows"]
            assert fast["predictor_rows"] <= fast["labels"] - fast["known_prefixes"]
            seen = {name: seen[name] + fast[name] for name in SAME}
    assert all(count > 20 for count in seen.values()), seen


def test_by_hand():
    """Two frames; label 0 or blank at each, at most one label a frame.

    1: the empty hypothesis takes blank or 0. 2: the empty one takes blank, or 0 at frame 1; (0) is
    at its cap and forced to blank; both (0) merge. 3: the empty one is final and carried over, (0)
    is forced to blank.
    """
    scorer = ToyScorer(3, "logprob", default_row=[-1.0, -float("inf"), -0.5])
    lengths, config = torch.tensor([2]), BeamConfig(beam_size=3, max_symbols=1)
    clear, fast = counted(scorer, toy_frames(1, 2), lengths, config)
    same = {"iterations": 3, "blanks": 1 + 2 + 1, "labels": 1 + 1, "carried": 1, "selections": 7}
    same |= {"forced_blanks": 1 + 1, "recombinations": 1, "living_slots": 2 + 2 + 2, "tokens": 1}
    assert {name: clear.totals[name] for name in same} == same
    # The predictor after (0) is known when (0) is met again.
    own = {"joint_calls": 3, "joint_rows": 1 + 2 + 1, "predictor_calls": 1, "predictor_rows": 1}
    assert fast.totals == same | own | {"known_prefixes": 1}
    assert clear.work.predictor_rows == clear.work.joint_rows == 3 * 3


def test_per_utterance_and_per_second():
    counters = Counters(Work(iterations=10, blanks=30, labels=6), 2, 100, 8, 0.08)
    assert counters.totals["selections"] == 36
    assert counters.per_utterance()["blanks"] == 15
    assert counters.per_second()["blanks"] == pytest.approx(30 / 8.0)
    html = counters._repr_html_()
    assert "per second" in html and "<td>forced blanks</td>" in html and "3.75" in html
    bare = replace(counters, frame_seconds=None)
    assert "per second" not in bare._repr_html_()
    with pytest.raises(ValueError, match="give frame_seconds"):
        bare.per_second()


def test_a_tally_adds_up_over_searches():
    scorer, frames, lengths, config = random_case(2).arguments
    config, tally, once = replace(config, ties="lowest"), Tally(), Tally()
    fast_malsd(scorer, frames, lengths, config, once)
    for _ in range(2):
        found = fast_malsd(scorer, frames, lengths, config, tally)
    assert tally.counters(lengths, found).work.labels == 2 * once.work.labels
