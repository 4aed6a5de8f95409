"""Every arm of the export: converted, run from disk by the interpreter, compared with torch."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from commands import fails, run
from coreml_cases import (
    ARMS,
    BEAM,
    CONFIG,
    exports,
    needs_coremltools,
    size_of,
    transducer,
)

from vrt.coreml import golden_vectors, toolbox
from vrt.coreml.arms import Arm
from vrt.coreml.comparing import compare
from vrt.coreml.convert import refuse
from vrt.coreml.errors import CoreMLError
from vrt.coreml.export import export, export_all, kinds_of
from vrt.coreml.golden_vectors import FP32_TOLERANCE, GAP
from vrt.coreml.graphs_rnnt import RNNT_KINDS, TopK, UnrolledLSTM, rnnt_graph
from vrt.coreml.interpret import Interpreter
from vrt.coreml.package import open_package
from vrt.coreml.reference import reference
from vrt.coreml.sources import Source, open_source
from vrt.rnnt import Transducer
from vrt.rnnt.predictor import LSTMState
from vrt.rnnt.weights import save_nemo

# Graphs of each arm, and the most that it drifted here, over all outputs. Float32: order of sums.
# Float16: weights and every operation rounded to 11 bits, measured on scores down to -90 (0.052)
# and states of size 1 (0.006). Palette: 64 values for 1,920 weights (0.1).
PLAN = {
    "k1": (("fused",), 1e-5),
    "k4": (BEAM, 2e-5),
    "k8": (RNNT_KINDS, 4e-5),
    "unrolled": (("predictor", "fused"), 4e-5),
    "logits": (("joint",), 4e-5),
    "fp16": (RNNT_KINDS, 0.06),
    "fp16-unrolled": (("fused",), 0.06),
    "functions": (("joint", "fused"), 4e-5),
    "palette": (("encoder-projection",), 0.12),
    "palette-fp16": (("encoder-projection",), 0.12),
}
PAIRS = [(name, kind) for name, (kinds, _) in PLAN.items() for kind in kinds]


@pytest.fixture(scope="module")
def source():
    return Source("tiny", transducer())


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    return exports(tmp_path_factory)


def operations(package, function="main"):
    return [op for op in package.function(function).operations if op.type != "const"]


@pytest.mark.parametrize(("arm", "kind"), PAIRS)
def test_arm_computes_what_torch_does(exported, source, arm, kind):
    """On inputs that the export has not seen; top-K ids wherever torch's scores are apart."""
    settings, (_, most) = ARMS[arm], PLAN[arm]
    found = exported(arm, kind)
    limits = golden_vectors.read(found.golden).tolerances
    assert {n: t.measured for n, t in limits.items()} == found.drift
    assert all(value <= most for name, value in found.drift.items() if name != "ids")
    exact = settings.precision == "fp32" and settings.palettize is None
    if exact:
        assert {t.max_abs for n, t in limits.items() if n != "ids"} == {FP32_TOLERANCE}
        assert limits.get("ids") is None or limits["ids"].max_abs == GAP
    package = open_package(found.package)
    for function in found.contract.functions:
        rows = function.inputs[0].shape[0]
        graph = rnnt_graph(
            kind, source.model, rows, lstm=settings.lstm, tail=settings.tail, frames=settings.frames
        )
        answer = reference(found.contract, function.name, source.model)
        step = answer(graph.draw(np.random.default_rng(99)))
        got = Interpreter(package, function.name).predict(step.inputs)
        wrong = [
            d for d in compare(step, got, {n: t.max_abs for n, t in limits.items()}) if not d.ok
        ]
        assert wrong == [] and set(got) == set(step.outputs)


