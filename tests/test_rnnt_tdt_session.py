"""A TDT stream in any pieces is the whole."""

import numpy as np
import pytest
import torch
from rnnt_cases import unchecked
from rnnt_tdt_cases import random_tdt_case

from vrt.rnnt import BeamConfig, BeamError, BeamSessionError
from vrt.rnnt.tdt import tdt_malsd
from vrt.rnnt.tdt_config import TdtConfig
from vrt.rnnt.tdt_session import TdtSession
from vrt.rnnt.tdt_toy import ToyDurationScorer
from vrt.rnnt.toy import ToyScorer, toy_frames


def streamed(scorer, config, frames, sizes):
    """The n-best list, and all that was committed, fed in pieces of these sizes."""
    session = TdtSession(scorer, config)
    session.begin()
    told, start = [], 0
    for size in sizes:
        update = session.feed(frames[start : start + size])
        told += zip(update.committed, update.timestamps, strict=True)
        start += size
    return session.finalize(), told


def cut(time, random):
    sizes = []
    while sum(sizes) < time:
        sizes.append(int(min(random.integers(0, 5), time - sum(sizes))))
    return sizes


def problems(seeds):
    """(scorer, frames of one utterance, configuration)"""
    for seed in seeds:
        case = random_tdt_case(seed)
        scorer, frames, _, config = case.arguments
        if config.beam.beam_size > scorer.vocab:
            continue
        for row, length in enumerate(case.lengths):
            if length:
                yield seed, scorer, frames[row, :length], config.beam


@pytest.mark.parametrize("finals", ["merged", "nemo"])
def test_any_pieces_give_the_whole_to_the_bit(finals):
    random, compared = np.random.default_rng(1), 0
    with unchecked():
        for seed, scorer, frames, beam in problems(range(50_000, 50_020)):
            beam = BeamConfig(**{**vars(beam), "ties": "lowest", "collisions": "verify"})
            config = TdtConfig(beam, finals=finals)
            time = len(frames)
            (whole,) = tdt_malsd(scorer, frames[None], torch.tensor([time]), config)
            for sizes in ([1] * time, [time], cut(time, random), cut(time, random)):
                found, told = streamed(scorer, config, frames, sizes)
                assert found == whole, (seed, sizes)
                assert [h.durations for h in found] == [h.durations for h in whole], seed
                for h in found:
                    pairs = list(zip(h.tokens, h.timestamps, strict=True))
                    assert pairs[: len(told)] == told, seed
                compared += 1
    assert compared > 100


def first_difference():
    with unchecked():
        for seed, scorer, frames, beam in problems(range(50_000, 50_040)):
            config, time = TdtConfig(BeamConfig(**{**vars(beam), "ties": "lowest"})), len(frames)
            (whole,) = tdt_malsd(scorer, frames[None], torch.tensor([time]), config)
            if streamed(scorer, config, frames, [1] * time)[0] != whole:
                return seed
    return None


def test_an_end_that_is_merged_too_late_or_a_search_that_does_not_wait_is_caught(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(TdtSession, "_merge_at_the_end", end_without_a_merge)
        assert first_difference() is not None
    with monkeypatch.context() as patch:
        there = TdtSession._there
        patch.setattr(TdtSession, "_has_frames", lambda self, beam, last: True)
        patch.setattr(TdtSession, "_there", lambda self, last: there(self, self._seen - 1))
        assert first_difference() is not None


def end_without_a_merge(session):
    session._beam.active = session._beam.hyps.times < session._seen


def test_a_jump_beyond_what_was_fed_waits_and_memory_stays():
    row, lengths = [-0.1, -4.0, -3.0], [-9.0, -3.0, -0.1]
    scorer = ToyDurationScorer(
        ToyScorer(3, "logprob", default_row=row),
        ToyScorer(3, "logprob", default_row=lengths),
        (0, 1, 4),
    )
    session = TdtSession(scorer, TdtConfig(BeamConfig(1)))
    session.begin()
    updates = [session.feed(frame[None]) for frame in toy_frames(1, 400)[0]]
    assert [u.timestamps for u in updates[:6]] == [(0,), (), (), (), (4,), ()]
    assert session.state_bytes["history"] == 0
    found = session.finalize()
    assert found[0].timestamps == tuple(range(0, 400, 4)) and found[0].durations == (4,) * 100


def test_an_empty_stream_calls_out_of_order_and_what_is_refused():
    scorer = ToyDurationScorer(
        ToyScorer(3, "logprob", default_row=[-1.0] * 3),
        ToyScorer(1, "logprob", default_row=[0.0]),
        (1,),
    )
    session = TdtSession(scorer, TdtConfig(BeamConfig(2)))
    with pytest.raises(BeamSessionError, match="call begin first"):
        session.finalize()
    session.begin()
    (found,) = session.finalize()
    assert found.tokens == found.durations == () and found.score == 0.0
    with pytest.raises(BeamError, match="beam_size 4 is larger than the scorer's 3 classes"):
        TdtSession(scorer, TdtConfig(BeamConfig(4)))
