"""The fast greedy search against the clear one, to the bit on toys."""

import math

import pytest
import torch
from rnnt_cases import random_case, unchecked

from vrt.rnnt import BeamError, greedy
from vrt.rnnt.counters import Tally
from vrt.rnnt.fast import fast_greedy
from vrt.rnnt.fast import greedy as greedy_module
from vrt.rnnt.toy import ToyScorer, toy_frames


@pytest.mark.parametrize("ahead", [1, 4, 64])
def test_random_problems_whatever_the_joint_looks_ahead(ahead, monkeypatch):
    monkeypatch.setattr(greedy_module, "AHEAD", ahead)
    labels = 0
    with unchecked():
        for seed in range(60):
            scorer, frames, lengths, config = random_case(seed).arguments
            got = fast_greedy(scorer, frames, lengths, config.max_symbols)
            assert got == greedy(scorer, frames, lengths, config.max_symbols), seed
            labels += sum(len(h.tokens) for h in got)
    assert labels > 500


def test_the_cap_moves_on_without_paying_for_a_blank():
    scorer = ToyScorer(3, "logprob", default_row=[-0.1, -3.0, -5.0])
    (found,) = fast_greedy(scorer, toy_frames(1, 3), torch.tensor([3]), max_symbols=2)
    assert found.tokens == (0,) * 6 and found.timestamps == (0, 0, 1, 1, 2, 2)


def test_equal_scores_go_to_the_lower_label_and_empty_rows_stay_empty():
    scorer = ToyScorer(4, "logprob", default_row=[-2.0, -1.0, -1.0, -1.0])
    found = fast_greedy(scorer, toy_frames(3, 2), torch.tensor([0, 1, 2]), max_symbols=1)
    assert [h.tokens for h in found] == [(), (1,), (1, 1)]


def test_nan_ahead_of_a_label_is_no_matter_and_nan_that_is_read_is_refused():
    table = {(0, 2, ()): [math.nan] * 3, (0, 1, ()): [-0.1, -3.0, -4.0]}
    scorer = ToyScorer(3, "logprob", table, default_row=[-4.0, -4.0, -0.1])
    arguments = scorer, toy_frames(2, 6), torch.tensor([6, 6])
    assert fast_greedy(*arguments) == greedy(*arguments)
    table[0, 3, (0,)] = [-1.0, math.nan, -1.0]
    for search in (greedy, fast_greedy):
        with pytest.raises(BeamError, match="encoder frame 3 of utterance 0 are NaN"):
            search(*arguments)


def test_refusals():
    endless = ToyScorer(3, "logprob", default_row=[-0.1, -5.0, -5.0])
    frames, lengths = toy_frames(1, 3), torch.tensor([3])
    with pytest.raises(BeamError, match="more than 7 labels per encoder frame"):
        fast_greedy(endless, frames, lengths, max_symbols=None, iteration_guard=7)
    with pytest.raises(BeamError, match="max_symbols must be at least 1 or None, got 0"):
        fast_greedy(endless, frames, lengths, max_symbols=0)
    with pytest.raises(BeamError, match="T = 0"):
        fast_greedy(endless, toy_frames(1, 0), torch.tensor([0]))


def test_other_dtypes_are_for_the_clear_search():
    scorer, frames, lengths, _ = random_case(3).arguments
    for dtype in (torch.float64, torch.bfloat16):
        arguments = scorer, frames.to(dtype), lengths
        assert fast_greedy(*arguments) == greedy(*arguments)


def test_the_joint_is_asked_less_often_and_the_predictor_once_a_label():
    scorer = ToyScorer(
        4,
        "logprob",
        {(0, 20, ()): [-0.1, -3.0, -3.0, -4.0]},
        default_row=[-4.0, -4.0, -4.0, -0.1],
    )
    tally = Tally()
    arguments = scorer, toy_frames(1, 60), torch.tensor([60])
    (found,) = fast_greedy(*arguments, tally=tally)
    assert found.tokens == (0,) and found.timestamps == (20,)
    work = tally.work
    assert work.labels == work.predictor_calls == work.predictor_rows == 1
    assert work.blanks == 60  # a label leaves its frame to be read again
    assert work.joint_calls < 10 and work.joint_rows < 90


# --- mistakes made on purpose


def takes_the_label_behind_the_first(patch):
    look = greedy_module.Lines._look

    def reversed_look(self, seeking, width):
        labels, values = look(self, seeking, width)
        return labels[:, ::-1], values[:, ::-1]

    patch.setattr(greedy_module.Lines, "_look", reversed_look)


def predictor_of_another_utterance(patch):
    take = greedy_module.Lines.take

    def crossed(self, found, max_symbols):
        take(self, found, max_symbols)
        self.row[:] = self.row[::-1].copy()

    patch.setattr(greedy_module.Lines, "take", crossed)


def symbols_not_reset(patch):
    step = greedy_module.Lines.next_labels

    def kept(self, blank):
        before = self.symbols.copy()
        found = step(self, blank)
        self.symbols[:] = before
        return found

    patch.setattr(greedy_module.Lines, "next_labels", kept)


@pytest.mark.parametrize(
    "mistake",
    [takes_the_label_behind_the_first, predictor_of_another_utterance, symbols_not_reset],
)
def test_a_mistake_is_caught(mistake, monkeypatch):
    arguments = [random_case(seed).arguments for seed in range(30)]

    def differ():
        return any(
            fast_greedy(scorer, frames, lengths, 2) != greedy(scorer, frames, lengths, 2)
            for scorer, frames, lengths, _ in arguments
        )

    with unchecked():
        assert not differ()
        mistake(monkeypatch)
        assert differ()
