"""Greedy search: by hand, against a plain loop, and a beam of one against it."""

import math
from dataclasses import replace

import pytest
import torch
from rnnt_cases import random_case, unchecked
from rnnt_dictionary_beam import rows_of

from vrt.rnnt import BeamError, greedy
from vrt.rnnt.toy import ToyScorer, toy_frames


def plain_greedy(row_at, frames, vocab, cap):
    tokens, stamps, score = [], [], 0.0
    for t in range(frames):
        for _ in range(cap):
            row = row_at(t, tuple(tokens))
            label = max(range(vocab), key=row.__getitem__)
            if label == vocab - 1:
                break
            tokens.append(label)
            stamps.append(t)
            score += row[label]
    return tuple(tokens), tuple(stamps), score


def test_against_a_plain_loop_and_a_beam_of_one():
    labels = 0
    with unchecked():
        for seed in range(120):
            case = random_case(seed)
            scorer, frames, lengths, config = case.arguments
            found = greedy(scorer, frames, lengths, config.max_symbols)
            single = replace(config, beam_size=1, fusion=(), zero_length="empty")
            beams, _ = replace(case, config=single).search()
            for row, h in enumerate(found):
                cap = config.max_symbols or 100
                want = plain_greedy(rows_of(scorer, row), case.lengths[row], scorer.vocab, cap)
                assert (h.tokens, h.timestamps) == want[:2], seed
                # Up to 600 additions in fp32, each off by 2^-24 of the sum at most, of numbers
                # that log_softmax takes from logits below 16, an fp32 step of 1e-6 apart.
                off = 600 * 2**-24 * abs(want[2]) + 1e-6 * len(h.tokens)
                assert abs(h.score - want[2]) <= off, seed
                assert (h.tokens, h.timestamps) == (beams[row][0].tokens, beams[row][0].timestamps)
                labels += len(h.tokens)
    assert labels > 1000


def test_the_cap_moves_on_without_paying_for_a_blank():
    scorer = ToyScorer(3, "logprob", default_row=[-0.1, -3.0, -5.0])
    (found,) = greedy(scorer, toy_frames(1, 3), torch.tensor([3]), max_symbols=2)
    assert found.tokens == (0,) * 6 and found.timestamps == (0, 0, 1, 1, 2, 2)
    assert found.score == pytest.approx(-0.6, abs=1e-6)


def test_rows_without_frames_and_uneven_lengths():
    scorer = ToyScorer(3, "logprob", default_row=[-0.1, -3.0, -5.0])
    found = greedy(scorer, toy_frames(3, 3), torch.tensor([0, 1, 3]), max_symbols=1)
    assert [h.tokens for h in found] == [(), (0,), (0, 0, 0)]
    assert found[0].score == 0.0


def test_equal_scores_go_to_the_lower_label():
    scorer = ToyScorer(4, "logprob", default_row=[-2.0, -1.0, -1.0, -1.0])
    (found,) = greedy(scorer, toy_frames(1, 1), torch.tensor([1]), max_symbols=1)
    assert found.tokens == (1,)


def test_refusals():
    scorer = ToyScorer(3, "logprob", {(0, 1, ()): [math.nan] * 3}, default_row=[-5.0, -5.0, -0.1])
    with pytest.raises(BeamError, match="encoder frame 1 of utterance 0 are NaN"):
        greedy(scorer, toy_frames(1, 3), torch.tensor([3]))
    with pytest.raises(BeamError, match="T = 0"):
        greedy(scorer, toy_frames(1, 0), torch.tensor([0]))
    with pytest.raises(BeamError, match="max_symbols must be at least 1 or None, got 0"):
        greedy(scorer, toy_frames(1, 3), torch.tensor([3]), max_symbols=0)
    endless = ToyScorer(3, "logprob", default_row=[-0.1, -5.0, -5.0])
    with pytest.raises(BeamError, match="more than 7 labels per encoder frame"):
        greedy(endless, toy_frames(1, 3), torch.tensor([3]), max_symbols=None, iteration_guard=7)


def test_nan_beyond_an_utterances_end_is_no_matter():
    rows = {(0, t, ()): [math.nan] * 3 for t in (1, 2)}
    scorer = ToyScorer(3, "logprob", rows, default_row=[-5.0, -5.0, -0.1])
    found = greedy(scorer, toy_frames(2, 3), torch.tensor([1, 3]))
    assert [h.tokens for h in found] == [(), ()]
