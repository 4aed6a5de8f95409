"""The sweep: its plan, its processes with real ends, the loop that times, and its receipt.

No check of a time: the machine may be busy. Times are checked for being there and in order.
"""

import json
import os
import shutil
import signal
import sys
import threading
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from commands import fails, run
from coreml_bench_cases import ENDS, command_of, model_on_disk, package_of, phases_of, script
from coreml_cases import needs_coremltools

import vrt.coreml.bench as bench_module
from vrt.coreml import golden_vectors
from vrt.coreml.arms import Arm as Settings
from vrt.coreml.bench import (
    COREML,
    NotHere,
    SweepSettings,
    child,
    latency_rows,
    latency_table,
    sweep,
)
from vrt.coreml.bench import devices as devices_module
from vrt.coreml.bench.children import read_report, run_child
from vrt.coreml.bench.devices import refuse_absent
from vrt.coreml.bench.inputs import FARTHEST, Asked
from vrt.coreml.bench.jobs import ANSWERS, INPUTS, JOB, REPORT, Arm, Job, plan
from vrt.coreml.bench.measure import CHUNK, Report, load_steps, measure, save_steps
from vrt.coreml.bench.memory import resident_bytes, slope
from vrt.coreml.bench.rows import percentile
from vrt.coreml.bench.runtimes import Runtime
from vrt.coreml.errors import CoreMLError
from vrt.coreml.package import open_package
from vrt.receipt import Receipt

needs_coremltools()


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return str(model_on_disk(tmp_path_factory.mktemp("model")))


@pytest.fixture(scope="module")
def joint(tmp_path_factory, source):
    return package_of(tmp_path_factory.mktemp("joint"), "joint", Settings(beam=4), source)


@pytest.fixture(scope="module")
def functions(tmp_path_factory, source):
    arm = Settings(beams=(1, 4), target="iOS18")
    return package_of(tmp_path_factory.mktemp("functions"), "joint", arm, source)


@pytest.fixture(scope="module")
def stateful(tmp_path_factory):
    arm = Settings(cache="mlstate", target="iOS18")
    return package_of(tmp_path_factory.mktemp("state"), "voxtral-encoder-chunk", arm, "random-tiny")


# --- the plan ----------------------------------------------------------------------------------


def test_arms_take_turns(joint, functions):
    settings = SweepSettings(devices=("CPU_ONLY", "cpu"), rounds=2, calls=7)
    jobs = plan([joint, functions], settings)
    arms = [
        Arm(name, function, device)
        for name, found in (
            ("joint-k4.mlpackage", ["main"]),
            ("joint-k1-4.mlpackage", ["beam_1", "beam_4"]),
        )
        for function in found
        for device in ("CPU_ONLY", "cpu")
    ]
    assert [job.arm for job in jobs] == arms * 2  # A B C A B C: never A A B B
    assert [job.round for job in jobs] == [0] * len(arms) + [1] * len(arms)
    assert {job.calls for job in jobs} == {7}
    # Only torch has to be told which model it runs.
    assert {(job.arm.device, job.source) for job in jobs} == {
        ("CPU_ONLY", None),
        ("cpu", joint.contract.source),
    }


def test_a_job_survives_its_file(joint, tmp_path):
    (job,) = plan([joint], SweepSettings(devices=("cpu",), rounds=1))
    job.write(tmp_path / "job.json")
    assert Job.read(tmp_path / "job.json") == job


def test_what_cannot_be_planned_is_named(joint, stateful):
    with pytest.raises(CoreMLError, match="no package to measure"):
        plan([], SweepSettings(devices=("cpu",)))
    with pytest.raises(CoreMLError, match=r"two packages are named joint-k4\.mlpackage"):
        plan([joint, joint], SweepSettings(devices=("cpu",)))
    with pytest.raises(CoreMLError, match="MLState, which torch does not have; leave out cpu"):
        plan([stateful], SweepSettings(devices=("cpu",)))
    assert plan([stateful], SweepSettings())  # on Core ML's units it can
    foreign = replace(joint, spec=type(joint.spec)())
    foreign.spec.CopyFrom(joint.spec)
    del foreign.spec.description.metadata.userDefined["vrt"]
    with pytest.raises(CoreMLError, match="has no metadata of vrt"):
        plan([foreign], SweepSettings(devices=("cpu",)))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"devices": ()}, "no device"),
        ({"devices": ("cpu", "cpu")}, "name each once"),
        ({"devices": ("ANE",)}, "no device 'ANE'; Core ML has CPU_ONLY, CPU_AND_NE"),
        ({"calls": 0}, "calls must be at least 1, got 0"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"threads": 0}, "threads must be at least 1, got 0"),
        ({"timeout_s": 0.0}, "timeout_s must be above 0, got 0"),
    ],
)
def test_settings_that_cannot_be_are_named(given, why):
    with pytest.raises(CoreMLError, match=why):
        SweepSettings(**given)


