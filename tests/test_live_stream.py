"""The kernel side of the live view, without a browser: order, loss, overflow, errors."""

import random
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import vrt
from vrt.audio import read, resample
from vrt.lab.widgets.capture import CaptureError, Chunk, parse
from vrt.lab.widgets.latency import PIECE, Cutter, latency_of
from vrt.lab.widgets.order import END, Gap, Reorder
from vrt.lab.widgets.recording import Limits, Recording
from vrt.lab.widgets.sessions import NEVER, Heard, open_session, setting_of
from vrt.lab.widgets.stream import LiveStream
from vrt.rnnt.acoustic import transcribe_beam

PATIENT = 60  # seconds that a test waits for a thread at most
RATE = 44_100


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Notes:
    """A session that keeps what it is fed; `slow` holds each feed, the third raises `fault`."""

    def __init__(self, slow: threading.Event | None = None, fault: Exception | None = None) -> None:
        self.fed: list[np.ndarray] = []
        self.slow, self.fault = slow, fault
        self.threads: set[int] = set()
        self.calls: list[str] = []

    def begin(self) -> None:
        self.calls.append("begin")

    def feed(self, samples: np.ndarray) -> Heard:
        self.threads.add(threading.get_ident())
        if self.slow is not None:
            assert self.slow.wait(PATIENT)
        self.fed.append(samples)
        if self.fault is not None and len(self.fed) == 3:
            raise self.fault
        return Heard(text="x" * len(self.fed))

    def finalize(self) -> Heard:
        self.calls.append("finalize")
        return Heard(text="x" * len(self.fed) + ".")

    @property
    def samples(self) -> np.ndarray:
        return np.concatenate([np.zeros(0, np.float32), *self.fed])