@pytest.mark.parametrize(("arm", "kind"), PAIRS)
def test_ports_are_as_said_and_fixed(exported, arm, kind):
    """Explicit types on both sides: never FP16, never a shape that may change."""
    found = exported(arm, kind)
    package = open_package(found.package)
    for function in found.contract.functions:
        inside = package.function(function.name)
        for ports, types in ((function.inputs, inside.inputs), (function.outputs, inside.outputs)):
            said = {p.name: (p.dtype, p.shape) for p in ports}
            assert {n: (t.dtype, tuple(t.shape)) for n, t in types.items()} == said
            assert {dtype for dtype, _ in said.values()} <= {"float32", "int32"}
    described = package.spec.description
    several = {f.name: f for f in described.functions} or {"main": described}
    for function in found.contract.functions:
        features = [*several[function.name].input, *several[function.name].output]
        kinds = {f.name: f.type.multiArrayType for f in features}
        ids = {"labels", "preserve", "ids"} & kinds.keys()
        for name, array in kinds.items():
            assert array.dataType == (array.INT32 if name in ids else array.FLOAT32), name
            assert array.WhichOneof("ShapeFlexibility") is None


@pytest.mark.parametrize(("arm", "kind"), PAIRS)
def test_contract_and_golden_vectors_lie_in_and_beside_the_package(exported, source, arm, kind):
    settings = ARMS[arm]
    found = exported(arm, kind)
    package = open_package(found.package)
    assert package.contract == found.contract
    contract, config = found.contract, source.model.config
    assert contract.source_digest == source.digest and contract.target == settings.target
    assert contract.blank == (None if kind == "encoder-projection" else config.blank)
    assert contract.sizes["V"] == config.vocab
    assert contract.sizes.get("K") == (None if settings.beams and kind in BEAM else settings.beam)
    golden = golden_vectors.read(found.golden)
    assert golden.contract == contract and golden.oracle["name"] == "torch"
    assert {case.function for case in golden.cases} == {f.name for f in contract.functions}
    for case in golden.cases:
        function = contract.function(case.function)
        for step in case.steps:
            assert {p.name: p.shape for p in function.inputs} == {
                n: a.shape for n, a in step.inputs.items()
            }
            got = Interpreter(package, case.function).predict(step.inputs)
            limits = {n: t.max_abs for n, t in golden.tolerances.items()}
            assert all(d.ok for d in compare(step, got, limits))
    assert sorted(p.name for p in found.package.parent.glob(".*")) == []


def test_scores_are_shifted_logs_in_float32_in_every_arm(exported):
    for arm in ("k8", "fp16", "functions"):
        function = "beam_8" if arm == "functions" else "main"
        ops = operations(open_package(exported(arm, "joint").package), function)
        types = [op.type for op in ops]
        assert "softmax" not in types and "reduce_log_sum_exp" not in types
        tail = ops[types.index("reduce_max") :]
        assert [op.type for op in tail[:6]] == [
            "reduce_max",
            "sub",
            "exp",
            "reduce_sum",
            "log",
            "sub",
        ]
        dtypes = {t.dtype for op in tail for _, t in op.outputs}
        assert dtypes <= {"float32", "int32"}
    body = operations(open_package(exported("fp16", "joint").package))
    assert {t.dtype for op in body if op.type == "linear" for _, t in op.outputs} == {"float16"}


def test_long_negative_tails_survive_float16(exported, source):
    """Where softmax in FP16 and then log gives -103 for every class below 6e-8."""
    found = exported("fp16", "joint")
    step = {c.name: c.steps[0] for c in golden_vectors.read(found.golden).cases}["loud"]
    assert step.outputs["blank_score"].min() < -20
    got = Interpreter(open_package(found.package)).predict(step.inputs)
    np.testing.assert_allclose(got["blank_score"], step.outputs["blank_score"], atol=0.06)


def test_ids_stay_32_bits_wide(exported):
    for arm, kind in PAIRS:
        for name, function in open_package(exported(arm, kind).package).functions.items():
            kinds = {t.dtype for op in function.operations for _, t in op.outputs}
            assert not kinds & {"int16", "uint16", "int8", "uint8"} or "palette" in arm, name


def test_unrolled_has_no_lstm(exported):
    for kind in ("predictor", "fused"):
        ops = {a: operations(open_package(exported(a, kind).package)) for a in ("k8", "unrolled")}
        counts = {arm: [op.type for op in found].count("lstm") for arm, found in ops.items()}
        assert counts == {"k8": CONFIG.predictor_layers, "unrolled": 0}


def test_encoder_projection_is_one_convolution_of_rank_4(exported):
    package = open_package(exported("k8", "encoder-projection").package)
    (conv,) = operations(package)
    assert conv.type == "conv" and [len(t.shape) for _, t in conv.outputs] == [4]


