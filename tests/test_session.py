"""A session's calls: their order, what refusal leaves behind, independence, endless streams."""

import dataclasses
import threading
import time
import weakref

import numpy as np
import psutil
import pytest
import torch
from small_models import noise, pieces, random_weights, small_config, stream

from vrt.audio import AudioError
from vrt.voxtral.config import DecoderConfig, EncoderConfig
from vrt.voxtral.greedy import ModelOutputError
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.offline import transcribe
from vrt.voxtral.session import SessionError, SettingError, StreamingSession


@pytest.fixture(scope="module")
def model() -> VoxtralRealtime:
    return random_weights(small_config())


def opened(model: VoxtralRealtime, **settings: bool | int) -> StreamingSession:
    session = StreamingSession(model, **settings)
    session.begin()
    return session


# Order of calls


@pytest.mark.parametrize("call", ["feed", "flush", "finalize"])
def test_before_begin_is_refused(model: VoxtralRealtime, call: str) -> None:
    session = StreamingSession(model)
    arguments = [noise(0.1)] if call == "feed" else []
    with pytest.raises(SessionError, match=rf"{call}\(\) on a session that is idle: call begin"):
        getattr(session, call)(*arguments)
    session.begin()  # nothing changed: the session is as usable as before


def test_begin_twice_is_refused_and_changes_nothing(model: VoxtralRealtime) -> None:
    session = opened(model)
    session.feed(noise(1)[:8000])
    with pytest.raises(SessionError, match=r"begin\(\) on a session that is open: finalize"):
        session.begin()
    session.feed(noise(1)[8000:])
    assert session.finalize().tokens == transcribe(model, noise(1)).tokens


@pytest.mark.parametrize("call", ["feed", "flush", "finalize"])
def test_after_finalize_is_refused_and_the_transcript_stays(
    model: VoxtralRealtime, call: str
) -> None:
    session = opened(model)
    session.feed(noise(1))
    expected = session.finalize().tokens
    arguments = [noise(0.1)] if call == "feed" else []
    with pytest.raises(SessionError, match=r"finished: its transcript is in \.transcript"):
        getattr(session, call)(*arguments)
    assert session.transcript.tokens == expected == transcribe(model, noise(1)).tokens


def test_finalize_right_after_begin(model: VoxtralRealtime) -> None:
    """A commit without audio: the tokens of an empty clip, and no error."""
    assert opened(model).finalize().tokens == transcribe(model, noise(1)[:0]).tokens


def test_empty_feeds(model: VoxtralRealtime) -> None:
    session = opened(model)
    empty = np.zeros(0, np.float32)
    assert session.feed(empty).tokens == ()
    for piece in pieces(noise(1), 3000):
        session.feed(piece)
        assert session.feed(empty).tokens == ()
    assert session.finalize().tokens == transcribe(model, noise(1)).tokens


def test_a_second_stream_on_one_session_equals_the_first(model: VoxtralRealtime) -> None:
    session = opened(model)
    session.feed(noise(2, seed=8, level=0.5))
    session.finalize()
    for open_again in (session.begin, lambda: (session.reset(), session.begin())):
        open_again()
        session.feed(noise(1))
        assert session.finalize().tokens == transcribe(model, noise(1)).tokens


def test_reset_in_the_middle_keeps_the_allocation(model: VoxtralRealtime) -> None:
    session = opened(model)
    memory = [ring.keys.data_ptr() for ring in session._encoder.rings]
    session.feed(noise(2, seed=8, level=0.5))
    session.reset()
    assert session.transcript.tokens == []
    session.begin()
    session.feed(noise(1))
    assert session.finalize().tokens == transcribe(model, noise(1)).tokens
    assert [ring.keys.data_ptr() for ring in session._encoder.rings] == memory


def test_settings_are_checked_before_anything_is_built(model: VoxtralRealtime) -> None:
    assert StreamingSession.validate(model, 480).prompt_len == 39
    for wrong in (0, -1):
        with pytest.raises(SettingError, match=f"at least 1, got {wrong}"):
            StreamingSession.validate(model, 480, decode_every=wrong)


def test_the_models_own_delay() -> None:
    model = random_weights(dataclasses.replace(small_config(), delay_tokens=12))
    assert StreamingSession(model).delay_ms == 960
    assert transcribe(model, noise(2)).tokens == transcribe(model, noise(2), 960).tokens
    assert StreamingSession(model, delay_ms=480).delay_ms == 480


@pytest.mark.parametrize("position", [-1, 10**18])
def test_an_impossible_first_position_is_refused(model: VoxtralRealtime, position: int) -> None:
    session = StreamingSession(model)
    with pytest.raises(SettingError, match=f"got {position}"):
        session.begin(first_position=position)
    session.begin()


def test_a_session_outlives_inference_mode(model: VoxtralRealtime) -> None:
    """Web handlers often run under a decorator that sets the mode for one call."""
    with torch.inference_mode():
        session = opened(model)
        session.feed(noise(1)[:7000])
    session.feed(noise(1)[7000:])
    session.flush()
    assert session.finalize().ids[:6] == transcribe(model, noise(1)).ids[:6]
    session.reset()
    session.begin()
    session.feed(noise(1))
    assert session.finalize().tokens == transcribe(model, noise(1)).tokens


