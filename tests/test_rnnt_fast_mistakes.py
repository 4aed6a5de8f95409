"""Mistakes on purpose in the fast beam are caught by the comparison with the clear one."""

import pytest
import torch
from rnnt_cases import unchecked
from rnnt_fast_mistakes import BOOKKEEPING, TREES, interpreted

from vrt.rnnt import BeamConfig, BeamError, malsd
from vrt.rnnt.fast import beam, fast_malsd, memory
from vrt.rnnt.toy import ToyScorer, toy_frames
from vrt.rnnt.toy_formula import Formula


def problems():
    """Merges, caps, ties, uneven lengths, and prefixes enough to fill small trees."""
    parts = {"ctx": -1, "bits": 20, "shift": 17, "blank_add": 1.0, "peak_add": 2.0, "tdiv": 3}
    for seed in range(4):
        yield ToyScorer(6, "logits", formula=Formula(seed=seed, **parts)), (14, 9), 2
    yield ToyScorer(7, "logprob", default_row=[-1.0] * 7), (3,), 2
    yield twice(), (12,), 4


def twice():
    """Labels 0 0 0 come at frame 0 or at frame 6, and nothing stays between: at frame 6 the empty
    hypothesis meets prefixes again that no slot has held for long. Other labels fill the trees."""
    table = {}
    for t in range(12):
        empty = [-12.0] * 12 + [-0.1]
        empty[1 + t % 5] = empty[6 + t % 5] = -6.0
        table[None, t, ()] = empty if t % 6 else [-1.0, *[-7.0] * 11, -0.7]
        for prefix in ((0,), (0, 0)):
            table[None, t, prefix] = [-0.05, *[-6.0] * 11, -5.0]
    return ToyScorer(13, "logprob", table, default_row=[-9.0] * 12 + [-0.1])


def differ():
    with unchecked():
        for scorer, lengths, cap in problems():
            config = BeamConfig(beam_size=4, max_symbols=cap)
            arguments = scorer, toy_frames(len(lengths), max(lengths)), torch.tensor(lengths)
            if fast_malsd(*arguments, config) != malsd(*arguments, config):
                return True
    return False


@pytest.fixture
def plain(monkeypatch):
    interpreted(monkeypatch)


@pytest.fixture
def narrow(plain, monkeypatch):
    monkeypatch.setattr(beam, "ROOM", 4)
    monkeypatch.setattr(memory, "SPARE", 0)


def test_without_a_mistake_there_is_no_difference(plain):
    assert not differ()


def test_nor_is_there_without_room(narrow):
    assert not differ()


@pytest.mark.parametrize("mistake", BOOKKEEPING, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_caught(mistake, plain, monkeypatch):
    mistake(monkeypatch)
    assert differ()


@pytest.mark.parametrize("mistake", TREES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_in_keeping_and_dropping_is_caught(mistake, narrow, monkeypatch):
    mistake(monkeypatch)
    try:
        assert differ()
    except (IndexError, BeamError):  # numbers of what is no more
        return
