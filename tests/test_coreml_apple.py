"""How vrt calls coremltools where there is a Core ML.

Nothing here ran on a Mac. coremltools' Python is real; Apple's binding below it is played by the
interpreter (fake_core_ml.py), so these tests hold vrt's use of the interface, not Core ML.
"""

import inspect
from dataclasses import fields

import numpy as np
import pytest
from coreml_bench_cases import model_on_disk, package_of, phases_of
from coreml_cases import needs_coremltools
from fake_core_ml import Plan, play

from vrt.coreml import apple, golden_vectors
from vrt.coreml.apple import compile_package, load, load_compiled, on_this_mac
from vrt.coreml.arms import Arm
from vrt.coreml.bench import host
from vrt.coreml.bench.children import read_report
from vrt.coreml.bench.inputs import Asked
from vrt.coreml.bench.jobs import ANSWERS, REPORT, Job
from vrt.coreml.bench.jobs import Arm as Row
from vrt.coreml.bench.measure import Report, load_steps, measure
from vrt.coreml.bench.placement import counted, placement
from vrt.coreml.bench.runtimes import open_runtime
from vrt.coreml.errors import CoreMLError
from vrt.coreml.interpret import Interpreter
from vrt.coreml.replay import Limits
from vrt.coreml.runners import open_scorer, predicted
from vrt.coreml.voxtral_host import CachedGraph

needs_coremltools()


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return str(model_on_disk(tmp_path_factory.mktemp("model")))


@pytest.fixture(scope="module")
def fused(tmp_path_factory, source):
    return package_of(tmp_path_factory.mktemp("fused"), "fused", Arm(beam=4), source)


@pytest.fixture(scope="module")
def functions(tmp_path_factory, source):
    arm = Arm(beams=(1, 4), target="iOS18")
    return package_of(tmp_path_factory.mktemp("functions"), "joint", arm, source)


@pytest.fixture(scope="module")
def stateful(tmp_path_factory):
    arm = Arm(cache="mlstate", target="iOS18")
    return package_of(tmp_path_factory.mktemp("state"), "voxtral-encoder-chunk", arm, "random-tiny")


def cases_of(package, function="main"):
    golden = golden_vectors.read(golden_vectors.beside(package.path))
    return [case for case in golden.cases if case.function == function]


# --- the installed coremltools has what is called here -----------------------------------------


def test_calls_are_those_of_the_installed_coremltools():
    import coremltools
    from coremltools.models import compute_device, compute_plan

    def named(function, *names):
        assert set(names) <= inspect.signature(function).parameters.keys()

    models = coremltools.models
    named(models.MLModel.__init__, "model", "compute_units", "function_name")
    named(models.CompiledMLModel.__init__, "path", "compute_units", "function_name")
    for kind in (models.MLModel, models.CompiledMLModel):
        named(kind.predict, "data", "state")
        named(kind.make_state)
    named(models.MLModel.get_compiled_model_path)
    named(models.utils.compile_model, "model", "destination_path")
    plan = compute_plan.MLComputePlan
    named(plan.load_from_path, "path", "compute_units")
    named(plan.get_compute_device_usage_for_mlprogram_operation, "operation")
    named(plan.get_estimated_cost_for_mlprogram_operation, "operation")

    def has(kind, *names):
        assert set(names) <= {field.name for field in fields(kind)}

    has(compute_plan.MLModelStructureProgramOperation, "operator_name")
    has(compute_plan.MLModelStructureProgramBlock, "operations")
    has(compute_plan.MLComputePlanDeviceUsage, "preferred_compute_device")
    has(compute_plan.MLComputePlanCost, "weight")
    from vrt.coreml.bench.placement import NAMES

    assert all(hasattr(compute_device, name) for name in NAMES)


# --- loading and asking ------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["CPU_ONLY", "CPU_AND_NE", "CPU_AND_GPU", "ALL"])
def test_a_package_is_loaded_on_the_unit_and_asked(monkeypatch, fused, unit):
    proxy = play(monkeypatch)
    call = load(fused, "main", unit)()
    assert proxy.asked == [(str(fused.path), unit, "")]
    (step,) = cases_of(fused)[0].steps
    given = dict(step.inputs)
    got, expected = call(given), Interpreter(fused).predict(step.inputs)
    assert got.keys() == expected.keys() and given.keys() == step.inputs.keys()
    for name in expected:
        np.testing.assert_array_equal(got[name], expected[name])


