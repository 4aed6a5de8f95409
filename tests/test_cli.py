"""The command line: whole files, exit codes, and complaints."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from commands import fails, run, without_vocabulary

import vrt
from vrt import captions
from vrt.audio import AudioError, read
from vrt.cli.failures import explain
from vrt.cli.files import FEED, transcribe_file
from vrt.cli.models import OpenModel
from vrt.cli.output import shown
from vrt.paths import data_dir
from vrt.voxtral.config import SAMPLE_RATE
from vrt.voxtral.session import StreamingSession

COMMANDS = (
    *("transcribe", "stream", "info", "demo", "bench voxtral"),
    *("golden check", "golden compare", "golden make voxtral"),
)


@pytest.fixture(scope="module")
def model():
    return vrt.load("random-tiny")


@pytest.fixture(scope="module")
def speech():
    return data_dir() / "audio" / "five_five.flac"


@pytest.fixture(scope="module")
def clips(tmp_path_factory, speech):
    """Three wav files: longer than one feed, exactly one, and of a single sample."""
    folder = tmp_path_factory.mktemp("clips")
    whole = np.tile(read(speech).samples, 4)
    for name, count in (("long", 2 * FEED + 777), ("even", FEED), ("one", 1)):
        soundfile.write(folder / f"{name}.wav", whole[:count], SAMPLE_RATE, "PCM_16")
    return folder


@pytest.fixture(scope="module")
def mute(tmp_path_factory):
    return without_vocabulary(tmp_path_factory.mktemp("models") / "mute")


# --- the command itself -----------------------------------------------------------------------


def test_version_and_help_load_no_torch():
    code = (
        "import sys\nfrom vrt.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code, sorted({'torch', 'numpy'} & sys.modules.keys()))"
    )
    for argument, first in (("--version", f"vrt {vrt.__version__}"), ("--help", "Usage: vrt")):
        done = subprocess.run(
            [sys.executable, "-c", code, argument], capture_output=True, text=True, check=True
        )
        lines = done.stdout.splitlines()
        assert lines[0].startswith(first)
        assert lines[-1] == "0 []"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command):
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert re.search(rf"Examples?:\n +vrt {command}", result.stdout), result.stdout


def test_help_tells_the_exit_codes_that_the_code_uses():
    from vrt.cli import failures

    told = re.findall(r"^ +(\d+) ", run("--help").stdout.split("Exit codes:")[1], re.M)
    used = [0, failures.FAILED, 2, failures.INTERRUPTED, failures.OUTPUT_CLOSED]
    assert [int(code) for code in told] == used


def test_a_fault_of_our_own_is_not_hidden(monkeypatch, speech):
    def broken(*_):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(StreamingSession, "feed", broken)
    result = run("transcribe", speech)
    assert isinstance(result.exception, ZeroDivisionError)


def test_explain_knows_users_errors_from_bugs():
    assert explain(AudioError("x is empty")) == "x is empty"
    assert explain(vrt.DelayError("90")) == "90"
    assert explain(FileNotFoundError(2, "No such file", "a.wav")) == "a.wav: No such file"
    assert "vrt[hf]" in explain(ModuleNotFoundError(name="transformers.models"))
    for bug in (ValueError("x"), KeyError("x"), ModuleNotFoundError(name="vrt.nope"), OSError()):
        assert explain(bug) is None


# --- transcribe -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["long", "even", "one"])
def test_transcribe_is_the_offline_path_to_the_last_bit(model, clips, name):
    file = clips / f"{name}.wav"
    expected = vrt.transcribe(model, file)
    result = run("transcribe", file, "--json")
    assert result.exit_code == 0
    (document,) = map(json.loads, result.stdout.splitlines())
    assert [t["id"] for t in document["tokens"]] == expected.ids
    assert [(t["start"], t["end"]) for t in document["tokens"]] == [
        (t.start, t.end) for t in expected.tokens
    ]
    assert document["text"] == expected.text
    assert [w["text"] for w in document["words"]] == [w.text for w in expected.words]
    assert document["audio_seconds"] == len(read(file).samples) / SAMPLE_RATE
    assert document["real_time_factor"] > 0
    assert (document["interrupted"], document["changes"]) == (False, [])


def test_transcribe_feeds_a_bounded_piece_at_a_time(monkeypatch, clips):
    sizes = []
    feed = StreamingSession.feed
    monkeypatch.setattr(
        StreamingSession, "feed", lambda self, x: (sizes.append(len(x)), feed(self, x))[1]
    )
    assert run("transcribe", clips / "long.wav").exit_code == 0
    assert sizes == [FEED, FEED, 777]


def test_transcribe_prints_text_and_nothing_else(model, speech):
    result = run("transcribe", speech)
    assert result.stdout == vrt.transcribe(model, speech).text + "\n"
    assert "words mean nothing" in result.stderr


@pytest.mark.parametrize("delay_ms", [80, 2400])
def test_transcribe_takes_every_allowed_delay(model, speech, delay_ms):
    result = run("transcribe", speech, "--delay-ms", delay_ms)
    assert result.stdout == vrt.transcribe(model, speech, delay_ms).text + "\n"


def test_transcribe_in_another_dtype(speech):
    expected = vrt.transcribe(vrt.load("random-tiny", dtype=torch.bfloat16), speech)
    result = run("transcribe", speech, "--dtype", "bfloat16", "--json")
    assert [t["id"] for t in json.loads(result.stdout)["tokens"]] == expected.ids


@pytest.mark.parametrize(("format", "render"), [("srt", captions.srt), ("vtt", captions.vtt)])
def test_transcribe_writes_captions(model, speech, format, render):
    result = run("transcribe", speech, "--format", format)
    words = vrt.transcribe(model, speech).words
    assert words and result.stdout == render(captions.cues(words))


def test_a_bad_file_is_named_and_the_others_go_on(model, clips, tmp_path):
    bad = tmp_path / "bad.wav"
    bad.write_bytes(b"this is no audio")
    missing = tmp_path / "missing.wav"
    result = run("transcribe", clips / "even.wav", bad, missing, clips / "one.wav")
    fails(result, 1, bad, "no")
    fails(result, 1, missing, "No such file")
    even, one = (vrt.transcribe(model, clips / f"{n}.wav").text for n in ("even", "one"))
    expected = f"{clips / 'even.wav'}: {even}\n{clips / 'one.wav'}: {one}\n"
    assert result.stdout == expected


def test_scripts_get_a_line_a_file_also_for_a_bad_one(clips, tmp_path):
    files = clips / "one.wav", tmp_path / "missing.wav", clips / "even.wav"
    result = run("transcribe", *files, "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["file"] for line in lines] == [str(file) for file in files]
    assert [("error" in line) for line in lines] == [False, True, False]
    assert result.exit_code == 1


def test_what_was_done_to_the_audio_is_said(tmp_path, speech):
    file = tmp_path / "stereo.wav"
    mono = read(speech).samples
    soundfile.write(file, np.stack([mono, mono], axis=1), 44_100, "PCM_16")
    result = run("transcribe", file, "--json")
    assert result.exit_code == 0
    assert "resampled 44100 -> 16000" in result.stderr and "mixed 2 channels" in result.stderr
    assert len(json.loads(result.stdout)["changes"]) == 2


def test_output_folder_gets_a_file_for_each_input(model, clips, tmp_path):
    target = tmp_path / "new" / "texts"
    result = run(
        "transcribe", clips / "even.wav", clips / "one.wav", "--format", "srt", "-o", target
    )
    assert result.exit_code == 0 and result.stdout == ""
    assert sorted(p.name for p in target.iterdir()) == ["even.srt", "one.srt"]
    words = vrt.transcribe(model, clips / "even.wav").words
    assert (target / "even.srt").read_text(encoding="utf-8") == captions.srt(captions.cues(words))


def test_outputs_that_would_run_together_are_refused_before_any_work(clips, tmp_path):
    even, one = clips / "even.wav", clips / "one.wav"
    fails(run("transcribe", even, one, "--format", "vtt"), 2, "--output")
    twin = tmp_path / "even.flac"
    twin.write_bytes(b"")
    target = tmp_path / "out"
    fails(run("transcribe", even, twin, "--output", target), 2, "even.txt")
    assert not target.exists()
    fails(run("transcribe", even, "--output", twin), 2, twin)


def test_wrong_command_lines_are_refused_by_name(speech):
    fails(run("transcribe"), 2, "FILE")
    for delay, nearest in ((0, 80), (90, "80 or 160"), (2401, 2400), (2480, 2400)):
        fails(
            run("transcribe", speech, "--delay-ms", delay), 2, delay, f"nearest allowed: {nearest}"
        )
    fails(run("transcribe", speech, "--format", "docx"), 2, "docx")
    fails(run("transcribe", speech, "--json", "--format", "srt"), 2, "--json", "srt")
    fails(run("transcribe", speech, "--device", "gpu"), 2, "gpu", "cuda")
    fails(run("transcribe", speech, "--device", "meta"), 2, "meta", "cpu")
    fails(run("transcribe", speech, "--dtype", "int8"), 2, "int8")


def test_a_model_that_is_not_there(speech, tmp_path):
    fails(run("transcribe", speech, "--model", "nope"), 1, "nope", "random-tiny")
    fails(run("transcribe", speech, "--model", tmp_path), 1, tmp_path, "config.json")


def test_a_model_without_vocabulary_gives_ids_and_says_why(model, mute, speech):
    expected = vrt.transcribe(model, speech).ids
    result = run("transcribe", speech, "--model", mute)
    assert result.exit_code == 0
    assert [int(id) for id in result.stdout.split()] == expected
    assert "tekken.json" in result.stderr
    document = json.loads(run("transcribe", speech, "--model", mute, "--json").stdout)
    assert document["text"] is None
    assert [t["id"] for t in document["tokens"]] == expected
    fails(run("transcribe", speech, "--model", mute, "--format", "vtt"), 1, "tekken.json", "vtt")


def test_ctrl_c_keeps_what_was_said_so_far(model, monkeypatch, clips, tmp_path):
    feed, calls = StreamingSession.feed, []

    def interrupted(self, samples):
        calls.append(len(samples))
        if len(calls) % 3 == 0:
            raise KeyboardInterrupt
        return feed(self, samples)

    monkeypatch.setattr(StreamingSession, "feed", interrupted)
    whole = vrt.transcribe(model, clips / "long.wav")
    files = clips / "long.wav", clips / "even.wav"
    result = run("transcribe", *files, "--json", "--output", tmp_path)
    assert result.exit_code == 130 and "Ctrl-C" in result.stderr
    (document,) = map(json.loads, result.stdout.splitlines())  # the second file was not begun
    assert document["interrupted"]
    count = len(document["tokens"])
    assert 0 < count < len(whole.ids)
    assert [t["id"] for t in document["tokens"]] == whole.ids[:count]
    assert list(tmp_path.iterdir()) == []  # half a transcript is not left as if it were whole


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_for_a_terminal_only(monkeypatch, model, clips):
    def said_on(stderr):
        monkeypatch.setattr(sys, "stderr", stderr)
        transcribe_file(OpenModel("tiny", model), StreamingSession(model), clips / "long.wav")
        return stderr.getvalue()

    seconds = (2 * FEED + 777) / SAMPLE_RATE
    bar = said_on(Terminal())
    assert f"{FEED / SAMPLE_RATE:.1f} of {seconds:.1f} s of audio" in bar  # it moves
    assert f"{seconds:.1f} of {seconds:.1f} s of audio" in bar and "real-time factor" in bar
    assert said_on(io.StringIO()) == ""


def test_a_terminal_is_not_commanded_by_a_transcript(monkeypatch):
    text = "a\x1b[2J\x07é\tb\n"
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert shown(text) == "a\ufffd[2J\ufffdé\tb\n"
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert shown(text) == text


# --- a real process ---------------------------------------------------------------------------


def test_exit_codes_of_a_real_process(repo_root, clips):
    def code(*arguments):
        command = [sys.executable, "-m", "vrt", *map(str, arguments)]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "ascii"}
        done = subprocess.run(
            command, cwd=repo_root, env=environment, capture_output=True, text=True, check=False
        )
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    assert code("transcribe", "--format", "docx", "x.wav")[0] == 2
    status, stdout, stderr = code("transcribe", clips / "even.wav", "mißlungen.wav", "--json")
    assert status == 1
    assert "mißlungen.wav" in stderr and "mißlungen.wav" in stdout  # UTF-8 whatever the locale
    assert json.loads(stdout.splitlines()[0])["file"] == str(clips / "even.wav")
    assert Path(json.loads(stdout.splitlines()[1])["file"]).name == "mißlungen.wav"


def test_pack_gives_the_same_text_and_refuses_other_dtypes():
    """random-tiny is fp32: asked for as bf16 it can be packed, as it is it cannot."""
    clip = str(data_dir() / "audio" / "five_five.flac")
    plain = run("transcribe", clip, "--dtype", "bfloat16")
    packed = run("transcribe", clip, "--dtype", "bfloat16", "--pack")
    assert plain.exit_code == packed.exit_code == 0 and packed.stdout == plain.stdout
    refused = run("transcribe", clip, "--pack")
    assert refused.exit_code == 1
    assert "packing is for bf16 on a CPU" in refused.stderr