# Bad input


@pytest.mark.parametrize(
    ("samples", "named"),
    [
        (np.zeros(100, np.int32), "int32"),
        (np.zeros((100, 2), np.float32), r"100, 2"),
        (np.array([0.0, np.nan], np.float32), "index 1"),
        (np.array([0.0, np.inf], np.float32), "index 1"),
        (np.array([0.0, 12_000.0], np.float32), "12000"),
    ],
)
def test_bad_samples_are_refused_and_the_session_goes_on(
    model: VoxtralRealtime, samples: np.ndarray, named: str
) -> None:
    session = opened(model)
    clip = noise(1)
    session.feed(clip[:5000])
    with pytest.raises(AudioError, match=named):
        session.feed(samples)
    session.feed(clip[5000:])
    assert session.finalize().tokens == transcribe(model, clip).tokens


def test_int16_and_float64_are_the_same_audio(model: VoxtralRealtime) -> None:
    whole = np.round(noise(1) * 32767).astype(np.int16)
    expected = transcribe(model, whole.astype(np.float32) / 32768).tokens
    assert stream(model, whole).tokens == stream(model, whole / 32768).tokens == expected


def test_the_callers_buffer_may_be_reused(model: VoxtralRealtime) -> None:
    """Microphone callbacks hand over the same buffer again and again."""
    session, buffer = opened(model), np.zeros(1000, np.float32)
    for piece in pieces(noise(1), 1000):
        buffer[: len(piece)] = piece
        session.feed(buffer[: len(piece)])
        buffer[:] = 3.0
    assert session.finalize().tokens == transcribe(model, noise(1)).tokens


def test_weights_that_give_nan_end_the_session_by_name() -> None:
    broken = random_weights(small_config())
    session = opened(broken)
    session.feed(noise(1))
    committed = list(session.transcript.tokens)
    broken.decoder.norm.weight[3] = float("nan")
    with pytest.raises(ModelOutputError, match=r"logits at position 4\d are not finite"):
        session.feed(noise(1))
    assert session.transcript.tokens == committed != []
    with pytest.raises(SessionError, match=r"ended by ModelOutputError.*reset"):
        session.feed(noise(1))
    broken.decoder.norm.weight[3] = 1.0
    session.reset()
    session.begin()
    session.feed(noise(1))
    assert session.finalize().tokens == transcribe(broken, noise(1)).tokens


def test_an_interrupt_keeps_every_committed_token(model: VoxtralRealtime) -> None:
    """Ctrl-C inside one large feed: what was decoded before it stays readable."""

    class InterruptAtStep:
        count = 0

        def __call__(self, stage: str, output: torch.Tensor, seconds: float) -> None:
            self.count += stage == "logits"
            if self.count == 9:
                raise KeyboardInterrupt

    session = StreamingSession(model, observer=InterruptAtStep())
    session.begin()
    with pytest.raises(KeyboardInterrupt):
        session.feed(noise(3))
    assert session.transcript.tokens == transcribe(model, noise(3)).tokens[:8]
    with pytest.raises(SessionError, match="ended by KeyboardInterrupt"):
        session.finalize()


# When tokens come


