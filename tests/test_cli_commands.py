"""The command line: golden files, info and what a run will cost, demo and bench."""

import json
import math
import os
import shutil
from dataclasses import replace

import psutil
import pytest
import torch
from commands import fails, run, without_vocabulary

import vrt
from vrt.cli import checkpoints
from vrt.cli.golden import WIDEST
from vrt.paths import data_dir
from vrt.receipt import Receipt
from vrt.voxtral.config import DecoderConfig, EncoderConfig, VoxtralConfig
from vrt.voxtral.measure import speed
from vrt.voxtral.measure.speed import Speed
from vrt.voxtral.session import StreamingSession
from vrt.voxtral.weights import skeleton
from vrt.voxtral.weights.hf_config import config_to_hf
from vrt.voxtral.weights.names import names


@pytest.fixture(scope="module")
def model():
    return vrt.load("random-tiny")


@pytest.fixture(scope="module")
def speech():
    return data_dir() / "audio" / "five_five.flac"


@pytest.fixture(scope="module")
def mute(tmp_path_factory):
    return without_vocabulary(tmp_path_factory.mktemp("models") / "mute")


# --- golden -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def golden_file(tmp_path_factory, speech):
    path = tmp_path_factory.mktemp("golden") / "clip.safetensors"
    arguments = ("--audio", speech, "--seconds", 0.3, "--delay-ms", 80, "--oracle", "vrt")
    result = run("golden", "make", "voxtral", path, *arguments)
    assert result.exit_code == 0, result.output
    assert "0.300 s" in result.stderr
    return path


@pytest.fixture
def tampered(golden_file, tmp_path):
    """One logit moved by 1."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(golden_file, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        about = file.metadata()
    tensors["expect.logits.stream"][3, 5] += 1
    path = tmp_path / "tampered.safetensors"
    save_file(tensors, path, metadata=about)
    return path


def test_golden_check_says_a_line_a_file(golden_file, tampered, tmp_path):
    assert run("golden", "check", golden_file).stdout == "ok clip.safetensors\n"
    missing = tmp_path / "missing.safetensors"
    result = run("golden", "check", golden_file, tampered, missing, golden_file)
    assert result.exit_code == 1
    ok, wrong, absent, again = result.stdout.splitlines()
    assert ok == again == "ok clip.safetensors"
    assert wrong.startswith("FAIL tampered.safetensors: first divergence: logits.stream, [3, 5]")
    assert absent.startswith("FAIL missing.safetensors: ")


def test_golden_check_for_scripts(golden_file, tampered):
    result = run("golden", "check", golden_file, tampered, "--json")
    assert result.exit_code == 1
    good, bad = map(json.loads, result.stdout.splitlines())
    assert good["ok"] and good["first"] is None
    assert not bad["ok"] and bad["first"]["index"] == [3, 5]
    assert {"mel.stream", "logits.stream"} <= {stage["stage"] for stage in bad["stages"]}


def test_golden_check_takes_feeds_and_writes_dumps_that_compare(golden_file, tmp_path):
    result = run("golden", "check", golden_file, "--feed", "random:7", "--dump", tmp_path)
    assert result.exit_code == 0
    same = run("golden", "compare", golden_file, tmp_path / golden_file.name)
    assert same.exit_code == 0 and same.stdout.startswith("ok clip.safetensors\nstage")


def test_golden_compare_finds_the_first_difference(golden_file, tampered):
    result = run("golden", "compare", golden_file, tampered)
    assert result.exit_code == 1
    assert "FAIL tampered.safetensors: first divergence: logits.stream, [3, 5]" in result.stdout
    values = json.loads(run("golden", "compare", golden_file, tampered, "--json").stdout)
    assert values["first"]["stage"] == "logits.stream"


@pytest.mark.parametrize("feed", ["0", "-1", "1.5", "x", "random:", "random:x", "random", ""])
def test_golden_check_refuses_other_feeds(golden_file, feed):
    fails(run("golden", "check", golden_file, "--feed", feed), 2, "--feed", "random:SEED")


def test_golden_refuses_what_would_overwrite(golden_file, tmp_path):
    twin = tmp_path / golden_file.name
    shutil.copy(golden_file, twin)
    dump = ("--dump", tmp_path / "out")
    fails(run("golden", "check", golden_file, twin, *dump), 2, golden_file.name, "--dump")
    fails(run("golden", "make", "voxtral", twin, "--audio", "x.wav"), 2, twin)


def test_golden_make_refuses_before_the_work(speech, tmp_path):
    absent, file = tmp_path / "absent", tmp_path / "file"
    file.write_text("")
    make = ("golden", "make", "voxtral")
    fails(run(*make, absent / "x.safetensors", "--audio", "no.wav"), 2, absent, "no folder")
    fails(run("golden", "make", "malsd", file), 2, file, "no folder")
    path = tmp_path / "x.safetensors"
    limits = {"--seed": 2**63 - 1, "--encoder-window": WIDEST, "--decoder-window": WIDEST}
    for option, most in limits.items():
        fails(run(*make, path, "--audio", "no.wav", option, most + 1), 2, option, most)
    short = ("--audio", speech, "--seconds", 0.1, "--delay-ms", 80, "--oracle", "vrt")
    most = [word for pair in limits.items() for word in pair]
    assert run(*make, path, *short, *most).exit_code == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_golden_make_refuses_a_folder_that_is_closed_to_it(tmp_path):
    tmp_path.chmod(0o500)
    result = run("golden", "make", "voxtral", tmp_path / "x.safetensors", "--audio", "no.wav")
    fails(result, 2, tmp_path, "cannot be written")


def test_golden_complaints_are_one_line(golden_file, tmp_path):
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(golden_file.read_bytes()[:100])
    fails(run("golden", "compare", golden_file, broken), 1, "broken.safetensors")
    fails(run("golden", "compare", golden_file, tmp_path / "none"), 1, "none")
    fails(run("golden", "make", "voxtral", tmp_path / "x", "--audio", tmp_path / "a"), 1, "a")


# --- info, and what a run will cost -----------------------------------------------------------

SPEED = Speed(threads=1, read=30.8e9, linear=15.4e9)


@pytest.fixture
def known_speed(monkeypatch):
    """The speed that the floors of the released model were written down for."""
    monkeypatch.setattr(speed, "measure_speed", lambda *_: SPEED)
    monkeypatch.setattr(checkpoints, "measure_speed", lambda *_: SPEED)


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A checkpoint of the released size whose numbers are a hole in the file: headers only."""
    folder = tmp_path_factory.mktemp("models") / "released"
    folder.mkdir()
    config = VoxtralConfig()
    (folder / "config.json").write_text(json.dumps(config_to_hf(config, "bfloat16")))
    shapes = {k: list(t.shape) for k, t in skeleton(config).state_dict().items()}
    header, end = {}, 0
    for name in names(config):
        start, end = end, end + 2 * math.prod(shapes[name.ours])
        offsets = {"dtype": "BF16", "shape": shapes[name.ours], "data_offsets": [start, end]}
        header[name.hf_file] = offsets
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    return folder


