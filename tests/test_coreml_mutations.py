"""Faults put into a package on purpose: each changes something, and each is caught by name.

Once with the golden vectors beside the package, once with nothing but the model it was made of.
"""

import dataclasses

import numpy as np
import pytest
import torch
from coreml_packages import (
    blob_at,
    converted,
    copied,
    need_coremltools,
    operations,
    rewrite,
    saved,
    small_source,
    weight_file,
)

need_coremltools()

import coremltools as ct  # noqa: E402

from vrt.coreml.arms import Arm  # noqa: E402
from vrt.coreml.check import check  # noqa: E402
from vrt.coreml.contract import METADATA_KEY, to_json  # noqa: E402
from vrt.coreml.errors import CoreMLError  # noqa: E402
from vrt.coreml.export import export  # noqa: E402
from vrt.coreml.fp16 import emulate  # noqa: E402
from vrt.coreml.package import open_package  # noqa: E402
from vrt.coreml.program import Blob  # noqa: E402
from vrt.coreml.sources import Source  # noqa: E402


@pytest.fixture(scope="module")
def source():
    return small_source()


@pytest.fixture(scope="module")
def fused(source, tmp_path_factory):
    return export(source, "fused", tmp_path_factory.mktemp("fused"), Arm(beam=4)).package


def weights_of(package, kind, parameter):
    """Names of the constants that operations of a kind read."""
    function = open_package(package).function("main")
    names = [op.inputs[parameter].text for op in function.operations if op.type == kind]
    return [n for n in names if isinstance(function.producer(n).inputs["val"], Blob)]


def one_weight(package):
    """One number of the LSTM's input weights, by a tenth."""
    name = weights_of(package, "lstm", "weight_ih")[0]
    values, write = blob_at(package, name)
    values[3, 5] += 0.1
    write(values)


def gate_order(package):
    """MIL's input, forget, output, cell as torch's input, forget, cell, output: in every tensor."""
    count = 0
    for parameter in ("weight_ih", "weight_hh", "bias"):
        for name in weights_of(package, "lstm", parameter):
            values, write = blob_at(package, name)
            i, f, o, z = np.split(values, 4)
            write(np.concatenate([i, f, z, o]))
            count += 1
    assert count == 6  # two layers


def preserve(package):
    """Rows that should keep the parent's state take the new one, and the others keep."""

    def invert(spec):
        (select,) = (o for o in operations(spec, "select") if o.outputs[0].name == "h_out")
        a, b = select.inputs["a"].arguments[0], select.inputs["b"].arguments[0]
        a.name, b.name = b.name, a.name

    rewrite(package, invert)


def outputs(package):
    """h where c should be: of equal shape, so only numbers tell."""

    def swap(spec):
        names = {"h_out": "c_out", "c_out": "h_out"}
        for op in operations(spec, "select"):
            for output in op.outputs:
                output.name = names.get(output.name, output.name)

    rewrite(package, swap)


# Of each, the operations at which the fault first shows.
MUTATIONS = [
    (one_weight, {"stack", "lstm", "select", "slice_by_index"}),
    (gate_order, {"stack", "lstm", "select", "slice_by_index"}),
    (preserve, {"select"}),
    (outputs, {"select"}),
]


def test_control(fused, source, tmp_path):
    report = check(copied(fused, tmp_path), source)
    assert report.ok and report.functions[0].divergence is None
    assert [f.level for f in report.findings] == ["note"]  # lstm