@pytest.mark.parametrize("delay_ms", [80, 480, 2400])
def test_a_token_comes_with_the_sample_that_makes_it_possible(
    model: VoxtralRealtime, delay_ms: int
) -> None:
    """40 samples (2.5 ms) past the token's edge, neither a sample earlier nor later."""
    session = opened(model, delay_ms=delay_ms)
    first = (delay_ms // 80 + 1) * 1280 + 40
    clip = noise(4)
    assert session.feed(clip[: first - 1]).tokens == ()
    assert len(session.feed(clip[first - 1 : first]).tokens) == 1
    assert session.feed(clip[first : first + 1279]).tokens == ()
    update = session.feed(clip[first + 1279 : first + 1280])
    assert len(update.tokens) == 1
    assert update.lag_seconds == pytest.approx(40 / 16_000)
    assert update.audio_seconds == (first + 1280) / 16_000


def test_delays_side_by_side(model: VoxtralRealtime) -> None:
    """80 to 2400 ms on one model; each equals its own offline run."""
    delays = [80, 160, 480, 800, 1200, 2400]
    sessions = [opened(model, delay_ms=delay) for delay in delays]
    for piece in pieces(noise(1.5), 1000):
        for session in sessions:
            session.feed(piece)
    for delay, session in zip(delays, sessions, strict=True):
        assert session.finalize().tokens == transcribe(model, noise(1.5), delay).tokens


@pytest.mark.parametrize("at", [0, 1, 1280, 17_001])
def test_flush_equals_offline_with_its_zeros_inserted(model: VoxtralRealtime, at: int) -> None:
    clip = noise(2)
    session = opened(model)
    session.feed(clip[:at])
    flushed = session.flush()
    out = len(session.transcript.tokens)
    session.feed(clip[at:])
    zeros = np.zeros(-at % 1280 + (6 + 11) * 1280, np.float32)
    expected = transcribe(model, np.concatenate([clip[:at], zeros, clip[at:]]))
    got = session.finalize()
    assert got.ids == expected.ids
    # All but the last token, which needs 40 samples more and speaks about the zeros anyway.
    assert out == (at + len(zeros)) // 1280 - (6 + 1)
    assert max(token.end for token in flushed.tokens) == at / 16_000
    assert got.tokens[-1].start >= 2.0, "times are those of the caller's audio"
    assert [t.start for t in got.tokens] == sorted(t.start for t in got.tokens)


def test_flush_decodes_what_the_throttle_held_back(model: VoxtralRealtime) -> None:
    session = opened(model, decode_every=100)
    assert session.feed(noise(1)).tokens == ()
    assert len(session.flush().tokens) == 13 + 17 - 7


# Independence


def test_three_interleaved_sessions(model: VoxtralRealtime) -> None:
    """One of them pauses for a while, one is reset in the middle, one ends early."""
    clips = [noise(2, seed=s, level=0.3) for s in range(3)]
    sessions = [opened(model) for _ in clips]
    for step in range(0, 32_000, 2000):
        for number, session in enumerate(sessions):
            if number == 1 and step == 16_000:
                session.reset()
                session.begin()
            if number != 2 or step < 12_000:
                session.feed(clips[number][step : step + 2000])
    got = [session.finalize().tokens for session in sessions]
    assert got[0] == transcribe(model, clips[0]).tokens
    assert got[1] == transcribe(model, clips[1][16_000:]).tokens
    assert got[2] == transcribe(model, clips[2][:12_000]).tokens


def test_sessions_in_threads(model: VoxtralRealtime) -> None:
    clips = [noise(2, seed=s, level=0.3) for s in range(4)]
    expected = [transcribe(model, clip).tokens for clip in clips]
    got: dict[int, list] = {}

    def work(number: int) -> None:
        got[number] = stream(model, clips[number], 777).tokens

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [got[n] for n in range(4)] == expected


def test_a_finished_session_leaves_nothing_on_the_model(model: VoxtralRealtime) -> None:
    session = opened(model)
    session.feed(noise(1))
    session.finalize()
    before = weakref.ref(session)
    del session
    assert before() is None


# Long streams


def test_a_stream_at_the_old_position_wall(model: VoxtralRealtime) -> None:
    """Begun at decoder position 131,060 (encoder frame 524,240): the text goes on as near zero.

    Rotary angles depend on differences only; their rounding does not: measured 1.7e-6 of 3 in the
    encoder. Tokens are equal.
    """
    clip = noise(2)
    session = StreamingSession(model)
    session.begin(first_position=131_060)
    for piece in pieces(clip, 1280):
        session.feed(piece)
    assert session.finalize().ids == transcribe(model, clip).ids


def test_no_token_cap_and_one_huge_feed() -> None:
    """Two minutes in one call, in bounded slices; every 80 ms has its token."""
    model = random_weights(
        small_config(
            EncoderConfig(16, 1, 1, 16, 32, window=8),
            DecoderConfig(16, 1, 1, 1, 16, 32, window=9, vocab=40),
        )
    )
    session = opened(model)
    update = session.feed(np.tile(noise(10), 12))
    assert len(update.tokens) == 120 * 16_000 // 1280 - 6 - 1
    assert session.finalize().tokens == transcribe(model, np.tile(noise(10), 12)).tokens


def test_twenty_minutes_of_silence() -> None:
    """Memory is flat and a step does not get dearer. One layer each, windows that wrap often.

    Resident memory may grow by 2 MB (allocator; measured 0.0) from minute 5 to minute 19. A step
    costs at most 1.2 times that of a stream just begun, both measured in turn in one loop.
    """
    model = random_weights(
        small_config(
            EncoderConfig(16, 1, 1, 16, 32, window=40),
            DecoderConfig(16, 1, 1, 1, 16, 32, window=33, vocab=40),
        )
    )
    old, step = opened(model), np.zeros(1280, np.float32)
    state = old.state_bytes
    resident = []
    for _ in range(19):
        for _ in range(150):
            old.feed(np.zeros(5 * 1280, np.float32))
        assert len(old.drain().tokens) >= 743
        resident.append(psutil.Process().memory_info().rss)
    young = opened(model)
    young.feed(np.zeros(10 * 1280, np.float32))
    cost: dict[StreamingSession, list[float]] = {old: [], young: []}
    for _ in range(750):
        for session, times in cost.items():
            start = time.process_time()
            session.feed(step)
            times.append(time.process_time() - start)
    assert old.state_bytes == state
    assert resident[-1] - resident[4] < 2e6
    assert np.median(cost[old]) <= 1.2 * np.median(cost[young])


def test_drain_hands_over_everything_once(model: VoxtralRealtime) -> None:
    clip = noise(2)
    session, tokens = opened(model), []
    for piece in pieces(clip, 4000):
        session.feed(piece)
        tokens += session.drain().tokens
        assert session.transcript.tokens == []
    tokens += session.finalize().tokens
    assert tokens == transcribe(model, clip).tokens