def test_info_of_the_released_model_reads_no_weights(released, known_speed):
    before = psutil.Process().memory_info().rss
    found = json.loads(run("info", released, "--json").stdout)
    assert psutil.Process().memory_info().rss - before < 200e6
    # 8.86 GB in 711 tensors, and at 30.8 GB/s 69 ms of encoder and 223 ms of decoder
    assert sum(found["weight_bytes"].values()) == pytest.approx(8.86e9, rel=0.001)
    assert found["disk_bytes"] == pytest.approx(8.86e9, rel=0.001)
    begin, full = (found["cost_per_80_ms"][key] for key in ("begin", "full_window"))
    assert begin["floor_ms"] == pytest.approx(69 + 223, rel=0.01)
    assert full["bytes_read"] - begin["bytes_read"] == pytest.approx(0.87e9, rel=0.01)
    assert begin["best_real_time_factor"] == pytest.approx(begin["floor_ms"] / 80)
    assert begin["real_time_factor"] > begin["best_real_time_factor"]
    assert (found["layout"], found["dtype"], found["vocabulary"]) == (
        "Hugging Face",
        "bfloat16",
        None,
    )
    assert found["encoder"]["window_seconds"] == 15.0
    assert found["bound_by_memory"]


def test_info_for_people(released, known_speed):
    sheet = run("info", released).stdout
    for fact in (
        "8.86 GB",
        "80 to 2400 ms in steps of 80",
        "window 750 frames (15 s)",
        "no tekken",
    ):
        assert fact in sheet, sheet
    assert max(map(len, sheet.splitlines())) <= 100
    small = run("info", "random-tiny").stdout
    assert "1,472 ids in tekken.json" in small and "it will take longer" in small


def test_info_state_is_what_a_session_holds(model, known_speed):
    found = json.loads(run("info", "random-tiny", "--json").stdout)
    session = StreamingSession(model)
    assert found["state_bytes"].items() <= session.state_bytes.items()
    assert found["parameters"].keys() == {"stem", "encoder", "projector", "decoder"}
    assert sum(found["parameters"].values()) == sum(p.numel() for p in model.parameters())