def test_units_are_those_of_coremltools():
    import coremltools

    assert set(COREML) == {unit.name for unit in coremltools.ComputeUnit}


# --- devices that are not here -----------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has them")
@pytest.mark.parametrize("unit", COREML)
def test_core_ml_off_a_mac_is_one_line_and_exit_code_3(joint, tmp_path, unit):
    out = tmp_path / "receipt.json"
    # Refused before the packages are read, so that what is wrong with them does not matter.
    for package in (joint.path, tmp_path / "nothing.mlpackage"):
        result = run("coreml", "bench", package, "--device", f"cpu,{unit}", "-o", out)
        assert result.exit_code == 3 and result.stdout == ""
        (line,) = result.stderr.splitlines()
        assert unit in line and "Core ML runs on macOS only" in line and "Traceback" not in line
        assert "Nothing was measured, no receipt was written" in line
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_that_torch_does_not_find(monkeypatch, tmp_path, joint, device):
    monkeypatch.setattr(devices_module, "_torch_has", lambda name: False)
    with pytest.raises(NotHere, match=f"torch finds no {device}"):
        refuse_absent(["cpu", device])
    result = run("coreml", "bench", joint.path, "--device", device, "-o", tmp_path / "r.json")
    fails(result, 3, f"torch finds no {device}", "no receipt")
    assert list(tmp_path.iterdir()) == []
    refuse_absent(["cpu", "interpreter"])


# --- children with real ends -------------------------------------------------------------------

ENDED = {
    "ok": ("ok", 0, None),
    "killed": ("crashed", None, "SIGKILL"),
    "segfault": ("crashed", None, "SIGSEGV"),
    "abort": ("crashed", None, "SIGABRT"),
    "exit": ("crashed", 7, None),
    "failed": ("failed", 1, None),
    "noise on stdout": ("ok", 0, None),
    "noise in the report": ("garbled", 0, None),
    "cut short": ("garbled", 0, None),
    "silent": ("garbled", 0, None),
}


def ended(end, folder, timeout_s=60.0):
    return run_child(command_of(end)(folder), folder / REPORT, timeout_s)


@pytest.mark.parametrize("end", ENDED)
def test_how_a_child_ended_is_a_result_and_what_it_measured_is_kept(end, tmp_path):
    found = ended(end, tmp_path)
    assert (found.outcome, found.exit_code, found.signal) == ENDED[end]
    names = [phase["phase"] for phase in found.phases]
    assert names[:5] == ["started", "cold load", "warm load", "first predict", "calls"]
    assert (found.why == "") == (found.outcome == "ok")
    words = {"exit": "dying words", "failed": "Core ML said no", "killed": "SIGKILL after calls"}
    assert words.get(end, "") in found.why


@pytest.mark.parametrize("end", ["hang", "deaf"])
def test_a_child_that_hangs_is_killed_with_what_it_started(end, tmp_path):
    # Long enough to report under load, and a hundredth of what the child would sleep.
    found = ended(end, tmp_path, 6.0)
    assert (found.outcome, found.signal) == ("timed out", "SIGKILL")
    assert "not over after 6 s, killed; it had come to calls" in found.why
    assert "calls" in [phase["phase"] for phase in found.phases]
    assert 6.0 <= found.seconds < 300.0
    assert not _alive(str(tmp_path))


def test_a_child_that_never_reports_is_a_result(tmp_path):
    found = run_child([sys.executable, "-c", "pass"], tmp_path / REPORT, 60.0)
    assert (found.outcome, found.reached, found.phases) == ("garbled", "nothing", ())
    found = run_child([sys.executable, "-c", "1/0"], tmp_path / REPORT, 60.0)
    assert found.outcome == "crashed" and "ZeroDivisionError" in found.why


