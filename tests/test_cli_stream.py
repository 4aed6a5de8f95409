"""`vrt stream`: the same text as the whole clip's, live, and every way in which it can end."""

import io
import json
import os
import signal
import subprocess
import sys

import commands
import numpy as np
import pytest
import soundfile

import vrt
from vrt import captions
from vrt.audio import AudioError, read, resample
from vrt.audio.containers import mp3_frame
from vrt.audio.resampling import RATE_RANGE
from vrt.cli import live, sources
from vrt.cli.interrupts import MOMENT, GiveUp, Presses, interrupts_held
from vrt.cli.live import Pace
from vrt.paths import data_dir
from vrt.voxtral.greedy import ModelOutputError
from vrt.voxtral.session import StreamingSession


@pytest.fixture(autouse=True)
def listening():
    """Ctrl-C is heard, also where the tests themselves were started with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def run(*arguments, **options):
    return commands.run("stream", *arguments, **options)


def lines_of(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def ids_of(lines):
    return [token["id"] for line in lines for token in line.get("tokens", [])]


@pytest.fixture(scope="module")
def model():
    return vrt.load("random-tiny")


@pytest.fixture(scope="module")
def speech():
    return data_dir() / "audio" / "sense_and_sensibility_0930.flac"


@pytest.fixture(scope="module")
def whole(model, speech):
    return vrt.transcribe(model, speech)


@pytest.fixture(scope="module")
def pcm(speech):
    """Two seconds as int16, so that a pipe loses nothing."""
    return (read(speech).samples[:32_000] * 32_768).round().astype("<i2")


# --- what is printed --------------------------------------------------------------------------


@pytest.mark.parametrize("feed_ms", [7.3125, 27.6, 80, 1000, 60_000])
def test_a_stream_prints_the_text_of_the_whole_clip(whole, speech, feed_ms):
    result = run(speech, "--feed-ms", feed_ms)
    assert result.exit_code == 0
    assert result.stdout == whole.text + "\n"


def test_json_lines_hold_every_token_once_and_end_with_the_text(whole, speech):
    *updates, final = lines_of(run(speech, "--json"))
    assert ids_of(updates) == whole.ids
    assert "".join(line["text"] for line in updates) == whole.text == final["text"]
    assert [w["text"] for line in updates for w in line["words"]] == [w.text for w in whole.words]
    assert final["final"] and not final["interrupted"] and not final["stopped_at_eos"]
    assert (final["token_count"], final["word_count"]) == (len(whole.ids), len(whole.words))
    assert final["audio_seconds"] == len(read(speech).samples) / 16_000


def test_text_comes_before_the_audio_ends(speech):
    *updates, final = lines_of(run(speech, "--json"))
    first = next(line for line in updates if line["text"])
    assert first["audio_seconds"] < 0.8 < final["audio_seconds"]
    assert all(line["lag_seconds"] <= 0.16 for line in updates)


def test_decoding_in_groups_gives_the_same_tokens_in_fewer_lines(whole, speech):
    every, fourth = (lines_of(run(speech, "--json", "--decode-every", n)) for n in (1, 4))
    assert ids_of(fourth) == ids_of(every) == whole.ids
    assert len(fourth) < len(every) / 2


@pytest.mark.parametrize("delay_ms", [80, 1200])
def test_delay_is_a_setting_of_the_stream(model, speech, delay_ms):
    expected = vrt.transcribe(model, speech, delay_ms)
    assert run(speech, "--delay-ms", delay_ms).stdout == expected.text + "\n"


@pytest.mark.parametrize(("format", "render"), [("srt", captions.srt), ("vtt", captions.vtt)])
def test_live_captions_are_those_of_the_whole_clip(monkeypatch, whole, speech, format, render):
    # short cues, so that several of them are written while the stream runs
    monkeypatch.setattr(captions, "LINE", 8)
    assert len(captions.cues(whole.words)) > 3
    assert run(speech, "--format", format).stdout == render(captions.cues(whole.words))


def test_json_document_is_the_one_that_transcribe_writes(speech):
    streamed = run(speech, "--format", "json")
    written = commands.run("transcribe", speech, "--json")
    (one,), (other,) = lines_of(streamed), lines_of(written)
    for document in (one, other):
        assert document.pop("seconds") >= 0 and document.pop("real_time_factor") > 0
    assert one == other


def test_a_model_without_vocabulary_streams_ids(whole, speech, tmp_path):
    mute = commands.without_vocabulary(tmp_path / "mute")
    result = run(speech, "--model", mute)
    assert [int(id) for id in result.stdout.split()] == whole.ids
    assert "tekken.json" in result.stderr
    assert lines_of(run(speech, "--model", mute, "--json"))[-1]["text"] is None
    refused = run(speech, "--model", mute, "--format", "srt")
    assert refused.exit_code == 1 and "tekken.json" in refused.stderr


def test_eos_ends_a_stream_only_where_asked(whole, speech, tmp_path):
    at = len(whole.ids) // 2
    eos = next(id for id in whole.ids[at:] if id not in whole.ids[:at])
    folder = commands.random_tiny(tmp_path / "early")
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["eos_token_id"] = eos
    (folder / "config.json").write_text(json.dumps(config))
    on = lines_of(run(speech, "--model", folder, "--json"))
    assert ids_of(on) == whole.ids
    result = run(speech, "--model", folder, "--json", "--stop-at-eos")
    *updates, final = lines_of(result)
    assert ids_of(updates) == whole.ids[: whole.ids.index(eos) + 1]
    assert final["stopped_at_eos"] and "EOS" in result.stderr and result.exit_code == 0


def test_an_endless_stream_keeps_no_tokens(monkeypatch, speech):
    held, feed = [], StreamingSession.feed

    def watched(self, samples):
        held.append(len(self.transcript.tokens))
        return feed(self, samples)

    monkeypatch.setattr(StreamingSession, "feed", watched)
    assert run(speech, "--feed-ms", 160).exit_code == 0
    assert len(held) > 10 and max(held) == 0


# --- raw PCM on stdin -------------------------------------------------------------------------


def test_pcm_on_stdin_is_the_same_audio(model, pcm):
    expected = vrt.transcribe(model, pcm)
    result = run("-", input=pcm.tobytes())
    assert result.exit_code == 0 and result.stdout == expected.text + "\n"


@pytest.mark.parametrize("rate", [8_000, 48_000])
def test_pcm_of_another_rate_is_resampled_as_a_stream(model, pcm, rate):
    expected = vrt.transcribe(model, resample(pcm, rate))
    result = run("-", "--rate", rate, "--json", input=pcm.tobytes())
    assert ids_of(lines_of(result)) == expected.ids
    assert f"resampled {rate} -> 16000" in result.stderr


def test_a_pipe_that_ends_inside_a_sample(model, pcm):
    result = run("-", "--json", input=pcm.tobytes() + b"\x01")
    assert ids_of(lines_of(result)) == vrt.transcribe(model, pcm).ids
    assert "inside a sample" in result.stderr and result.exit_code == 0


@pytest.mark.parametrize("count", [1, 2, 160, 1264, 1280, 1296])
def test_short_clips_are_streams(model, pcm, count):
    result = run("-", "--json", input=pcm[:count].tobytes())
    assert ids_of(lines_of(result)) == vrt.transcribe(model, pcm[:count]).ids


@pytest.mark.parametrize("data", [b"", b"a"])
def test_an_empty_pipe_is_a_failure(data):
    result = run("-", input=data)
    assert result.exit_code == 1 and "before the first sample" in result.stderr


@pytest.mark.parametrize(
    "head", [b"RIFF\x24\x00\x00\x00WAVE", b"fLaC\x00", b"OggS\x00", b"ID3\x04"]
)
def test_a_file_is_not_heard_as_pcm(head):
    result = run("-", input=head + bytes(9999))
    assert result.exit_code == 1 and "ffmpeg" in result.stderr
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("rate", [16_000, 24_000, 44_100])
def test_an_mp3_without_a_tag_is_not_heard_as_pcm(pcm, rate):
    file = io.BytesIO()
    soundfile.write(file, pcm, rate, format="MP3")
    mp3 = file.getvalue()
    assert mp3[0] == 0xFF
    result = run("-", input=mp3)
    assert result.exit_code == 1 and "mp3" in result.stderr and "ffmpeg" in result.stderr


@pytest.mark.parametrize("count", [2, 4000])
def test_a_sample_that_looks_like_mp3_is_pcm(model, pcm, count):
    looks = np.concatenate([np.frombuffer(b"\xff\xfb\x90\x64", "<i2"), pcm])[:count]
    assert mp3_frame(looks.tobytes()[:4])[0] > 0
    result = run("-", "--json", input=looks.tobytes())
    assert ids_of(lines_of(result)) == vrt.transcribe(model, looks).ids


def test_a_keyboard_is_not_heard_as_pcm(monkeypatch):
    class Terminal:
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    with pytest.raises(AudioError, match="terminal"):
        sources.open_source("-", None, 80.0)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(AudioError, match="closed"):
        sources.open_source("-", None, 80.0)


@pytest.mark.parametrize("feed_ms", ["0", "-80", "0.05", "nan", "inf", "60001"])
def test_feeds_that_are_none_are_refused_by_name(speech, feed_ms):
    result = run(speech, "--feed-ms", feed_ms)
    assert result.exit_code == 2
    assert "--feed-ms" in result.stderr and feed_ms.removesuffix(".0") in result.stderr


def test_other_wrong_settings_are_refused_by_name(speech):
    for arguments, mentioned in (
        ((speech, "--rate", 8000), "stdin"),
        (("-", "--rate", 10), "1000"),
        ((speech, "--decode-every", 0), "--decode-every"),
        ((speech, "--delay-ms", 90), "80 or 160"),
        ((speech, "--json", "--format", "vtt"), "--json"),
        ((), "FILE|-"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2 and mentioned in result.stderr, result.stderr
    assert run("nowhere.wav").exit_code == 1


def test_rates_are_those_of_the_resampler():
    for rate, code in ((RATE_RANGE[0], 1), (RATE_RANGE[0] - 1, 2), (RATE_RANGE[1] + 1, 2)):
        assert run("-", "--rate", rate, input=b"").exit_code == code


# --- the clock --------------------------------------------------------------------------------


def test_pace_waits_for_the_audio_and_never_for_the_past():
    now, slept = [100.0], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    pace = Pace(clock=lambda: now[0], sleep=sleep)
    pace.wait(0.08)
    now[0] += 0.5  # a slow step
    pace.wait(0.16)
    assert slept == [pytest.approx(0.08)]
    assert pace.behind(0.16) == pytest.approx(0.42)
    pace.wait(1.0)
    assert slept[1:] == [pytest.approx(0.42)]


def test_realtime_changes_the_clock_and_not_the_text(monkeypatch, whole, speech):
    slept = []
    monkeypatch.setattr(live, "Pace", lambda: Pace(clock=lambda: 0.0, sleep=slept.append))
    result = run(speech, "--realtime", "--json")
    assert ids_of(lines_of(result)) == whole.ids
    # by a clock that stands still, every feed waits until its own last sample was spoken
    seconds = len(read(speech).samples) / 16_000
    assert slept == pytest.approx([*np.arange(0.08, seconds, 0.08), seconds])
    assert "behind the speaker" in result.stderr


# --- Ctrl-C -----------------------------------------------------------------------------------


def test_ctrl_c_waits_for_the_end_of_the_block():
    done = []
    with pytest.raises(KeyboardInterrupt) as caught, interrupts_held():
        signal.raise_signal(signal.SIGINT)
        done.append(True)
    assert done and caught.type is KeyboardInterrupt
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_does_not_wait():
    done = []
    with pytest.raises(GiveUp), interrupts_held():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        done.append(True)
    assert not done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_presses_of_one_moment_are_one():
    presses = Presses()
    signal.signal(signal.SIGINT, presses)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    with interrupts_held():
        signal.raise_signal(signal.SIGINT)
    presses._last -= MOMENT
    with pytest.raises(KeyboardInterrupt) as caught, interrupts_held():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert caught.type is KeyboardInterrupt
    presses._last -= MOMENT
    with pytest.raises(GiveUp), interrupts_held():
        signal.raise_signal(signal.SIGINT)
        presses._last -= MOMENT
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is presses


def test_ctrl_c_that_a_shell_ignores_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts_held():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture
def ctrl_c_in_feed(monkeypatch):
    """Raise SIGINT inside the ninth feed, `times` times."""

    def at(times):
        feed, calls = StreamingSession.feed, []

        def interrupted(self, samples):
            calls.append(len(samples))
            if len(calls) == 9:
                for _ in range(times):
                    signal.raise_signal(signal.SIGINT)
            return feed(self, samples)

        monkeypatch.setattr(StreamingSession, "feed", interrupted)

    return at


@pytest.mark.parametrize("feed_ms", [80, 250])
def test_ctrl_c_brings_out_what_was_said(model, ctrl_c_in_feed, speech, feed_ms):
    ctrl_c_in_feed(1)
    result = run(speech, "--feed-ms", feed_ms, "--json")
    heard = read(speech).samples[: 9 * 16 * feed_ms]
    assert result.exit_code == 130 and "Ctrl-C" in result.stderr
    *updates, final = lines_of(result)
    # nothing of the ninth feed is lost, and the words on their way came out
    assert ids_of(updates) == vrt.transcribe(model, heard).ids
    assert final["interrupted"] and final["text"] == vrt.transcribe(model, heard).text


def test_ctrl_c_while_waiting_for_audio(monkeypatch, model, pcm):
    def stopping(file, rate, size):
        yield pcm[:16_000]
        raise KeyboardInterrupt

    monkeypatch.setattr(sources, "pcm", stopping)
    result = run("-", input=b"")
    assert result.exit_code == 130
    assert result.stdout == vrt.transcribe(model, pcm[:16_000]).text + "\n"


def test_a_second_ctrl_c_prints_what_was_known(ctrl_c_in_feed, whole, speech):
    ctrl_c_in_feed(2)
    result = run(speech, "--feed-ms", 250, "--json")
    assert result.exit_code == 130
    *updates, final = lines_of(result)
    found = ids_of(updates)
    assert found and found == whole.ids[: len(found)]
    assert final["interrupted"]


def test_a_model_that_fails_leaves_its_text_and_one_line(monkeypatch, whole, speech):
    feed, calls = StreamingSession.feed, []

    def failing(self, samples):
        calls.append(1)
        if len(calls) == 25:
            raise ModelOutputError("logits at position 60 are not finite")
        return feed(self, samples)

    monkeypatch.setattr(StreamingSession, "feed", failing)
    result = run(speech)
    assert result.exit_code == 1
    assert result.stdout.endswith("\n")  # the complaint starts on a line of its own
    text = result.stdout.removesuffix("\n")
    assert text and whole.text.startswith(text)
    assert result.stderr.splitlines()[-1] == "vrt: logits at position 60 are not finite"


# --- real processes ---------------------------------------------------------------------------


@pytest.fixture
def start(repo_root):
    """Start `vrt stream ...` with pipes."""
    started = []

    def begin(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "vrt", "stream", *map(str, arguments)],
            cwd=repo_root,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_a_real_ctrl_c_on_a_live_pipe(start, model, pcm):
    process = start("-", "--json")
    process.stdin.write(pcm.tobytes())
    process.stdin.flush()  # and stays open, as a microphone does
    lines = []
    seconds = len(pcm) / 16_000
    # 80 ms feeds after the first two samples: the last whole one ends within 80 ms of the end
    while not lines or lines[-1]["audio_seconds"] < seconds - 0.08:
        lines.append(json.loads(process.stdout.readline()))
    heard = round(lines[-1]["audio_seconds"] * 16_000)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    lines += [json.loads(line) for line in out.splitlines()]
    assert process.returncode == 130 and b"Traceback" not in err and b"Ctrl-C" in err
    assert lines[-1]["final"] and lines[-1]["interrupted"]
    expected = vrt.transcribe(model, pcm[:heard])
    assert ids_of(lines) == expected.ids and lines[-1]["text"] == expected.text


def test_a_reader_that_goes_away_ends_the_stream_quietly(start, speech):
    process = start(speech, "--json")
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=60)
    assert process.returncode == 141
    assert [line for line in err.splitlines() if b"random weights" not in line] == []


def test_a_writer_that_goes_away_ends_the_stream_with_its_text(start, model, pcm):
    process = start("-", "--format", "srt")
    out, err = process.communicate(pcm[:20_000].tobytes(), timeout=60)
    words = vrt.transcribe(model, pcm[:20_000]).words
    assert process.returncode == 0 and out.decode() == captions.srt(captions.cues(words))
    assert b"Traceback" not in err