def test_palette_is_64_values_and_small(exported):
    plain, small = exported("k8", "encoder-projection"), exported("palette", "encoder-projection")
    kinds = [op.type for op in operations(open_package(small.package))]
    assert kinds == ["constexpr_lut_to_dense", "conv"]
    weights = [
        sum(f.stat().st_size for f in open_package(e.package).weight_files) for e in (plain, small)
    ]
    assert weights[1] < weights[0] / 3  # 6 bits of 32, and a table
    assert small.contract.palettize_bits == 6


def test_functions_share_their_weights(exported):
    for kind in ("joint", "fused"):
        one, all_three = exported("k8", kind), exported("functions", kind)
        weights = [
            sum(f.stat().st_size for f in open_package(e.package).weight_files)
            for e in (one, all_three)
        ]
        assert weights[1] < 1.1 * weights[0]
        package = open_package(all_three.package)
        assert set(package.functions) == {"beam_1", "beam_4", "beam_8"}
        assert package.spec.description.defaultFunctionName == "beam_8"


def test_digest_is_of_what_is_computed(exported, source, tmp_path):
    from vrt.coreml.digest import package_digest

    first = exported("k4", "joint")
    again = export(source, "joint", tmp_path / "again", ARMS["k4"])
    other = export(Source("tiny", transducer(1)), "joint", tmp_path / "other", ARMS["k4"])
    digests = [package_digest(open_package(e.package)) for e in (first, again, other)]
    assert digests[0] == digests[1] != digests[2]
    assert golden_vectors.read(first.golden).package_digest == digests[0]
    assert first.golden.read_bytes() == again.golden.read_bytes()


# The graphs themselves, before any conversion.


def test_unrolled_lstm_is_torchs():
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(8, 8, 3)
    x, h, c = torch.randn(1, 5, 8), torch.randn(3, 5, 8), torch.randn(3, 5, 8)
    expected, got = lstm(x, (h, c)), UnrolledLSTM(lstm)(x, (h, c))
    for a, b in zip((expected[0], *expected[1]), (got[0], *got[1]), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=0)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
def test_graphs_are_the_model(activation):
    model = transducer(activation=activation)
    random = np.random.default_rng(0)
    fused, predictor = (rnnt_graph(k, model, 8) for k in ("fused", "predictor"))
    feeds = fused.draw(random)
    given = {n: torch.from_numpy(a) for n, a in feeds.items()}
    out, state = model.decoder.step(given["labels"].long(), LSTMState(given["h_in"], given["c_in"]))
    got = predictor.run({n: feeds[n] for n in ("labels", "h_in", "c_in")})
    projected = model.joint.project_predictor(out).detach().numpy()
    np.testing.assert_allclose(got["predicted"], projected, atol=1e-6)
    np.testing.assert_allclose(got["c_out"], state.c.detach().numpy(), atol=1e-6)
    keep = feeds["preserve"] != 0
    assert keep.any() and not keep.all()
    answer = fused.run(feeds)
    np.testing.assert_array_equal(answer["h_out"][:, keep], feeds["h_in"][:, keep])
    np.testing.assert_array_equal(answer["predicted_out"][keep], feeds["predicted_in"][keep])
    np.testing.assert_allclose(answer["h_out"][:, ~keep], got["h_out"][:, ~keep], atol=1e-6)
    logits = model.joint.joint(given["frames"], torch.from_numpy(answer["predicted_out"]))
    expected = logits.double().log_softmax(-1).detach()
    np.testing.assert_allclose(answer["scores"], expected.topk(8).values, atol=1e-5)
    np.testing.assert_array_equal(answer["ids"], expected.topk(8).indices)
    np.testing.assert_allclose(answer["blank_score"], expected[:, 32], atol=1e-5)


def test_log_softmax_of_huge_logits_is_finite():
    logits = torch.tensor([[1e4, -1e4, 0.0, 5.0], [-1e30, -1e30, -1e30, -1e30]])
    scores, ids, blank = TopK(blank=3, beam=2)(logits)
    torch.testing.assert_close(scores[0], torch.tensor([0.0, -9995.0]))
    torch.testing.assert_close(scores[1], torch.full((2,), -np.log(4.0), dtype=torch.float32))
    assert ids.dtype == torch.int32 and blank[0] == -9995.0


