"""Every arm through `vrt coreml check` with its model: states, palettes, functions, decoder step.

The default run has one of each kind; the others are slow (minutes).
"""

import numpy as np
import pytest
from coreml_cases import needs_coremltools, transducer

import vrt
from vrt.coreml import golden_vectors
from vrt.coreml.arms import Arm
from vrt.coreml.check import check
from vrt.coreml.errors import CoreMLError
from vrt.coreml.export import export
from vrt.coreml.fp16 import LARGEST, beyond_float16
from vrt.coreml.golden_vectors import FP32_TOLERANCE, Case, Step
from vrt.coreml.sources import Source

needs_coremltools()

SEVERAL = {"beams": (1, 4, 8), "target": "iOS18"}
STATE = {"cache": "mlstate", "target": "iOS18"}
HALF = {"precision": "fp16-body"}
STEM, CHUNK, PROJECTOR, STEP = (
    f"voxtral-{name}" for name in ("conv-stem", "encoder-chunk", "projector", "decoder-step")
)
# Graph, settings, the largest drift from torch that was measured over the golden vectors (and the
# most allowed), what rounds. "f32" is the order of sums. States are float16 in torch's graph too,
# so that they differ by sums alone; both differ from the engine by 3e-2 (test_coreml_voxtral.py).
ARMS = [
    ("joint", SEVERAL, 1.5e-5, 4e-5, "f32"),
    (STEP, {}, 5e-6, 4e-5, "f32"),
    (STEP, STATE, 7.6e-6, 4e-5, "f32"),
    (PROJECTOR, {"palettize": 6} | HALF, 0.84, 1.1, "64 values a tensor, float16 sums"),
]
SLOW = [
    ("predictor", SEVERAL, 7.2e-7, 4e-6, "f32"),
    ("fused", SEVERAL, 1.1e-5, 4e-5, "f32"),
    ("fused", SEVERAL | {"lstm": "unrolled", "tail": "logits"}, 7.6e-6, 4e-5, "f32"),
    ("predictor", SEVERAL | HALF, 1.4e-3, 5e-3, "weights and operations in float16"),
    ("joint", SEVERAL | HALF, 0.052, 0.1, "logits in float16, 11 bits of up to 90"),
    ("fused", SEVERAL | HALF, 0.049, 0.1, "logits in float16, 11 bits of up to 90"),
    ("encoder-projection", {"palettize": 6, "frames": 20}, 0.085, 0.12, "64 values a tensor"),
    (
        "encoder-projection",
        {"palettize": 6, "frames": 20} | HALF,
        0.093,
        0.12,
        "64 values, float16",
    ),
    (STEM, {}, 3e-6, 2e-5, "f32"),
    (CHUNK, {}, 9.2e-6, 4e-5, "f32"),
    (PROJECTOR, {}, 3.8e-6, 2e-5, "f32"),
    (STEP, {"delay_tokens": 3}, 1e-5, 4e-5, "f32"),
    (CHUNK, STATE, 5.5e-6, 4e-5, "f32"),
    (CHUNK, STATE | HALF, 0.015, 0.05, "float16 but for norms and softmax"),
    (STEP, STATE | HALF, 0.089, 0.2, "float16 but for norms and softmax"),
    (CHUNK, STATE | {"palettize": 6}, 0.48, 0.7, "64 values a tensor"),
    (STEM, HALF, 2.7e-3, 1e-2, "float16"),
    (CHUNK, HALF, 0.023, 0.05, "float16 but for norms and softmax"),
    (PROJECTOR, HALF, 9.1e-3, 0.03, "float16"),
    (STEP, HALF, 0.057, 0.1, "float16 but for norms and softmax"),
    (STEM, {"palettize": 6}, 0.18, 0.3, "64 values a tensor"),
    (CHUNK, {"palettize": 6}, 0.71, 1.0, "64 values a tensor"),
    (PROJECTOR, {"palettize": 6}, 0.64, 1.0, "64 values a tensor"),
    (STEM, {"palettize": 6} | HALF, 0.18, 0.3, "64 values a tensor, float16"),
    (CHUNK, {"palettize": 6} | HALF, 1.1, 1.5, "64 values a tensor, float16"),
]


@pytest.fixture(scope="module")
def sources():
    return {
        "rnnt": Source("tiny", transducer()),
        "voxtral": Source("random-tiny", vrt.load("random-tiny")),
    }


def checked(sources, folder, kind, settings):
    source = sources["voxtral" if kind.startswith("voxtral") else "rnnt"]
    exported = export(source, kind, folder, Arm(**settings))
    return exported, check(exported.package, source)


def holds(exported, report, most, settings):
    assert report.ok, report.text()
    assert all(value <= most for name, value in exported.drift.items() if name != "ids")
    exact = not {"precision", "palettize"} & settings.keys()
    if exact:
        tolerances = golden_vectors.read(exported.golden).tolerances
        assert {t.max_abs for n, t in tolerances.items() if n != "ids"} == {FP32_TOLERANCE}
    names = [f"beam_{beam}" for beam in settings.get("beams", ())] or ["main"]
    assert sorted(f.name for f in report.functions) == sorted(names)
    for function in report.functions:
        against = {replay.against: replay for replay in function.replays}
        assert against.keys() == {"golden vectors", "torch"}
        assert all(replay.calls >= 2 for replay in against.values())
        if function.beam is not None:
            rows = int(function.name.removeprefix("beam_"))
            assert (function.beam.rows, function.beam.iterations >= 100) == (rows, True)
            assert function.beam.same_hypotheses or not exact
    assert [f for f in report.findings if f.level == "error"] == []


@pytest.mark.parametrize(("kind", "settings", "measured", "most", "cause"), ARMS)
def test_an_arm_checks(sources, tmp_path, kind, settings, measured, most, cause):
    assert measured < most and cause
    holds(*checked(sources, tmp_path, kind, settings), most, settings)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "settings", "measured", "most", "cause"), SLOW)
def test_every_other_arm_checks(sources, tmp_path, kind, settings, measured, most, cause):
    assert measured < most and cause
    holds(*checked(sources, tmp_path, kind, settings), most, settings)


def test_a_package_of_one_function_is_no_multifunction():
    with pytest.raises(CoreMLError, match="needs no --multifunction: say --beam 8"):
        Arm(beams=(8,), target="iOS18")


def test_answers_that_float16_cannot_hold_are_left_out_and_told(sources, tmp_path):
    """Inputs of -1e4, that shut the units of a joint, make a projector answer 1e5."""
    _, report = checked(sources, tmp_path, PROJECTOR, HALF)
    (function,) = report.functions
    (told,) = function.left_out
    assert told == "masked rows, where torch answers 1.12e+05 in audio"
    assert f"left out, beyond float16's 65504: {told}" in report.text()
    replay = next(r for r in function.replays if r.against == "torch")
    assert replay.calls == 8  # of nine
    _, wide = checked(sources, tmp_path / "wide", PROJECTOR, {})
    assert wide.functions[0].left_out == ()
    assert next(r for r in wide.functions[0].replays if r.against == "torch").calls == 9


def test_only_answers_beyond_the_range_are_left_out():
    def case(value):
        outputs = {"y": np.array([value], np.float32), "ids": np.array([99_999], np.int32)}
        return Case("c", "main", (Step({}, outputs),))

    assert beyond_float16(case(LARGEST)) is None
    assert beyond_float16(case(-65520.0)) == "c, where torch answers 6.55e+04 in y"
    assert beyond_float16(case(-np.inf)) is None  # a masked score, which float16 has too