def test_an_interrupted_parent_leaves_no_child(tmp_path):
    """Ctrl-C goes to the parent alone: the child has a session of its own."""
    when_reported = threading.Thread(target=_interrupt_when, args=(tmp_path / REPORT,))
    # A run in the background of a shell may have been started with Ctrl-C ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        when_reported.start()
        with pytest.raises(KeyboardInterrupt):
            ended("hang", tmp_path, 120.0)
    finally:
        when_reported.join()
        signal.signal(signal.SIGINT, before)
    assert not _alive(str(tmp_path))


def _interrupt_when(report):
    while not (report.exists() and "calls" in report.read_text()):  # the child is under way
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGINT)


def _alive(word):
    """Processes that have `word` in their command line, this one and zombies aside."""
    if not os.path.isdir("/proc/self"):
        pytest.skip("no /proc to look for processes in")
    found = []
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                line = file.read().decode(errors="replace")
        except OSError:
            continue
        if word in line and int(entry) != os.getpid():
            found.append(line)
    return found


def test_a_report_is_read_up_to_where_it_was_cut(tmp_path):
    file = tmp_path / REPORT
    assert read_report(file) == ((), 0)
    lines = ['{"phase": "a"}', "", "[]", '{"phase": 3}', "[" * 100_000, '{"phase": "b"}', '{"ph']
    file.write_text("\n".join(lines))
    phases, unreadable = read_report(file)
    assert [p["phase"] for p in phases] == ["a", "b"] and unreadable == 5


# --- the loop that times -----------------------------------------------------------------------


class Recorded:
    """A runtime that counts: `log` has what was asked of it, in order."""

    def __init__(self, dies_at=None):
        self.log, self.dies_at = [], dies_at

    def runtime(self):
        return Runtime("torch", self.load, self.compile, self.placement)

    def compile(self):
        self.log.append("compile")

    def placement(self):
        return {"operations": {"cpu": 3}}

    def load(self):
        self.log.append("load")
        return self.begin

    def begin(self):
        self.log.append("begin")
        return self.call

    def call(self, feeds):
        self.log.append("call")
        if self.log.count("call") == self.dies_at:
            raise RuntimeError("the first prediction failed")
        x = feeds.pop("x")  # a runtime may do with the dict what it likes
        return {"y": 2 * x}


def test_phases_in_order_and_each_call_counted(tmp_path):
    recorded = Recorded()
    steps = [{"x": np.ones(2, np.float32)}, {"x": np.full(2, 5, np.float32)}]
    calls = 2 * CHUNK + 7
    measure(recorded.runtime(), steps, calls, Report(tmp_path / REPORT), tmp_path / ANSWERS)
    assert recorded.log[:3] == ["compile", "load", "load"] and recorded.log[3] == "begin"
    assert recorded.log.count("call") == len(steps) + calls
    assert phases_of(tmp_path) == [
        *("started", "compile", "cold load", "warm load", "first predict", "answers"),
        *("calls", "calls", "calls", "placement", "done"),
    ]
    phases, _ = read_report(tmp_path / REPORT)
    chunks = [phase for phase in phases if phase["phase"] == "calls"]
    assert [chunk["until"] for chunk in chunks] == [CHUNK, 2 * CHUNK, calls]
    assert sum(len(chunk["wall_ms"]) for chunk in chunks) == calls
    assert all(ms >= 0 for chunk in chunks for ms in chunk["wall_ms"] + chunk["cpu_ms"])
    answers = load_steps(tmp_path / ANSWERS)
    assert [answer["y"].tolist() for answer in answers] == [[2, 2], [10, 10]]
    assert "x" in steps[0]  # the inputs were copied for each call


def test_what_was_measured_before_a_failure_is_on_the_disk(tmp_path):
    steps = [{"x": np.ones(2, np.float32)}]
    report = Report(tmp_path / REPORT)
    with pytest.raises(RuntimeError):
        measure(Recorded(dies_at=1).runtime(), steps, 9, report, tmp_path / ANSWERS)
    assert phases_of(tmp_path) == ["started", "compile", "cold load", "warm load"]