# Refusals, by name.


@pytest.mark.parametrize(
    ("kind", "arm", "said"),
    [
        ("decoder", Arm(), "no graph 'decoder'; it has predictor, joint, fused"),
        ("voxtral-projector", Arm(), "no graph 'voxtral-projector'"),
        ("joint", Arm(beam=34), r"beam 34 is outside 1\.\.33"),
        ("joint", Arm(beam=0), r"beam 0 is outside 1\.\.33"),
        ("encoder-projection", Arm(frames=0), "1 frame or more, got 0"),
        ("predictor", Arm(palettize=6), "changes nothing of predictor"),
        ("encoder-projection", Arm(beams=(1, 8), target="iOS18"), "--multifunction"),
        ("encoder-projection", Arm(palettize=5), "5 bits a weight"),
        ("joint", Arm(lstm="unrolled"), "--lstm unrolled changes nothing of joint"),
        ("joint", Arm(cache="mlstate"), "MLState"),
    ],
)
def test_refused_by_name(source, tmp_path, kind, arm, said):
    needs_coremltools()
    with pytest.raises(CoreMLError, match=said):
        list(export_all(source, [kind], tmp_path / "out", arm))
    assert not list(tmp_path.rglob("*.mlpackage"))


def test_several_functions_need_ios18():
    with pytest.raises(CoreMLError, match=r"\(1,4,8\) need --target iOS18; for iOS17 export one"):
        Arm(beams=(1, 4, 8))
    with pytest.raises(CoreMLError, match="each may be there once"):
        Arm(beams=(4, 4), target="iOS18")


@pytest.mark.parametrize("name", ["precision", "lstm", "tail", "target", "cache"])
def test_a_choice_that_is_not_there(name):
    arm = Arm()
    object.__setattr__(arm, name, "fp8")  # past the type checks that tests have
    with pytest.raises(CoreMLError, match=f"{name} 'fp8': there is .* and "):
        arm.__post_init__()


def test_palettes_and_states_are_refused_for_a_graph_itself(source):
    graph = rnnt_graph("joint", source.model, 4)
    with pytest.raises(CoreMLError, match="palettes are for the encoder's weights; joint"):
        refuse(graph, "fp32", "iOS17", 6)
    with pytest.raises(CoreMLError, match="MLState"):
        refuse(replace(graph, states=graph.inputs), "fp32", "iOS17", None)


def test_palettes_need_scikit_learn(source, monkeypatch):
    from vrt.coreml import convert

    graph = rnnt_graph("encoder-projection", source.model, 4, frames=20)
    monkeypatch.setattr(convert, "find_spec", lambda name: None)
    with pytest.raises(CoreMLError, match=r"scikit-learn, which is not there: pip install 'vrt"):
        refuse(graph, "fp32", "iOS17", 6)


def test_tdt_gives_its_predictor_and_projection_only(tmp_path):
    model = transducer(durations=(0, 1, 2, 3, 4))
    for kind in ("joint", "fused"):
        with pytest.raises(CoreMLError, match=r"TDT model with durations \(0, 1, 2, 3, 4\)"):
            rnnt_graph(kind, model, 4)
    needs_coremltools()
    made = list(export_all(Source("t", model), ["predictor"], tmp_path, Arm(beam=2)))
    assert made[0].drift["predicted"] < 1e-5


def test_what_is_there_is_never_written_over(source, tmp_path):
    needs_coremltools()
    arm = Arm(beam=2)
    (tmp_path / "joint-k2.golden.json").write_text("mine")
    with pytest.raises(CoreMLError, match=r"joint-k2\.golden\.json is there already"):
        # Refused before the predictor is converted.
        list(export_all(source, ["predictor", "joint"], tmp_path, arm))
    assert [p.name for p in tmp_path.iterdir()] == ["joint-k2.golden.json"]
    assert (tmp_path / "joint-k2.golden.json").read_text() == "mine"