@pytest.mark.parametrize(("mutate", "types"), MUTATIONS, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize("golden", [True, False], ids=["vectors", "model"])
def test_mutation_is_caught_and_its_operation_named(fused, source, tmp_path, mutate, types, golden):
    package = copied(fused, tmp_path, golden)
    mutate(package)
    report = check(package, None if golden else source)
    assert not report.ok
    divergence = report.functions[0].divergence
    assert divergence.type in types, str(divergence)
    # Far beyond what rounding does: the limit is 1e-4, and a sound package is within 2e-5.
    assert divergence.diff.error > 10 * divergence.diff.limit
    assert report.failures[0].startswith(f"first divergence: {divergence.operation}")
    assert report.proven()[0] == "Proven: the package is not what it should be; see above."
    if golden:
        assert any("made for the package of digest" in f for f in report.failures)


def test_truncated_weights(fused, source, tmp_path):
    package = copied(fused, tmp_path)
    data = weight_file(package).read_bytes()
    weight_file(package).write_bytes(data[: len(data) // 2])
    with pytest.raises(CoreMLError, match="is cut short"):
        check(package, source)


def with_blank(package, blank):
    contract = dataclasses.replace(open_package(package).contract, blank=blank)
    text = {METADATA_KEY: to_json(contract)}
    rewrite(package, lambda spec: spec.description.metadata.userDefined.update(text))


def test_wrong_blank_in_the_metadata_is_told_by_the_program_itself(fused, tmp_path):
    package = copied(fused, tmp_path, golden=False)
    with_blank(package, 0)
    (failure,) = check(package).failures
    assert "reads blank's score from class 32, the metadata say 0" in failure


@pytest.mark.parametrize("kind", ["predictor", "joint"])
def test_wrong_blank_is_told_by_the_vectors_and_by_the_model(source, tmp_path, kind):
    """A predictor and a joint of logits have no blank in their program."""
    arm = Arm(beam=2, tail="logits")
    exported = export(source, kind, tmp_path / "there", arm).package
    package = copied(exported, tmp_path)
    with_blank(package, 31)
    failures = check(package).failures
    assert any("the vectors say blank 32, the package 31" in f for f in failures)
    alone = copied(exported, tmp_path / "alone", golden=False)
    with_blank(alone, 31)
    assert any("its blank is 32, the metadata say 31" in f for f in check(alone, source).failures)


def test_another_model_is_told(fused):
    report = check(fused, Source("other", small_source(2).model))
    assert any("the package was made of small-1" in failure for failure in report.failures)
    assert report.functions[0].divergence is not None


class Tail(torch.nn.Module):
    """Logits to log-probabilities, as torch says it and as the exports spell it."""

    def __init__(self, spelt):
        super().__init__()
        self.spelt = spelt

    def forward(self, x):
        if not self.spelt:
            return torch.log_softmax(x, -1)
        shifted = x - x.amax(-1, keepdim=True)
        return shifted - torch.log(shifted.exp().sum(-1, keepdim=True))


def tail(spelt, folder, half):
    port = [ct.TensorType(name="x", shape=(2, 64), dtype=np.float32)]
    out = [ct.TensorType(name="y", dtype=np.float32)]
    path = folder / f"{spelt}-{half}.mlpackage"
    return open_package(saved(converted(Tail(spelt), port, out, half), path))


def test_softmax_then_log_in_float16_loses_the_blank(tmp_path):
    """Blank's log-probability is -30: below e-17 float16 has only zero, and log(0) follows."""
    logits = np.zeros((2, 64), np.float32)
    logits[:, 0], logits[:, -1] = 30.0, 0.5
    expected = torch.log_softmax(torch.from_numpy(logits).double(), -1).numpy()
    lost, kept = tail(False, tmp_path, True), tail(True, tmp_path, True)
    assert {f.rule for f in check(lost.path).findings if f.level == "error"} == {"softmax then log"}
    assert not check(lost.path).ok and check(kept.path).ok
    for package, sound in ((lost, False), (kept, True)):
        report = emulate(package, "main", {"x": logits})
        from vrt.coreml.interpret import Interpreter

        off = np.abs(Interpreter(package).predict({"x": logits})["y"] - expected).max()
        # float16 keeps 11 bits of numbers up to 32: 0.016; log(1e-45), the converter's, is -103.
        assert (off < 0.02) == sound and (off > 50) != sound
        assert bool([r for r in report.ranges if r.log_of_zero]) != sound


def test_float32_package_tells_beforehand_what_float16_would_do(tmp_path):
    logits = np.zeros((2, 64), np.float32)
    logits[:, 0] = 30.0
    report = emulate(tail(False, tmp_path, False), "main", {"x": logits})
    (log,) = [r for r in report.ranges if r.type == "log"]
    assert log.log_of_zero == 63 / 64 and report.drift["y"] > 50
    assert not emulate(tail(True, tmp_path, False), "main", {"x": logits}).harmful