def test_a_function_of_several_is_asked_by_its_name(monkeypatch, functions, tmp_path):
    proxy = play(monkeypatch)
    compile_package(functions, tmp_path / "m.mlmodelc")
    for rows, name in ((1, "beam_1"), (4, "beam_4")):
        (step,) = cases_of(functions, name)[0].steps
        for begin in (
            load(functions, name),
            load_compiled(tmp_path / "m.mlmodelc", functions, name, "ALL"),
        ):
            assert begin()(step.inputs)["ids"].shape == (rows, rows)
    assert [function for _, _, function in proxy.asked] == ["beam_1", "beam_1", "beam_4", "beam_4"]


def test_a_state_is_one_streams_own(monkeypatch, stateful):
    play(monkeypatch)
    begin, steps = load(stateful, "main"), cases_of(stateful)[0].steps
    first, second = begin(), begin()
    answers = [first(step.inputs)["frames"] for step in steps]
    again = [second(step.inputs)["frames"] for step in steps]
    for a, b, step in zip(answers, again, steps, strict=True):
        np.testing.assert_array_equal(a, b)  # a fresh state: the first stream left nothing
        np.testing.assert_allclose(a, step.outputs["frames"], atol=1e-4)
    third = begin()
    skipped = third(steps[1].inputs)["frames"]
    assert np.abs(skipped - answers[1]).max() > 1e-2  # so the state mattered


def test_a_host_streams_over_it(monkeypatch, stateful):
    play(monkeypatch)
    host_graph = CachedGraph(stateful.contract, predicted(stateful))
    for step in cases_of(stateful)[0].steps:
        got = host_graph.step({"x": step.inputs["x"]})
        np.testing.assert_allclose(got["frames"], step.outputs["frames"], atol=1e-4)


def test_a_scorer_over_it_answers_as_over_the_interpreter(monkeypatch, fused):
    import torch

    play(monkeypatch)
    path = fused.path
    apples, ours = open_scorer([path], run=predicted), open_scorer([path])
    frames = torch.randn(4, 40, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        apples.log_probs(frames, apples.start(4)), ours.log_probs(frames, ours.start(4))
    )


def test_what_core_ml_refuses_is_named(monkeypatch, fused, stateful):
    """coremltools only warns of a package that Core ML does not load, and fails at predict."""
    proxy = play(monkeypatch)
    proxy.refuses = "Error compiling model: unknown opset"
    with pytest.raises(CoreMLError, match=r"cannot load fused-k4\.mlpackage: .*unknown opset"):
        load(fused, "main")
    proxy.refuses, proxy.newest = "", 7
    with pytest.raises(CoreMLError, match=r"Core ML on this Mac cannot load fused-k4\.mlpackage"):
        load(fused, "main")
    proxy.newest, proxy.breaks = 9, "Failed to allocate"
    (step,) = cases_of(fused)[0].steps
    with pytest.raises(CoreMLError, match=r"cannot run fused-k4\.mlpackage: Failed to allocate"):
        load(fused, "main")()(step.inputs)
    from coremltools.models import model

    monkeypatch.setattr(model, "_macos_version", lambda: (14, 0))
    with pytest.raises(CoreMLError, match=r"cannot keep a state: .*macOS 15"):
        load(stateful, "main")()


def test_elsewhere_it_is_refused(fused, tmp_path):
    if apple.platform.system() == "Darwin":
        pytest.skip("this is a Mac")
    for call in (
        lambda: load(fused, "main"),
        lambda: predicted(fused),
        lambda: compile_package(fused, tmp_path / "m.mlmodelc"),
        lambda: load_compiled(tmp_path / "m.mlmodelc", fused, "main", "ALL"),
    ):
        with pytest.raises(CoreMLError, match="Core ML runs on macOS, this is"):
            call()


# --- check's comparison on a Mac ----------------------------------------------------------------


def test_on_this_mac_compares_with_the_interpreter(monkeypatch, fused, stateful):
    proxy = play(monkeypatch)
    for package in (fused, stateful):
        found = on_this_mac(package, "main", cases_of(package), Limits(exact=False))
        assert found.ok and found.calls == sum(len(c.steps) for c in cases_of(package))
        assert {diff.error for diff in found.diffs} == {0.0}
    proxy.off = 1e-3  # kernels that are wrong by this much
    found = on_this_mac(fused, "main", cases_of(fused), Limits(exact=False))
    assert not found.ok and {f.diff.name for f in found.failures} >= {"scores", "h_out"}