def test_a_call_is_timed_and_nothing_else(tmp_path, monkeypatch):
    """A clock that each call moves by 2 s and each reading by nothing."""
    import vrt.coreml.bench.measure as module

    clock = [0.0]
    monkeypatch.setattr(module, "now", lambda: (clock[0] / 2, clock[0]))
    monkeypatch.setattr(module, "since", lambda s: (clock[0] / 2 - s[0], clock[0] - s[1]))
    monkeypatch.setattr(module, "resident_bytes", lambda: clock.__setitem__(0, clock[0] + 99) or 1)

    def call(feeds):
        clock[0] += 2
        return {"y": feeds["x"]}

    runtime = Runtime("torch", lambda: lambda: call)
    steps = [{"x": np.ones(1, np.float32)}]
    measure(runtime, steps, 60, Report(tmp_path / REPORT), tmp_path / ANSWERS)
    phases, _ = read_report(tmp_path / REPORT)
    for phase in (p for p in phases if p["phase"] == "calls"):
        assert set(phase["wall_ms"]) == {2000.0} and set(phase["cpu_ms"]) == {1000.0}


def test_percentiles():
    assert percentile([], 50) is None and percentile([3.0], 95) == 3.0
    assert percentile([1.0, 2.0, 3.0, 4.0], 50) == 2.5
    assert percentile([float(n) for n in range(101)], 95) == 95.0


def test_memory_grows_by_what_is_kept():
    assert slope([1], [5]) is None
    assert slope([50, 100, 150], [1000, 1500, 2000]) == pytest.approx(10.0)
    assert slope([50, 100, 150], [7, 7, 7]) == pytest.approx(0.0, abs=1e-9)
    before = resident_bytes()
    if before is None:
        pytest.skip("this system does not tell")
    kept = np.ones(16 << 20, np.uint8)  # written, so that it is really there
    assert resident_bytes() - before > (12 << 20) and kept.nbytes


# --- inputs and answers ------------------------------------------------------------------------


def test_asked_are_the_golden_vectors(joint, stateful):
    asked = Asked.of(joint, "main")
    assert len(asked.steps) == 1 and asked.steps[0]["frames"].shape == (4, 40)
    assert asked.bytes_copied == 4 * (2 * 4 * 40 + 4 * 4 + 4 * 4 + 4)
    stream = Asked.of(stateful, "main")
    assert len(stream.steps) == 3 and len(stream.expected) == 3


def test_without_golden_vectors_numbers_are_drawn(joint, tmp_path):
    moved = replace(joint, path=tmp_path / joint.path.name)
    drawn = Asked.of(moved, "main").steps[0]
    assert {n: a.dtype.name for n, a in drawn.items()} == {
        "frames": "float32",
        "predicted": "float32",
    }
    assert not np.array_equal(drawn["frames"], drawn["predicted"])


def test_agreement_tells_distances_and_equal_ids(joint):
    asked = Asked.of(joint, "main")
    right = [dict(step) for step in asked.expected]
    assert asked.agreement(right) == {
        "max_abs": {"blank_score": 0.0, "scores": 0.0},
        "topk_equal": 1.0,
        "top1_equal": 1.0,
    }
    off = [right[0] | {"scores": right[0]["scores"] + np.float32(0.5)}]
    off[0]["ids"] = right[0]["ids"].copy()
    off[0]["ids"][0] = off[0]["ids"][0][::-1]  # four ids in another order: all in other places
    found = asked.agreement(off)
    assert found["max_abs"]["scores"] == pytest.approx(0.5)
    assert (found["topk_equal"], found["top1_equal"]) == (0.75, 0.75)
    lost = [{"scores": right[0]["scores"][:1], "blank_score": right[0]["blank_score"] * np.nan}]
    found = asked.agreement(lost)
    assert set(found["max_abs"].values()) == {FARTHEST} and found["topk_equal"] == 0.0


# --- a whole sweep -----------------------------------------------------------------------------

CALLS = 60


@pytest.fixture(scope="module")
def swept(joint):
    """torch and the interpreter, each in a real process."""
    lines = []
    settings = SweepSettings(devices=("cpu", "interpreter"), calls=CALLS, rounds=1)
    return sweep([joint], settings, lines.append), lines


