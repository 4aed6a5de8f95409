"""The fast session against the clear one: every update and every list, at any cutting."""

import pytest
import torch
from rnnt_cases import random_case, unchecked
from rnnt_scripts import Script
from test_rnnt_session import Doubtful, cuts, formula, stream

from vrt.rnnt import BeamConfig, BeamError, BeamSession, BeamSessionError, malsd
from vrt.rnnt.fast import FastSession, fast_malsd
from vrt.rnnt.fast import beam as beam_module
from vrt.rnnt.fast import memory as memory_module
from vrt.rnnt.toy import ToyScorer, toy_frames


@pytest.mark.parametrize("room", [None, 4])
def test_any_cutting_gives_the_updates_of_the_clear_session_and_the_whole(room, monkeypatch):
    if room:
        monkeypatch.setattr(beam_module, "ROOM", room)
        monkeypatch.setattr(memory_module, "SPARE", 0)
    committed = 0
    with unchecked():
        for seed in range(30) if room else range(30, 60):
            case = random_case(seed)
            scorer, frames, lengths, config = case.arguments
            row = int(lengths.argmax())
            whole = frames[row, : case.lengths[row]]
            options = {"ties": "lowest", "preserve_alignments": seed % 2 == 0}
            config = BeamConfig(**{**vars(config), **options})
            (want,) = fast_malsd(scorer, whole[None], lengths[row : row + 1], config)
            for size in (1, 2, 3, 7, 0):
                pieces = cuts(len(whole), size, seed)
                updates, got = stream(FastSession(scorer, config), whole, pieces)
                assert got == want, (seed, size)
                if size in (1, 7):
                    assert updates == stream(BeamSession(scorer, config), whole, pieces)[0]
                committed += sum(len(update.committed) for update in updates)
    assert committed > 100


@pytest.mark.parametrize("commit_after", [0, 3, 30])
def test_what_commit_after_gives_up_is_the_same(commit_after):
    script = {t: 2 + t % 5 for t in range(9, 200, 5)} | {4: 0}
    problems = [(Doubtful(9, script), 200, 4), (formula(tdiv=2, blank_add=0.5), 40, 5)]
    for scorer, time, beam in problems:
        for aligned in (False, True):
            config = BeamConfig(beam_size=beam, preserve_alignments=aligned)
            both = [
                stream(
                    kind(scorer, config, commit_after=commit_after),
                    toy_frames(1, time)[0],
                    [7] * 30,
                )
                for kind in (BeamSession, FastSession)
            ]
            assert both[0] == both[1]


def test_memory_is_bounded_by_dropping_what_is_committed():
    frames = toy_frames(1, 3000)[0]
    scorer = Script(9, {t: t % 7 for t in range(4, 3000, 5)})
    session = FastSession(scorer, BeamConfig(beam_size=4))
    session.begin()
    history, kept = [], []
    with unchecked():
        for t in range(0, 3000, 20):
            session.feed(frames[t : t + 20])
            history.append(session.state_bytes["history"])
            kept.append(session.state_bytes["frames"])
    assert max(history) == history[0]  # the trees never grow
    assert max(kept) <= 3 * 2 * 4
    assert session.finalize()[0].tokens == tuple(t % 7 for t in range(4, 3000, 5))
    assert len(session._beam.memory.owner) == 2 * 4 + memory_module.SPARE


def test_nan_ends_the_stream_and_reset_frees_the_session():
    rows = {(0, 2, ()): [float("nan")] * 4}
    scorer = ToyScorer(4, "logprob", rows, default_row=[-9.0, -9.0, -9.0, -0.1])
    session, frames = FastSession(scorer), toy_frames(1, 6)[0]
    session.begin()
    session.feed(frames[:2])
    with pytest.raises(BeamError, match="encoder frame 2 of utterance 0"):
        session.feed(frames[2:4])
    with pytest.raises(BeamSessionError, match="an error ended this stream; call reset"):
        session.feed(frames[4:])
    session.reset()
    session.begin()
    session.feed(frames[:2])


def test_a_session_serves_one_stream_after_another_and_two_do_not_meet():
    scorer, frames = formula(), toy_frames(2, 20)
    alone = [malsd(scorer, frames[b : b + 1], torch.tensor([20]))[0] for b in (0, 1)]
    both = [FastSession(scorer), FastSession(scorer)]
    for _ in range(2):
        for session in both:
            session.begin()
        for t in range(0, 20, 4):
            for b, session in enumerate(both):
                piece = frames[b, t : t + 4].clone()
                session.feed(piece)
                piece.fill_(7)
        assert [session.finalize() for session in both] == alone


def test_streams_without_frames_and_dead_beams_end():
    session = FastSession(formula())
    session.begin()
    (only,) = session.finalize()
    assert only.tokens == () and only.score == 0.0
    dying = ToyScorer(
        4,
        "logprob",
        {(0, 2, ()): [-float("inf")] * 4},
        default_row=[-float("inf")] * 3 + [0.0],
    )
    updates, found = stream(FastSession(dying), toy_frames(1, 6)[0], [2] * 3)
    assert found == [] and updates[-1].tentative == ()


def test_what_the_fast_session_has_not_is_refused():
    for options in ({"config": BeamConfig(ties="torch")}, {"dtype": torch.bfloat16}):
        with pytest.raises(BeamError, match=r"ties='lowest' and fp32 or fp64.*use BeamSession"):
            FastSession(formula(), **options)


def test_work_is_counted_since_begin():
    session = FastSession(formula())
    with pytest.raises(BeamSessionError, match="call begin first"):
        _ = session.work
    session.begin()
    session.feed(toy_frames(1, 6)[0])
    assert session.work.iterations > 0 and session.work.blanks > 0


# --- mistakes made on purpose


def reads_a_frame_that_is_not_there(monkeypatch):
    newest = beam_module.FastBeam.newest
    monkeypatch.setattr(beam_module.FastBeam, "newest", lambda self: min(newest(self), 0))


def forgets_frames_too_early(monkeypatch):
    forget = FastSession._forget

    def early(self):
        forget(self)
        self._first += 1

    monkeypatch.setattr(FastSession, "_forget", early)


def counters_start_again(monkeypatch):
    feed = FastSession.feed

    def restarted(self, frames):
        self._beam.slots.symbols[:] = 0
        return feed(self, frames)

    monkeypatch.setattr(FastSession, "feed", restarted)


def cut_one_emission_early(monkeypatch):
    from vrt.rnnt.fast import agreed

    path = agreed.path
    monkeypatch.setattr(agreed, "path", lambda beam, top: path(beam, top)[:-1])


@pytest.mark.parametrize(
    "mistake",
    [
        reads_a_frame_that_is_not_there,
        forgets_frames_too_early,
        counters_start_again,
        cut_one_emission_early,
    ],
)
def test_a_mistake_is_caught(mistake, monkeypatch):
    scorer = formula(seed=5, tdiv=3, blank_add=0.5)
    frames, config = toy_frames(1, 40)[0], BeamConfig(beam_size=4, max_symbols=2)
    (want,) = malsd(scorer, frames[None], torch.tensor([40]), config)
    assert stream(FastSession(scorer, config), frames, [3] * 14)[1] == want
    mistake(monkeypatch)
    try:
        got = stream(FastSession(scorer, config), frames, [3] * 14)[1]
    except (IndexError, BeamError):
        return
    assert got != want
