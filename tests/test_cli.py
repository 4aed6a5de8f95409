"""The command line: whole files, exit codes, and complaints."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from commands import fails, random_tiny, run, without_vocabulary

import vrt
import vrt.cli.sources
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
    used = [0, failures.FAILED, 2, failures.NOT_HERE]
    used += [failures.INTERRUPTED, failures.OUTPUT_CLOSED]
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
    assert explain(IsADirectoryError(21, "Is a directory", "a", None, "b")) == "b: Is a directory"
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


def test_a_target_that_cannot_be_written_does_not_stop_the_others(clips, tmp_path):
    (tmp_path / "long.txt").mkdir()
    files = clips / "long.wav", clips / "one.wav"
    result = run("transcribe", *files, "-o", tmp_path)
    fails(result, 1, clips / "long.wav", tmp_path / "long.txt", "directory")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["long.txt", "one.txt"]
    assert (tmp_path / "one.txt").is_file()


def test_half_a_document_is_not_left(monkeypatch, clips, tmp_path):
    (tmp_path / "one.json").write_text("before")

    def full(self, text, **_):
        self.write_bytes(text[:9].encode())
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_text", full)
    fails(run("transcribe", clips / "one.wav", "--json", "-o", tmp_path), 1, "No space")
    assert [p.name for p in tmp_path.iterdir()] == ["one.json"]
    assert (tmp_path / "one.json").read_text() == "before"


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
    fails(run("transcribe", speech, "--model", "~no_such_user/x"), 1, "~no_such_user/x", "user")


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


def test_a_terminal_is_not_commanded_by_a_file_name(monkeypatch, model, clips, tmp_path):
    name = "a\x1b[2J\x9bé.wav"
    missing = tmp_path / name
    for arguments in (("transcribe", missing), ("transcribe", clips / "one.wav", "-o", missing)):
        missing.unlink(missing_ok=True)
        if "-o" in arguments:
            missing.write_bytes(b"")
        result = run(*arguments)
        assert result.exit_code in (1, 2) and "a\\x1b[2J\\x9bé.wav" in result.stderr
        assert not {"\x1b", "\x9b"} & set(result.output)
    shutil.copy(clips / "one.wav", missing)
    result = run("transcribe", missing, "--json")
    assert not {"\x1b", "\x9b"} & set(result.stdout)
    assert json.loads(result.stdout)["file"] == str(missing)
    monkeypatch.setattr(sys, "stderr", Terminal())
    transcribe_file(OpenModel("tiny", model), StreamingSession(model), missing)
    assert "a\\x1b[2J\\x9bé.wav:" in sys.stderr.getvalue()
    assert "\x1b[2J" not in sys.stderr.getvalue()


# --- a real process ---------------------------------------------------------------------------


@pytest.fixture
def shell(repo_root):
    """Run a line of sh in which `vrt` is the command; its exit code, stdout and stderr as bytes."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}

    def line(text, *arguments):
        script = f'vrt() {{ "{sys.executable}" -m vrt "$@"; }}; {text}'
        command = ["sh", "-c", script, "sh", *map(os.fsencode, arguments)]
        done = subprocess.run(
            command, cwd=repo_root, env=environment, capture_output=True, check=False
        )
        assert b"Traceback" not in done.stderr and b"ignored" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    return line


def test_a_closed_stderr_costs_nothing_but_its_remarks(shell, model, clips, tmp_path):
    status, stdout, _ = shell('vrt transcribe "$1" --json 2>&-', clips / "one.wav")
    assert status == 0 and json.loads(stdout)["file"] == str(clips / "one.wav")
    status, stdout, _ = shell(
        'vrt transcribe "$1" nowhere.wav -o "$2" 2>&-', clips / "one.wav", tmp_path
    )
    assert (status, stdout) == (1, b"")
    expected = vrt.transcribe(model, clips / "one.wav").text + "\n"
    assert (tmp_path / "one.txt").read_text(encoding="utf-8") == expected


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('vrt transcribe "$1" >&-', 141),
        ('vrt stream "$1" --json >&-', 141),
        ('vrt transcribe "$1" -o "$2" >&-', 0),
        ('vrt transcribe "$1" -o "$2" <&- >&- 2>&-', 0),
        ("vrt --help >&-", 1),
        ("vrt --version >&-", 1),
    ],
)
def test_a_closed_stdout_is_an_exit_code(shell, clips, tmp_path, line, code):
    assert shell(line, clips / "one.wav", tmp_path)[0] == code
    assert [p.name for p in tmp_path.iterdir()] == ["one.txt"] * (code == 0)


def test_a_file_name_that_is_no_utf8(shell, clips, tmp_path):
    name = os.fsdecode(b"\xff\xfe.wav")
    try:
        shutil.copy(clips / "one.wav", tmp_path / name)
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    line = 'vrt transcribe "$1" "$2" --json -o "$3"'
    status, _, stderr = shell(line, tmp_path / name, clips / "even.wav", tmp_path / "out")
    assert status == 0, stderr
    assert (tmp_path / "out" / "even.json").exists()
    written = tmp_path / "out" / os.fsdecode(b"\xff\xfe.json")
    assert json.loads(written.read_text(encoding="utf-8"))["file"] == str(tmp_path / name)


@pytest.mark.parametrize("command", ["transcribe", "stream"])
def test_ctrl_c_inside_a_decoder_is_no_bad_file(monkeypatch, clips, command):
    """soundfile reads through a callback: what that raises is lost, and the file looks cut."""

    def pressed(file):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise AudioError(f"{file}: truncated") from None
        return read(file)

    module = {"transcribe": vrt.cli.files, "stream": vrt.cli.sources}[command]
    monkeypatch.setattr(module, "read", pressed)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    result = run(command, clips / "one.wav")
    signal.signal(signal.SIGINT, before)
    assert result.exit_code == 130 and "truncated" not in result.stderr


@pytest.mark.parametrize("gap", [0.001, 0.02])
def test_ctrl_c_that_bounces_is_one(repo_root, clips, tmp_path, gap):
    file = tmp_path / "minutes.wav"
    soundfile.write(file, np.tile(read(clips / "even.wav").samples, 100), SAMPLE_RATE, "PCM_16")
    process = subprocess.Popen(
        # sh may hand SIGINT on ignored, as a background job has it
        [sys.executable, "-c", LISTENING, "transcribe", clips / "even.wav", file, "--json"],
        cwd=repo_root,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    first = json.loads(process.stdout.readline())  # now the second one is read or transcribed
    for _ in range(3):
        time.sleep(gap)
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and not first["interrupted"]
    assert b"Traceback" not in err and b"ignored" not in err
    assert err.count(b"stopped by Ctrl-C") == 1
    assert all(json.loads(line)["interrupted"] for line in out.splitlines())


LISTENING = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from vrt.cli import main; main()"
)


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


def test_the_delay_is_the_models_own_unless_said(tmp_path, speech):
    """A checkpoint whose tokens lie 960 ms behind."""
    folder = random_tiny(tmp_path / "slow")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"default_num_delay_tokens": 12}))
    for said, expected in ((), 960), (("--delay-ms", "160"), 160):
        for command in ("transcribe", "stream"):
            options = ["--format", "json", "--model", folder, *said]
            found = run(command, speech, *options)
            assert json.loads(found.stdout)["delay_ms"] == expected, found.output