def test_real_processes_measure(swept, joint):
    receipt, lines = swept
    assert lines == [
        "1 of 2: joint-k4.mlpackage on cpu",
        "2 of 2: joint-k4.mlpackage on interpreter",
    ]
    cpu, rehearsal = receipt.numbers["rows"]
    assert (cpu["backend"], rehearsal["backend"]) == ("torch", "reference-interpreter")
    for row in (cpu, rehearsal):
        (only,) = row["rounds"]
        assert row["measured"] and only["outcome"] == "ok" and only["reached"] == "done"
        assert row["calls"] == CALLS and (row["kind"], row["beam"]) == ("joint", 4)
        assert 0 < row["p50_ms"] <= row["p95_ms"] and row["cpu_p50_ms"] >= 0
        assert all(row[name] > 0 for name in ("cold_load_ms", "warm_load_ms", "first_predict_ms"))
        assert row["rss_slope_bytes_per_call"] is not None and row["compile_ms"] is None
        assert only["agreement"]["topk_equal"] == only["agreement"]["top1_equal"] == 1.0
    # The interpreter's answers in another process are its answers here.
    assert set(rehearsal["rounds"][0]["agreement"]["max_abs"].values()) == {0.0}
    # Torch's are away by the order of sums; measured 3.8e-6 of scores down to -40.
    assert 0 < max(cpu["rounds"][0]["agreement"]["max_abs"].values()) < 5e-5


SEED_FIELDS = {
    "model_revision": None,
    "package_digests": None,
    "decoder_config": {"strategy", "beam_size", "max_symbols", "score_norm", "dtype"},
    "host": {"hardware", "os_build", "thermal_state"},
    "counts": {
        *("alignment_iterations", "predictor_calls", "joint_calls", "recombinations"),
        *("bytes_copied", "allocations"),
    },
    "quality": {
        *("raw_wer", "greedy_minus_candidate_points", "paired_interval", "exact_hypotheses"),
    },
}
LATENCY = {
    *("preprocess_p50", "encoder_p50", "predictor_p50", "joint_p50", "bookkeeping_p50"),
    *("finalization_p50", "finalization_p95"),
}


def test_a_receipt_has_the_fields_that_were_asked_for(swept, joint, tmp_path):
    receipt = Receipt.load(swept[0].write(tmp_path / "r.json"))
    numbers = receipt.numbers
    for name, inside in SEED_FIELDS.items():
        assert name in numbers and (inside is None or inside <= numbers[name].keys())
    assert numbers["latency_ms"].keys() == {"cpu, k4", "interpreter, k4"}
    for row, fields in zip(numbers["rows"], numbers["latency_ms"].values(), strict=True):
        assert fields.keys() == LATENCY
        assert fields["joint_p50"] == row["p50_ms"]
        assert {fields[name] for name in LATENCY - {"joint_p50"}} == {None}
    name = joint.path.name
    assert numbers["package_digests"][name] == receipt.digests[name]
    assert numbers["model_revision"][name] == joint.contract.source_digest
    assert numbers["counts"]["joint_calls"] == 2 * CALLS
    assert numbers["counts"]["predictor_calls"] == 0
    assert numbers["decoder_config"]["beam_size"] == [4]
    assert len(numbers["load_average_before"]) == 3
    text = (tmp_path / "r.json").read_text()
    assert str(joint.path.parent) not in text and "rehearsal" in numbers["note"]


def test_times_of_the_interpreter_are_refused_as_latencies(swept):
    for report in (latency_table, lambda receipt: latency_rows([receipt])):
        with pytest.raises(CoreMLError, match="rehearsal and no latency of Core ML or torch"):
            report(swept[0])


def test_every_end_is_a_row_and_the_sweep_goes_on(joint):
    order = iter(["killed", "ok", "hang", "failed", "noise in the report", "ok"])
    lines = []
    settings = SweepSettings(devices=("cpu", "interpreter"), rounds=3, calls=3, timeout_s=8.0)
    receipt = sweep([joint], settings, lines.append, lambda f: command_of(next(order))(f))
    first, second = receipt.numbers["rows"]
    assert [r["outcome"] for r in first["rounds"]] == ["crashed", "timed out", "garbled"]
    assert [r["outcome"] for r in second["rounds"]] == ["ok", "failed", "ok"]
    assert (first["measured"], second["measured"]) == (False, True)
    assert first["rounds"][0]["signal"] == "SIGKILL" and first["rounds"][1]["signal"] == "SIGKILL"
    # What each had measured until its end counts: 3 calls of 1, 2 and 9 ms a process.
    assert (first["calls"], first["p50_ms"], first["cpu_p50_ms"]) == (9, 2.0, 1.0)
    assert first["rounds"][0]["p95_ms"] == pytest.approx(8.3)
    assert "  crashed: killed by SIGKILL after calls" in lines
    receipt.verify()