def test_info_measures_the_threads_that_were_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(speed, "measure_speed", lambda *a: (asked.append(a), SPEED)[1])
    run("info", "random-tiny", "--threads", 3, "--dtype", "bfloat16")
    assert asked == [(torch.bfloat16, 3)]


def test_info_refuses_threads_that_openmp_would_die_of():
    most = 4 * os.cpu_count()
    fails(run("info", "random-tiny", "--threads", most + 1), 2, "--threads", most + 1, most)


def test_info_complains_as_loading_does(mute, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(mute, broken)
    config = json.loads((broken / "config.json").read_text())
    config["text_config"]["num_hidden_layers"] = 3
    (broken / "config.json").write_text(json.dumps(config))
    result = run("info", broken)
    fails(result, 1, "missing", "layers.2")
    assert result.stderr == run("transcribe", "x.wav", "--model", broken).stderr
    fails(run("info", broken / "config.json"), 1, "folder")


def test_a_long_run_says_first_what_it_will_cost(monkeypatch, known_speed, speech):
    quiet = run("transcribe", speech)
    assert "real-time factor" not in quiet.stderr  # small enough for a cache
    monkeypatch.setattr(checkpoints, "IN_CACHE", 0)
    for command in ("transcribe", "stream"):
        result = run(command, speech)
        assert result.exit_code == 0 and result.stdout == quiet.stdout
        assert "expected real-time factor" in result.stderr and "keeps up" in result.stderr


def test_a_model_that_cannot_keep_up_is_told(released, known_speed):
    fast = Speed(1, 1e12, 1e12)
    look = checkpoints.look_at(str(released), None)
    assert "cannot keep up" in checkpoints.forecast(look, 1)
    assert look.estimate(fast).real_time_factor < 1


# --- demo and bench ---------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1])
def test_demo_hands_on_its_folder_and_its_status(monkeypatch, tmp_path, status):
    import vrt.demo

    given = []
    monkeypatch.setattr(vrt.demo, "run", lambda output: (given.append(output), status)[1])
    assert run("demo", "--output", tmp_path / "out").exit_code == status
    assert given == [tmp_path / "out"]
    file = tmp_path / "file"
    file.write_text("")
    fails(run("demo", "-o", file), 2, file)


@pytest.fixture
def small_bench(monkeypatch):
    """The bench itself, at a size that takes a moment; gives the settings that it was given."""
    import vrt.bench

    tiny = VoxtralConfig(
        encoder=EncoderConfig(width=64, layers=1, heads=2, head_dim=32, ff=64, window=16),
        decoder=DecoderConfig(64, 1, 2, 1, head_dim=32, ff=64, window=48, vocab=64),
    )
    given, real = [], vrt.bench.bench_voxtral

    def bench(settings, tell):
        given.append(settings)
        return real(replace(settings, config=tiny), tell, buffer_bytes=1 << 20)

    monkeypatch.setattr(vrt.bench, "bench_voxtral", bench)
    return given


def test_bench_prints_a_table_and_leaves_a_receipt(small_bench, tmp_path):
    receipt = tmp_path / "new" / "bench.json"
    options = ("--threads", "1", "--rows", "front,batch", "--against", "none", "--repeats", 2)
    result = run("bench", "voxtral", *options, "--output", receipt)
    assert result.exit_code == 0, result.output
    (settings,) = small_bench
    assert (settings.threads, settings.rows, settings.repeats) == ((1,), ("front", "batch"), 2)
    assert "x floor" in result.stdout and str(receipt) in result.stderr
    assert Receipt.load(receipt).numbers["rows"]
    result = run("bench", "voxtral", *options, "--output", receipt, "--json")
    assert json.loads(result.stdout)["numbers"]["rows"]


def test_bench_refuses_by_name_before_it_measures(tmp_path):
    fails(run("bench", "voxtral", "--threads", "two"), 2, "--threads", "two")
    fails(run("bench", "voxtral", "--threads", "0"), 2, "threads 0")
    fails(run("bench", "voxtral", "--threads", "1", "--rows", "all"), 2, "all", "encoder")
    fails(run("bench", "voxtral", "--threads", "1", "--layers", 99), 2, "99", "32")
    fails(run("bench", "voxtral", "--output", tmp_path), 2, "--output", "folder")


def test_bench_offers_what_there_is():
    from vrt.bench import ROWS
    from vrt.bench.settings import PEERS
    from vrt.cli import bench

    assert [peer.value for peer in bench.Peer] == list(PEERS)
    assert ",".join(ROWS) == bench.DEFAULT_ROWS