@pytest.mark.parametrize("kind", ["predictor", "joint", "fused"])
def test_a_package_of_other_weights_is_not_kept(source, tmp_path, monkeypatch, kind):
    """The vectors are of the model, not of the traced module: so a wrong graph shows."""
    needs_coremltools()
    other = transducer(1)
    import vrt.coreml.export as module

    wrong = lambda k, _, *rest, **named: rnnt_graph(k, other, *rest, **named)  # noqa: E731
    monkeypatch.setattr(module, "rnnt_graph", wrong)
    with pytest.raises(CoreMLError, match="does not compute what torch does"):
        export(source, kind, tmp_path, Arm(beam=2))
    assert list(tmp_path.iterdir()) == []


def test_without_coremltools_the_way_out_is_said(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(toolbox.importlib, "import_module", missing)
    with pytest.raises(CoreMLError, match=r"pip install 'vrt\[coreml\]'"):
        toolbox.toolbox()


@pytest.mark.parametrize(("numpy", "fine"), [("2.3.5", True), ("2.4.0", False), ("3.0.1", False)])
def test_numpy_too_new(numpy, fine):
    toolbox.refuse_numpy("9.1.0", numpy)
    if fine:
        toolbox.refuse_numpy("9.0", numpy)
        return
    with pytest.raises(CoreMLError, match=r"pip install 'numpy<2\.4'"):
        toolbox.refuse_numpy("9.0", numpy)


# Models by name, and the command.


def test_sources(source, tmp_path):
    save_nemo(source.model, tmp_path / "small.nemo")
    opened = open_source(str(tmp_path / "small.nemo"))
    assert opened.digest == source.digest and kinds_of(opened) == RNNT_KINDS
    assert kinds_of(open_source("random-tiny"))[0] == "voxtral-conv-stem"
    with pytest.raises(CoreMLError, match=r"nowhere is no file.*random-parakeet"):
        open_source("nowhere")
    with pytest.raises(CoreMLError, match="whole number, as :7"):
        open_source("random-parakeet:x")


def test_command_exports_and_tells(source, tmp_path):
    needs_coremltools()
    save_nemo(source.model, tmp_path / "small.nemo")
    out = tmp_path / "out"
    options = ("--graph", "joint", "--beam", "4", "--json")
    result = run("coreml", "export", tmp_path / "small.nemo", out, *options)
    assert result.exit_code == 0, result.output
    values = json.loads(result.stdout)
    assert values["kind"] == "joint" and values["drift"]["scores"] <= FP32_TOLERANCE
    assert (out / "joint-k4.mlpackage").is_dir() and (out / "joint-k4.golden.json").is_file()
    assert "says nothing of Apple's kernels" in result.stderr
    assert "Converting" not in result.stderr and "proxy" not in result.stderr.lower()
    fails(run("coreml", "export", tmp_path / "small.nemo", out, *options), 1, "is there already")
    shutil.rmtree(out)


def test_command_line_errors(tmp_path):
    needs_coremltools()
    fails(run("coreml", "export", "nowhere", tmp_path), 1, "nowhere is no file")
    many = ("--multifunction", "1,4,8")
    fails(run("coreml", "export", "random-tiny", tmp_path, *many), 1, "--target iOS18")
    refused = run("coreml", "export", "random-tiny", tmp_path, "--multifunction", "1;4")
    assert refused.exit_code == 2 and "no list as 1,4,8" in refused.stderr
    graph = ("--graph", "joint")
    fails(run("coreml", "export", "random-tiny", tmp_path, *graph), 1, "no graph 'joint'")


@pytest.mark.slow
@pytest.mark.parametrize("kind", RNNT_KINDS)
def test_parakeet_size(tmp_path, kind):
    """Measured: predictor 2e-6, joint and fused 3e-5 (scores down to -90), projection 3e-6."""
    needs_coremltools()
    found = export(open_source("random-parakeet"), kind, tmp_path, Arm())
    assert max(found.drift.values()) < 6e-5
    megabytes = {"predictor": 30.5, "joint": 2.65, "fused": 33.2, "encoder-projection": 2.63}
    assert size_of(found.package) / 1e6 == pytest.approx(megabytes[kind], rel=0.01)
    assert isinstance(open_source("random-parakeet:1").model, Transducer)