def test_answers_that_are_none_are_a_result(joint):
    """A child that says it has answered, and has not."""
    lines = []
    settings = SweepSettings(devices=("cpu",), rounds=1, calls=3)
    for make in ("", "(folder / 'answers.npz').write_bytes(b'PK no zip'); "):
        code = f"{script('ok').removesuffix(ENDS['ok'])}{make}phase('answers'); phase('done')"
        command = lambda folder, c=code: [sys.executable, "-c", c, str(folder)]  # noqa: E731
        row = sweep([joint], settings, lines.append, command).numbers["rows"][0]
        assert row["rounds"][0]["outcome"] == "garbled" and not row["measured"]
        assert "its answers cannot be read" in row["rounds"][0]["why"]


# A real child whose runtime kills it at its 70th prediction, as Core ML is known to.
DOOMED = """
import os, signal, sys
from pathlib import Path
import vrt.coreml.bench.runtimes as runtimes
real = runtimes._torch_runner
def doomed(graph, module, device):
    call, count = real(graph, module, device), [0]
    def counted(feeds):
        count[0] += 1
        if count[0] == 70:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(feeds)
    return counted
runtimes._torch_runner = doomed
from vrt.coreml.bench.child import main
sys.exit(main(Path(sys.argv[1])))
"""


def test_a_real_child_that_is_killed_leaves_what_it_had(joint):
    settings = SweepSettings(devices=("cpu",), rounds=1, calls=100)
    command = lambda folder: [sys.executable, "-c", DOOMED, str(folder)]  # noqa: E731
    (row,) = sweep([joint], settings, command=command).numbers["rows"]
    (only,) = row["rounds"]
    assert (only["outcome"], only["signal"], only["reached"]) == ("crashed", "SIGKILL", "calls")
    assert row["calls"] == CHUNK and row["p50_ms"] > 0  # one report of 50 calls was written
    assert only["agreement"]["topk_equal"] == 1.0 and not row["measured"]


def test_other_weights_than_the_packages_are_a_result(joint, tmp_path):
    settings = SweepSettings(devices=("cpu",), rounds=1, calls=3, source="digits-rnnt")
    (job,) = plan([joint], settings)
    job.write(tmp_path / JOB)
    save_steps(tmp_path / INPUTS, Asked.of(joint, "main").steps)
    assert child.main(tmp_path) == 1
    ((only,), _) = read_report(tmp_path / REPORT)
    assert only["phase"] == "failed" and "--source" in only["why"]
    assert "digits-rnnt: its weights have the digest" in only["why"]


def test_a_fault_in_a_child_is_reported_with_its_kind(tmp_path):
    (tmp_path / JOB).write_text("{}")
    assert child.main(tmp_path) == 1
    ((only,), _) = read_report(tmp_path / REPORT)
    assert only["phase"] == "failed" and only["why"].startswith("KeyError: ")


# --- the command and its table -----------------------------------------------------------------


def measured_receipt(joint):
    settings = SweepSettings(devices=("cpu",), rounds=2, calls=3)
    return sweep([joint], settings, command=command_of("ok"))


def test_table_and_rows(joint):
    receipt = measured_receipt(joint)
    lines = latency_table(receipt).splitlines()
    assert "load average" in lines[0] and receipt.device["cpu"] in lines[0]
    assert lines[2].split()[:4] == ["package", "device", "p50", "ms"]
    assert lines[3].split() == [
        *("joint-k4", "cpu", "2.0", "9.0", "1.00", "1.0", "2.0", "2.0", "2.0", "-"),
    ]
    assert all(len(line) <= 100 for line in lines)
    (row,) = latency_rows([receipt])
    assert (row["device"], row["p50_ms"], row["system"]) == ("cpu", 2.0, receipt.device["system"])