def test_check_says_what_a_mac_has_proven(monkeypatch, fused):
    import vrt.coreml.check as module

    play(monkeypatch)
    monkeypatch.setattr(module.sys, "platform", "darwin")
    report = module.check(fused.path)
    assert report.ok and [r.against for r in report.functions[0].replays][-1].startswith("Core ML")
    assert report.proven()[-1] == (
        "Not proven: other devices, other compute units, placement, speed."
    )


# --- the sweep's half ---------------------------------------------------------------------------


def job_of(package, device="CPU_AND_NE", function="main"):
    return Job(Row(package.path.name, function, device), 0, str(package.path), 60, 1, None)


def test_a_unit_is_measured_phase_by_phase(monkeypatch, fused, tmp_path):
    proxy = play(monkeypatch)
    asked = Asked.of(fused, "main")
    runtime = open_runtime(job_of(fused), tmp_path)
    measure(runtime, asked.steps, 60, Report(tmp_path / REPORT), tmp_path / ANSWERS)
    assert phases_of(tmp_path) == [
        *("started", "compile", "cold load", "warm load", "first predict", "answers"),
        *("calls", "calls", "placement", "done"),
    ]
    compiled = str(tmp_path / "fused-k4.mlmodelc")  # a copy of its own: the first load is cold
    assert proxy.asked == [(compiled, "CPU_AND_NE", "")] * 2
    found = asked.agreement(load_steps(tmp_path / ANSWERS))
    assert set(found["max_abs"].values()) == {0.0} and found["topk_equal"] == 1.0
    phases, _ = read_report(tmp_path / REPORT)
    plan = next(phase for phase in phases if phase["phase"] == "placement")
    assert plan["types"]["cpu"] == {"lstm": 2, "linear": 2}
    assert plan["operations"]["cpu"] == 4 and plan["operations"]["unknown"] > 5
    assert "const" not in plan["types"]["unknown"] and "neural engine" not in plan["types"]
    assert plan["cost"] == {"cpu": 1.0, "unknown": 0.0}


def test_a_stream_is_measured_on_its_own_state(monkeypatch, stateful, tmp_path):
    play(monkeypatch)
    asked = Asked.of(stateful, "main")
    runtime = open_runtime(job_of(stateful), tmp_path)
    measure(runtime, asked.steps, 3, Report(tmp_path / REPORT), tmp_path / ANSWERS)
    found = asked.agreement(load_steps(tmp_path / ANSWERS))
    assert found["max_abs"] == {"frames": 0.0}


def test_placement_asks_for_a_compiled_model_and_its_unit(monkeypatch, functions, tmp_path):
    play(monkeypatch)
    compile_package(functions, tmp_path / "m.mlmodelc")
    found = placement(tmp_path / "m.mlmodelc", "beam_4", "ALL")
    assert found["types"]["cpu"] == {"linear": 1}
    nothing = {"operations": {}, "cost": {}, "types": {}}
    assert placement(tmp_path / "m.mlmodelc", "main", "ALL") == nothing


def test_the_neural_engine_is_told_from_the_cpu(monkeypatch, tmp_path, source):
    package = package_of(tmp_path, "encoder-projection", Arm(frames=20), source)
    found = counted(Plan(package), "main")
    assert found == {
        "operations": {"neural engine": 1},
        "cost": {"neural engine": 0.25},
        "types": {"neural engine": {"conv": 1}},
    }


# --- the host -----------------------------------------------------------------------------------


def test_the_host_off_a_mac_has_no_build_and_no_heat():
    found = host.describe_host()
    if found["os"].startswith("macOS"):
        pytest.skip("this is a Mac")
    assert found["hardware"] and found["os"] == host.platform.system()
    assert (found["os_build"], found["thermal_state"], found["power"]) == (None, None, None)


@pytest.mark.parametrize(
    ("said", "state"), [("0", "nominal"), ("3", "critical"), ("4", None), ("x", None), (None, None)]
)
def test_thermal_states_are_apples(monkeypatch, said, state):
    monkeypatch.setattr(host, "_told", lambda *command: said)
    assert host.thermal_state() == state


def test_a_command_that_is_not_there_says_nothing():
    assert host._told("no-such-command-of-macos") is None
    assert host._told("false") is None
