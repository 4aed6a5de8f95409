"""Streams: any cutting equals the whole, what is committed stays, memory, order of calls."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from rnnt_cases import random_case, unchecked
from rnnt_scripts import Script

from vrt.rnnt import (
    BeamConfig,
    BeamError,
    BeamSession,
    BeamSessionError,
    Trace,
    malsd,
)
from vrt.rnnt.toy import ToyScorer, toy_frames
from vrt.rnnt.toy_formula import Formula


def formula(seed=3, **changes):
    parts = {"ctx": -1, "bits": 20, "shift": 17, "blank_add": 2.0, "peak_add": 2.0} | changes
    return ToyScorer(8, "logits", formula=Formula(seed=seed, **parts))


def cuts(length, size, seed):
    """Pieces of `size` frames, or of random sizes with empty ones in between for size 0."""
    if size:
        return [size] * math.ceil(length / size)
    pieces = np.random.default_rng(seed).integers(0, 6, length).tolist()
    return [*pieces, length]


def stream(session, frames, pieces):
    """Updates of all feeds and the final list."""
    session.begin()
    updates, at = [], 0
    for piece in pieces:
        updates.append(session.feed(frames[at : at + piece]))
        at += piece
    assert at >= len(frames)
    return updates, session.finalize()


def test_any_cutting_gives_the_whole():
    compared = 0
    with unchecked():
        for seed in range(80):
            case = random_case(seed)
            scorer, frames, lengths, config = case.arguments
            row = int(lengths.argmax())
            whole = frames[row, : case.lengths[row]]
            config = BeamConfig(**{**vars(config), "preserve_alignments": seed % 2 == 0})
            (want,) = malsd(scorer, whole[None], lengths[row : row + 1], config)
            for size in (1, 2, 3, 7, 0):
                session = BeamSession(scorer, config)
                updates, got = stream(session, whole, cuts(len(whole), size, seed))
                assert got == want, (seed, size)  # scores, stamps and alignments to the bit
                committed = [v for u in updates for v in u.committed]
                frames_of = [t for u in updates for t in u.timestamps]
                for h in got:
                    assert list(h.tokens[: len(committed)]) == committed, (seed, size)
                    assert list(h.timestamps[: len(committed)]) == frames_of, (seed, size)
                compared += 1
    assert compared == 400


def test_what_is_shown_is_a_living_hypothesis_and_what_is_committed_stays():
    scorer, shown = formula(tdiv=2), []
    session = BeamSession(scorer, BeamConfig(beam_size=4))
    session.begin()
    committed = []
    for t in range(60):
        update = session.feed(toy_frames(1, 60)[0, t : t + 1])
        committed += update.committed
        shown.append((*committed, *update.tentative))
        assert update.frames == t + 1 and update.waiting >= 0
    best = session.finalize()[0].tokens
    assert list(best[: len(committed)]) == committed and len(committed) > 10
    assert any(before != after[: len(before)] for before, after in pairwise(shown))


def test_a_stream_commits_before_it_ends():
    script = {t: t % 7 for t in range(4, 200, 5)}
    session = BeamSession(Script(9, script), BeamConfig(beam_size=4))
    session.begin()
    labels = 0
    for t in range(0, 200, 10):
        labels += len(session.feed(toy_frames(1, 200)[0, t : t + 10]).committed)
        due = sum(at < t + 10 for at in script)
        assert due - labels <= 3  # two labels of the newest feed and one that is doubted


def test_memory_is_bounded_by_dropping_what_is_committed():
    frames = toy_frames(1, 3000)[0]
    session = BeamSession(Script(9, {t: t % 7 for t in range(4, 3000, 5)}), BeamConfig(beam_size=4))
    session.begin()
    history, kept = [], []
    with unchecked():
        for t in range(0, 3000, 20):
            session.feed(frames[t : t + 20])
            history.append(session.state_bytes["history"])
            kept.append(session.state_bytes["frames"])
    # 20 frames are 24 iterations of 3 columns, 4 slots, 8 bytes; as many again may be in doubt.
    assert max(history) <= 2 * 24 * 3 * 4 * 8
    assert max(kept) <= 3 * 2 * 4  # frames of two fp32 numbers
    assert session.state_bytes["labels"] >= 16 * 590
    assert session.finalize()[0].tokens == tuple(t % 7 for t in range(4, 3000, 5))


class Doubtful(Script):
    """A script whose first label is as likely as another one, for good."""

    def log_probs(self, frames, state):
        rows = super().log_probs(frames, state)
        first = (state == 0) & (frames[:, 1] >= min(self.script))
        rows[first, :2] = math.log(0.45)
        rows[first, 1] -= 1e-3
        return rows

    def advance(self, state, parents, labels):
        after = super().advance(state, parents, labels)
        return torch.where((state[parents] == 0) & (labels == 1), 1, after)


@pytest.mark.parametrize("commit_after", [None, 0, 30])
def test_an_early_doubt_lasts_unless_commit_after_settles_it(commit_after):
    script = {t: 2 + t % 5 for t in range(9, 400, 5)} | {4: 0}
    scorer, frames = Doubtful(9, script), toy_frames(1, 400)[0]
    session = BeamSession(scorer, BeamConfig(beam_size=4), commit_after=commit_after)
    updates, found = stream(session, frames, [10] * 40)
    committed = sum(len(update.committed) for update in updates)
    (whole,) = malsd(scorer, frames[None], torch.tensor([400]), BeamConfig(beam_size=4))
    assert found[0].tokens == whole[0].tokens
    if commit_after is None:
        assert committed == 0 and found == whole and found[1].tokens[0] == 1
    else:
        late = -(-commit_after // 5) + 4  # labels in that time, and those still in doubt
        assert committed >= len(script) - late
        assert all(h.tokens[0] == 0 for h in found)
        assert session.state_bytes["history"] < 4 * (commit_after + 20) * 3 * 4 * 8


def test_a_negative_commit_after_is_refused():
    with pytest.raises(BeamError, match="commit_after must be 0 frames or more"):
        BeamSession(formula(), commit_after=-1)


def test_the_beam_stops_before_a_frame_that_is_not_there():
    reads = []

    class Watched(Script):
        def log_probs(self, frames, state):
            reads.append(int(frames[:, 1].max()))
            return super().log_probs(frames, state)

    session = BeamSession(Watched(5, {2: 1}), BeamConfig(beam_size=3))
    session.begin()
    for t in range(6):
        session.feed(toy_frames(1, 6)[0, t : t + 1])
        assert max(reads) <= t


def test_an_observer_sees_the_iterations_of_the_whole():
    scorer, whole, pieces = formula(), Trace(), Trace()
    malsd(scorer, toy_frames(1, 12), torch.tensor([12]), BeamConfig(), whole)
    stream(BeamSession(scorer, BeamConfig(), observer=pieces), toy_frames(1, 12)[0], [5] * 3)
    assert len(whole.iterations) == len(pieces.iterations)
    for a, b in zip(whole.iterations, pieces.iterations, strict=True):
        assert torch.equal(a.score, b.score)
        assert torch.equal(a.parent[a.alive], b.parent[b.alive])


def test_two_sessions_on_one_scorer_do_not_meet():
    scorer, frames = formula(), toy_frames(2, 20)
    alone = [stream(BeamSession(scorer), frames[b], [4] * 5)[1] for b in (0, 1)]
    both = [BeamSession(scorer), BeamSession(scorer)]
    for session in both:
        session.begin()
    for t in range(0, 20, 4):
        for b, session in enumerate(both):
            session.feed(frames[b, t : t + 4])
    assert [session.finalize() for session in both] == alone
    assert alone[0] != alone[1]


def test_a_caller_may_write_over_what_it_has_fed():
    scorer, frames = formula(), toy_frames(1, 12)[0]
    want = stream(BeamSession(scorer), frames, [3] * 4)[1]
    session = BeamSession(scorer)
    session.begin()
    for t in range(0, 12, 3):
        piece = frames[t : t + 3].clone()
        session.feed(piece)
        piece.fill_(7)
    assert session.finalize() == want


def test_a_session_serves_one_stream_after_another():
    session, frames = BeamSession(formula()), toy_frames(1, 12)[0]
    first = stream(session, frames, [12])[1]
    assert stream(session, frames, [1] * 12)[1] == first
    session.begin()
    session.feed(frames)
    session.reset()
    assert stream(session, frames, [5, 7])[1] == first


def test_no_frames_at_all_give_the_empty_hypothesis():
    session = BeamSession(formula())
    session.begin()
    (only,) = session.finalize()
    assert only.tokens == () and only.score == 0.0
    session.begin()
    update = session.feed(toy_frames(1, 5)[0, :0])
    assert update.committed == update.tentative == () and update.frames == 0
    assert session.finalize() == [only]


def test_a_beam_that_dies_ends_empty_and_does_not_hang():
    scorer = ToyScorer(
        4, "logprob", {(0, 2, ()): [-math.inf] * 4}, default_row=[-math.inf] * 3 + [0.0]
    )
    for config in (BeamConfig(), BeamConfig().as_nemo()):
        updates, found = stream(BeamSession(scorer, config), toy_frames(1, 6)[0], [2] * 3)
        assert found == [] and updates[-1].tentative == ()


def test_nan_ends_the_stream_and_reset_frees_the_session():
    rows = {(0, 2, ()): [math.nan] * 4}
    scorer = ToyScorer(4, "logprob", rows, default_row=[-9.0, -9.0, -9.0, -0.1])
    session, frames = BeamSession(scorer), toy_frames(1, 6)[0]
    session.begin()
    session.feed(frames[:2])
    with pytest.raises(BeamError, match="encoder frame 2 of utterance 0"):
        session.feed(frames[2:4])
    for call in (lambda: session.feed(frames[4:]), session.finalize, session.begin):
        with pytest.raises(BeamSessionError, match="an error ended this stream; call reset"):
            call()
    session.reset()
    session.begin()


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (torch.zeros(2, 2, dtype=torch.float64), "frames are torch.float64, the session takes"),
        (torch.zeros(2, 3), "frames are 3 wide, those before were 2"),
    ],
)
def test_refused_frames_leave_the_session_as_it_was(frames, message):
    scorer, good = formula(), toy_frames(1, 12)[0]
    want = stream(BeamSession(scorer), good, [6, 6])[1]
    session = BeamSession(scorer)
    session.begin()
    session.feed(good[:6])
    with pytest.raises(BeamError, match=message):
        session.feed(frames)
    session.feed(good[6:])
    assert session.finalize() == want


def test_calls_in_the_wrong_order_say_what_to_do():
    session, frames = BeamSession(formula()), toy_frames(1, 3)[0]
    for call in (lambda: session.feed(frames), session.finalize, lambda: session.state_bytes):
        with pytest.raises(BeamSessionError, match="the session is idle; call begin first"):
            call()
    session.begin()
    with pytest.raises(BeamSessionError, match="the session is open; call finalize or reset first"):
        session.begin()
    session.finalize()
    with pytest.raises(BeamSessionError, match="the session is finished; call begin"):
        session.feed(frames)


def test_more_slots_than_classes_are_refused_when_the_session_is_made():
    with pytest.raises(BeamError, match="beam_size 9 is larger than the scorer's 8 classes"):
        BeamSession(formula(), BeamConfig(beam_size=9))


# --- mistakes made on purpose


def stale_pieces(monkeypatch):
    monkeypatch.setattr(BeamSession, "_has_frames", lambda self, beam, last: True)


def forgets_one_column_too_many(monkeypatch):
    from vrt.rnnt.history import History

    cut = History.cut
    monkeypatch.setattr(History, "cut", lambda self, columns: cut(self, columns + 1))


def forgets_the_first_label_of_the_cut(monkeypatch):
    from vrt.rnnt.history import History

    meeting = History.meeting

    def late(self, row, slots):
        found = meeting(self, row, slots)
        return found and (found[0], (found[1] + 1) % 4)

    monkeypatch.setattr(History, "meeting", late)


def counters_start_again(monkeypatch):
    feed = BeamSession.feed

    def restarted(self, frames):
        self._beam.hyps.symbols = torch.zeros_like(self._beam.hyps.symbols)
        return feed(self, frames)

    monkeypatch.setattr(BeamSession, "feed", restarted)


def last_labels_start_again(monkeypatch):
    feed = BeamSession.feed

    def restarted(self, frames):
        self._beam.hyps.last_label = torch.full_like(self._beam.hyps.last_label, -1)
        return feed(self, frames)

    monkeypatch.setattr(BeamSession, "feed", restarted)


@pytest.mark.parametrize(
    "mistake",
    [
        stale_pieces,
        forgets_one_column_too_many,
        forgets_the_first_label_of_the_cut,
        counters_start_again,
        last_labels_start_again,
    ],
)
def test_a_mistake_is_caught(mistake, monkeypatch):
    scorer = formula(seed=5, tdiv=3, blank_add=0.5)
    frames, config = toy_frames(1, 40)[0], BeamConfig(beam_size=4, max_symbols=2)
    (want,) = malsd(scorer, frames[None], torch.tensor([40]), config)
    assert stream(BeamSession(scorer, config), frames, [3] * 14)[1] == want
    mistake(monkeypatch)
    try:
        got = stream(BeamSession(scorer, config), frames, [3] * 14)[1]
    except (IndexError, BeamError):
        return
    assert got != want