def test_table_names_failures_and_plans(joint):
    receipt = sweep(
        [joint], SweepSettings(devices=("cpu",), rounds=1, calls=3), command=command_of("killed")
    )
    receipt.numbers["rows"][0]["plan"] = {"operations": {"cpu": 7, "unknown": 2}}
    text = latency_table(receipt)
    assert "joint-k4.mlpackage main on cpu, round 1: crashed: killed by SIGKILL" in text
    assert "joint-k4.mlpackage main on cpu: planned cpu 7, unknown 2" in text


def ends_in(monkeypatch, end):
    """The command's processes."""
    monkeypatch.setattr(bench_module, "sweep", partial(sweep, command=command_of(end)))


def test_command_prints_the_table_and_writes_the_receipt(joint, tmp_path, monkeypatch):
    ends_in(monkeypatch, "ok")
    out = tmp_path / "r.json"
    options = ("--device", "cpu", "--rounds", "2", "-o", out)
    result = run("coreml", "bench", joint.path, *options)
    assert result.exit_code == 0 and result.stdout.rstrip() == latency_table(Receipt.load(out))
    assert result.stderr.splitlines() == [
        *("1 of 2: joint-k4.mlpackage on cpu", "2 of 2: joint-k4.mlpackage on cpu"),
        f"receipt: {out}",
    ]
    result = run("coreml", "bench", joint.path, *options, "--json")
    assert json.loads(result.stdout) == json.loads(out.read_text())


def test_command_rehearses_and_prints_no_table(joint, tmp_path, monkeypatch):
    ends_in(monkeypatch, "ok")
    out = tmp_path / "r.json"
    result = run("coreml", "bench", joint.path, "--device", "interpreter", "-o", out)
    assert result.exit_code == 0 and result.stdout == ""
    assert "times of the interpreter are no latencies" in result.stderr
    assert Receipt.load(out).numbers["rows"][0]["backend"] == "reference-interpreter"


def test_command_line_errors(joint, tmp_path):
    result = run("coreml", "bench", joint.path, "--device", "ANE")
    assert result.exit_code == 2 and "no device 'ANE'" in result.stderr
    result = run("coreml", "bench", joint.path, "--device", "cpu", "-o", tmp_path)
    assert result.exit_code == 2 and "is a folder; name a file" in result.stderr
    nothing = tmp_path / "nothing.mlpackage"
    out = ("--device", "cpu", "-o", tmp_path / "r.json")
    fails(run("coreml", "bench", nothing, *out), 1, "is not there")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_package_is_named_before_the_first_process(joint, tmp_path):
    package = shutil.copytree(joint.path, tmp_path / joint.path.name)
    shutil.copy(golden_vectors.beside(joint.path), tmp_path)
    weights = package / "Data" / "com.apple.CoreML" / "weights" / "weight.bin"
    weights.write_bytes(weights.read_bytes()[:-8])
    started = []
    out = tmp_path / "r.json"
    result = run("coreml", "bench", package, "--device", "cpu", "-o", out)
    fails(result, 1, "weight.bin", "is cut short")
    with pytest.raises(CoreMLError, match="is cut short"):
        sweep([open_package(package)], SweepSettings(devices=("cpu",)), started.append)
    assert started == [] and not out.exists()


def test_a_sweep_without_any_measurement_fails_and_leaves_its_receipt(joint, tmp_path, monkeypatch):
    ends_in(monkeypatch, "killed")
    out = tmp_path / "r.json"
    options = ("--device", "cpu", "--rounds", "1", "-o", out)
    fails(run("coreml", "bench", joint.path, *options), 1, "no process ended well")
    (only,) = Receipt.load(out).numbers["rows"][0]["rounds"]
    assert only["outcome"] == "crashed" and only["signal"] == "SIGKILL"


def test_steps_survive_their_file(tmp_path):
    steps = [{"a": np.ones(3, np.float32)}, {"a": np.zeros(2, np.int32), "b/c": np.ones(1)}]
    save_steps(tmp_path / "s.npz", steps)
    for step, read in zip(steps, load_steps(tmp_path / "s.npz"), strict=True):
        assert step.keys() == read.keys()
        for name, array in step.items():
            assert read[name].dtype == array.dtype
            np.testing.assert_array_equal(read[name], array)