def noise(samples: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.uniform(-0.5, 0.5, samples).astype(np.float32)


def blocks(samples: np.ndarray, size: int = 3528, rate: int = 16_000) -> list[Chunk]:
    """A recording as a browser cuts it, with the message that ends it."""
    starts = range(0, len(samples), size)
    cut = [Chunk(1, k, at, rate, samples[at : at + size]) for k, at in enumerate(starts)]
    return [*cut, Chunk(1, len(cut), len(samples), rate, samples[:0], last=True)]


def run(chunks: list[Chunk], session: Notes, limits: Limits | None = None) -> Recording:
    limits = limits or Limits(queue_s=3600)
    recording = Recording(1, chunks[0].rate_hz, lambda: session, limits)
    for chunk in chunks:
        recording.take(chunk)
    assert recording.wait(PATIENT)
    return recording


def drained(order: Reorder) -> list:
    """All that can be given out now, the end included."""
    given = []
    while (item := order.pop()) is not None:
        given.append(item)
        if item is END:
            break
    return given


# --- order ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_shuffled_blocks_come_out_in_order_bit_for_bit(seed):
    samples = noise(20 * 160 + 7, seed)
    chunks = blocks(samples, 160)
    random.Random(seed).shuffle(chunks)
    order = Reorder(1.0, 60.0, Clock())
    given = []
    for chunk in chunks:
        assert order.put(chunk)
        given += drained(order)
    assert given[-1] is END
    assert np.array_equal(np.concatenate([c.samples for c in given[:-1]]), samples)
    assert order.counts.received == 21 and order.counts.lost_samples == 0
    later = [c.sequence for c in chunks if not c.last]
    overtaken = sum(n < max(later[:i], default=-1) for i, n in enumerate(later))
    assert order.counts.reordered == overtaken


def test_missing_block_is_waited_for_then_given_out_as_a_gap():
    clock = Clock()
    order = Reorder(1.0, 60.0, clock)
    first, missing, third, end = blocks(noise(480), 160)
    order.put(first)
    order.put(third)
    assert drained(order) == [first] and order.patience() == 1.0
    clock.now = 0.75
    order.put(end)
    assert order.pop() is None and order.patience() == 0.25
    clock.now = 1.0
    assert drained(order) == [Gap(160, 1), third, END]
    order.put(missing)
    assert order.counts.late == 1 and order.counts.lost_samples == 160
    assert order.counts.lost_blocks == 1


def test_a_block_that_comes_in_time_closes_its_gap():
    clock = Clock()
    order = Reorder(1.0, 60.0, clock)
    chunks = blocks(noise(640), 160)
    for chunk in (chunks[0], chunks[2], chunks[3]):
        order.put(chunk)
    drained(order)
    clock.now = 0.99
    order.put(chunks[1])
    assert drained(order) == chunks[1:4]
    # The next gap has its own time, counted from when it shows.
    order.put(Chunk(1, 5, 800, 16_000, noise(160)))
    assert order.pop() is None and order.patience() == 1.0


def test_samples_that_the_browser_itself_lost_are_a_gap_without_blocks():
    order = Reorder(1.0, 60.0, Clock())
    a, b = Chunk(1, 0, 0, 16_000, noise(160)), Chunk(1, 1, 288, 16_000, noise(160))
    order.put(a)
    order.put(b)
    assert drained(order) == [a, Gap(128, 0), b]
    assert order.counts.lost_samples == 128 and order.counts.lost_blocks == 0


def test_the_same_block_twice_is_heard_once():
    order = Reorder(1.0, 60.0, Clock())
    first, second, *_ = blocks(noise(480), 160)
    order.put(second)
    order.put(second)
    order.put(first)
    assert drained(order) == [first, second] and order.counts.twice == 1
    order.put(first)
    assert order.counts.late == 1 and drained(order) == []


def test_full_queue_ends_the_recording_before_the_block_without_room():
    order = Reorder(1.0, 0.02, Clock())  # 320 samples
    first, second, third, *_ = blocks(noise(640), 160)
    assert order.put(first) and order.put(second)
    assert not order.put(third)
    assert order.put(third)  # said once
    assert drained(order) == [first, second, END]
    assert order.counts.refused == 2


def test_gap_longer_than_the_queue_is_no_room_either():
    order = Reorder(1.0, 1.0, Clock())
    order.put(Chunk(1, 0, 0, 16_000, noise(160)))
    assert not order.put(Chunk(1, 1, 16_000 * 3600, 16_000, noise(160)))  # the lid was closed
    assert drained(order)[-1] is END


# --- messages -------------------------------------------------------------------------------

GOOD = {"recording": 5, "sequence": 2, "start": 320, "rate_hz": RATE}


def test_message_becomes_a_block_of_its_own():
    buffer = bytearray(np.array([0.5, -0.25], "<f4").tobytes())
    chunk = parse(GOOD, [memoryview(buffer)])
    buffer[:] = bytes(len(buffer))
    assert chunk.samples.tolist() == [0.5, -0.25] and chunk.samples.dtype == np.float32
    assert (chunk.recording, chunk.sequence, chunk.start, chunk.rate_hz) == (5, 2, 320, RATE)
    assert parse(GOOD | {"last": True}, []).last


@pytest.mark.parametrize(
    ("content", "buffers", "said"),
    [
        ({"sequence": -1}, [b"1234"], "sequence must be a whole number from 0 on, got -1"),
        ({"sequence": 1.5}, [b"1234"], "got 1.5"),
        ({"recording": None}, [b"1234"], "recording must be"),
        ({"start": True}, [b"1234"], "start must be"),
        ({"rate_hz": 10}, [b"1234"], "rate_hz is 10"),
        ({}, [], "carries one buffer of samples, got 0"),
        ({}, [b"12345"], "whole float32 samples, got 5 bytes"),
        ({}, [b""], "got 0 bytes"),
    ],
)
def test_bad_message_is_refused_by_what_is_wrong(content, buffers, said):
    with pytest.raises(CaptureError, match=said):
        parse(GOOD | content, buffers)


# --- pieces ---------------------------------------------------------------------------------


def test_cutter_gives_whole_pieces_and_the_rest_at_the_end():
    samples, cutter = noise(3 * PIECE + 100), Cutter()
    pieces = [p for at in range(0, len(samples), 777) for p in cutter.feed(samples[at : at + 777])]
    assert [len(p) for p in pieces] == [PIECE] * 3
    (rest,) = cutter.finish()
    assert np.array_equal(np.concatenate([*pieces, rest]), samples)
    assert cutter.finish() == []


def test_latency_against_numbers_by_hand():
    found = latency_of([10.0, 20.0, 30.0, 40.0, 90.0])
    assert (found.pieces, found.p50_ms, found.max_ms, found.over) == (5, 30.0, 90.0, 1)
    assert found.p95_ms == pytest.approx(80.0)  # four fifths of the way from 40 to 90
    assert latency_of([]) is None


# --- a recording ----------------------------------------------------------------------------


def test_what_is_heard_is_the_resampled_whole_whatever_the_blocks_and_their_order():
    samples, session = noise(RATE), Notes()
    chunks = blocks(samples, 3528, RATE)
    random.Random(3).shuffle(chunks)
    recording = run(chunks, session)
    assert recording.progress.phase == "finished"
    assert np.array_equal(session.samples, resample(samples, RATE))
    assert session.calls == ["begin", "finalize"] and len(session.threads) == 1
    assert threading.get_ident() not in session.threads
    assert recording.progress.heard.text.endswith(".")
    assert len(recording.pieces.ms) == len(session.fed)
    assert len(recording.pieces.levels) == 4 * len(session.fed)


def test_blocks_may_come_from_many_threads_at_once():
    samples, session = noise(64 * 500), Notes()
    chunks = blocks(samples, 500)
    recording = Recording(1, 16_000, lambda: session, Limits(queue_s=3600, gap_s=PATIENT))
    threads = [
        threading.Thread(target=lambda part=part: [recording.take(c) for c in part])
        for part in (chunks[0::3], chunks[1::3], chunks[2::3])
    ]
    for thread in threads:
        thread.start()
    assert recording.wait(PATIENT)
    assert np.array_equal(session.samples, samples)


def test_silence_stands_for_lost_blocks_so_that_times_stay_right():
    samples, session = noise(10 * PIECE), Notes()
    chunks = blocks(samples, PIECE)
    del chunks[4], chunks[6]  # numbers 4 and 7
    recording = run(chunks, session, Limits(queue_s=3600, gap_s=0.05))
    expected = samples.copy()
    expected[4 * PIECE : 5 * PIECE] = expected[7 * PIECE : 8 * PIECE] = 0
    assert np.array_equal(session.samples, expected)
    counts = recording.progress.counts
    assert (counts.lost_blocks, counts.lost_samples) == (2, 2 * PIECE)


def test_full_queue_stops_and_all_that_waited_is_heard():
    gate, samples = threading.Event(), noise(20 * PIECE)
    session = Notes(slow=gate)
    recording = Recording(1, 16_000, lambda: session, Limits(queue_s=5 * PIECE / 16_000))
    chunks = blocks(samples, PIECE)
    for chunk in chunks[:12]:
        recording.take(chunk)
    progress = recording.progress
    assert progress.phase == "finishing"
    assert "the model is slower than speech" in progress.message and "0.4 s" in progress.message
    gate.set()
    assert recording.wait(PATIENT)
    heard = len(session.samples)
    assert np.array_equal(session.samples, samples[:heard])  # no hole
    assert heard in (5 * PIECE, 6 * PIECE)  # the queue, and what the thread had taken out of it
    progress = recording.progress
    assert progress.phase == "finished" and "slower than speech" in progress.message
    assert progress.counts.refused == 12 - heard // PIECE


def test_audio_that_jumps_ahead_by_more_than_the_queue_is_no_slow_model():
    session = Notes()
    recording = Recording(1, 16_000, lambda: session, Limits(queue_s=2))
    first, *_ = blocks(noise(PIECE), PIECE)
    recording.take(first)
    recording.take(Chunk(1, 1, 16_000 * 60, 16_000, noise(PIECE)))  # the lid was closed
    assert recording.wait(PATIENT)
    assert "59.9 s of audio are missing at once" in recording.progress.message
    assert len(session.samples) == PIECE and session.calls[-1] == "finalize"


def test_block_of_another_rate_is_refused_and_its_gap_shows():
    session, samples = Notes(), noise(3 * PIECE)
    first, second, third, end = blocks(samples, PIECE)
    other = Chunk(1, 1, PIECE, 48_000, second.samples)
    recording = run([first, other, third, end], session, Limits(queue_s=60, gap_s=0.05))
    progress = recording.progress
    assert progress.counts.malformed == 1 and progress.counts.lost_samples == PIECE
    assert progress.message.endswith("a block of 48000 Hz in a recording of 16000 Hz")
    assert np.array_equal(session.samples[:PIECE], first.samples)
    assert np.array_equal(session.samples[2 * PIECE :], third.samples)


def test_error_of_the_session_ends_the_recording_and_keeps_the_text():
    session = Notes(fault=RuntimeError("the encoder broke"))
    recording = run(blocks(noise(10 * PIECE), PIECE), session)
    progress = recording.progress
    assert progress.phase == "failed"
    assert progress.message == "The session ended with RuntimeError: the encoder broke"
    assert progress.heard.text == "xx" and session.calls == ["begin"]


def test_session_that_cannot_be_opened_is_said():
    def broken() -> Notes:
        raise ValueError("no such delay")

    recording = Recording(1, 16_000, broken, Limits())
    assert recording.wait(PATIENT)
    assert recording.progress.phase == "failed" and "no such delay" in recording.progress.message


def test_samples_that_are_no_numbers_end_the_recording_by_name():
    bad = noise(PIECE)
    bad[7] = np.nan
    recording = run(blocks(bad, PIECE), Notes())
    assert recording.progress.phase == "failed"
    assert "nan" in recording.progress.message and "index 7" in recording.progress.message


def test_microphone_that_falls_silent_for_good_ends_what_was_heard():
    session = Notes()
    recording = Recording(1, 16_000, lambda: session, Limits(quiet_s=0.05))
    recording.take(blocks(noise(2 * PIECE), PIECE)[0])
    assert recording.wait(PATIENT)
    assert recording.progress.phase == "finished"
    assert "No audio came for 0.05 s" in recording.progress.message
    assert session.calls == ["begin", "finalize"] and len(session.samples) == PIECE
    recording.take(blocks(noise(2 * PIECE), PIECE)[1])
    assert recording.progress.counts.late == 1


def test_end_that_overtakes_the_last_blocks_waits_for_them():
    samples, session = noise(6 * PIECE), Notes()
    *chunks, end = blocks(samples, PIECE)
    run([*chunks[:3], end, *chunks[3:]], session)
    assert np.array_equal(session.samples, samples)


# --- a stream -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    return vrt.load("digits-rnnt")


@pytest.fixture(scope="module")
def tiny():
    return vrt.load("random-tiny")


@pytest.fixture(scope="module")
def clip(repo_root: Path):
    return read(repo_root / "data" / "audio" / "five_five.flac")


def offline(model, clip, beam_size: int = 8) -> str:
    nbest = transcribe_beam(model, clip.samples, vrt.BeamConfig(beam_size))
    return model.text(nbest[0].tokens)


def test_live_text_of_a_transducer_is_the_offline_text(digits, clip):
    stream = LiveStream(digits)
    stream.play(clip, realtime=False)
    seen = stream.wait(PATIENT)
    assert seen.phase == "finished" and seen.text == offline(digits, clip) == "five five"
    assert seen.tentative == "" and seen.beam[0].text == seen.text
    assert seen.heard_s == seen.received_s == clip.seconds and seen.queued_s == 0
    assert seen.latency.pieces == len(seen.compute_ms) == 20


def test_live_text_of_voxtral_is_the_offline_text(tiny, clip):
    stream = LiveStream(tiny, 240)
    stream.play(clip, realtime=False)
    seen = stream.wait(PATIENT)
    assert seen.text == vrt.transcribe(tiny, clip, 240).text != ""
    assert [gauge.name for gauge in seen.memory] == ["encoder ring", "decoder ring"]
    encoder, decoder = seen.memory
    # 32 tokens of left pad, 20 of the clip, 3 of delay, 1 and 10 behind it.
    assert (decoder.used, decoder.size) == (66, 96)
    assert (encoder.used, encoder.size) == (96, 96)


def test_microphone_at_another_rate_out_of_order_gives_the_text_of_the_resampled_whole(
    digits, clip
):
    samples = resample(clip.samples, 16_000, RATE)
    chunks = blocks(samples, 3528, RATE)
    random.Random(1).shuffle(chunks)
    stream = LiveStream(digits)
    for chunk in chunks:
        stream.take(chunk)
    seen = stream.wait(PATIENT)
    nbest = transcribe_beam(digits, resample(samples, RATE), vrt.BeamConfig(8))
    assert seen.text == digits.text(nbest[0].tokens) != ""
    assert seen.counts.reordered > 0 and seen.counts.lost_samples == 0


def test_committed_text_only_grows_and_tentative_text_shows_before_it(digits, clip):
    session = open_session(digits, 400)
    session.begin()
    texts, shown = [""], set()
    for at in range(0, len(clip.samples), PIECE):
        heard = session.feed(clip.samples[at : at + PIECE])
        assert heard.text.startswith(texts[-1])
        texts.append(heard.text)
        shown.add(heard.text + heard.tentative)
        assert all(line.score <= 0 for line in heard.beam)
    assert "five" in shown and texts[-1].startswith("five")
    assert session.finalize().text == "five five"


def test_newer_recording_takes_over_and_the_older_is_not_heard(digits, clip):
    stream = LiveStream(digits)
    for chunk in blocks(noise(8000))[:2]:
        stream.take(chunk)
    first = stream._recording
    stream.play(clip, realtime=False)
    stream.take(blocks(noise(8000))[2])
    assert stream.wait(PATIENT).text == "five five"
    assert first.wait(PATIENT) and first.progress.phase == "given up"


def test_file_in_real_time_takes_as_long_as_it_lasts(tiny, clip):
    stream = LiveStream(tiny)
    start = time.monotonic()
    stream.play(clip, realtime=True)
    assert stream.snapshot().phase == "listening"
    assert stream.wait(PATIENT).phase == "finished"
    assert time.monotonic() - start >= clip.seconds


def test_end_and_close(tiny, clip):
    stream = LiveStream(tiny)
    assert stream.snapshot().phase == "idle" and stream.wait().text == ""
    stream.end()
    stream.close()  # nothing to end is no error
    for chunk in blocks(clip.samples)[:2]:
        stream.take(chunk)
    stream.end()
    seen = stream.wait(PATIENT)
    assert seen.phase == "finished" and seen.heard_s == pytest.approx(2 * 3528 / 16_000)
    stream.take(Chunk(2, 0, 0, 16_000, noise(PIECE)))
    with pytest.raises(TimeoutError, match=r"not over after 0\.01 s"):
        stream.wait(0.01)
    stream.close()
    assert stream.wait(PATIENT).phase == "given up"


def test_settings_are_those_of_the_model(digits, tiny):
    assert setting_of(digits).default == NEVER and setting_of(tiny).default == 480
    assert setting_of(tiny).values[0] == 80 and setting_of(tiny).values[-1] == 2400
    with pytest.raises(ValueError, match="delay 90 is not offered"):
        LiveStream(tiny, 90)
    stream = LiveStream(digits)
    with pytest.raises(ValueError, match="settle after 17 is not offered"):
        stream.setting = 17
    stream.setting = 400
    assert stream.setting == 400
    with pytest.raises(TypeError, match=r"live takes a model of vrt\.load, got str"):
        LiveStream("digits-rnnt")


def test_hypotheses_change_nothing(digits, clip):
    asked, silent = (vrt.TransducerSession(digits, vrt.BeamConfig(4)) for _ in range(2))
    for session in (asked, silent):
        session.begin()
    for at in range(0, len(clip.samples), PIECE):
        piece = clip.samples[at : at + PIECE]
        update = asked.feed(piece)
        best = asked.hypotheses()[0]
        assert digits.text(best.tokens) == update.text + update.tentative
        assert silent.feed(piece) == update
    assert asked.finalize() == silent.finalize()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"queue_s": 0.05}, "queue_s is 0.05"),
        ({"gap_s": -1}, "gap_s is -1"),
        ({"quiet_s": "a"}, "'a'"),
    ],
)
def test_limits_that_cannot_be_are_refused(given, says):
    with pytest.raises((ValueError, TypeError), match=says):
        Limits(**given)
