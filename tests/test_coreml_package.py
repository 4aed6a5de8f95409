"""A package is read as it lies on the disk; what is none is named, with the way out."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from commands import run
from coreml_packages import (
    converted,
    copied,
    model_file,
    need_coremltools,
    operations,
    rewrite,
    saved,
    small_source,
    weight_file,
)

need_coremltools()

from vrt.coreml import golden_vectors  # noqa: E402
from vrt.coreml.arms import Arm  # noqa: E402
from vrt.coreml.blobs import read_blob  # noqa: E402
from vrt.coreml.check import check  # noqa: E402
from vrt.coreml.contract import METADATA_KEY, Contract, from_json, to_json  # noqa: E402
from vrt.coreml.digest import package_digest  # noqa: E402
from vrt.coreml.errors import CoreMLError  # noqa: E402
from vrt.coreml.export import export  # noqa: E402
from vrt.coreml.interpret import Interpreter  # noqa: E402
from vrt.coreml.package import open_package  # noqa: E402
from vrt.coreml.program import Blob  # noqa: E402
from vrt.coreml.types import TensorType  # noqa: E402


@pytest.fixture(scope="module")
def joint(tmp_path_factory):
    return export(small_source(), "joint", tmp_path_factory.mktemp("joint"), Arm(beam=4)).package


@pytest.fixture(scope="module")
def storage():
    from coremltools import libmilstoragepython

    return libmilstoragepython


WIDTHS = {
    "float16": 16, "float32": 32, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32,
    "uint32": 32, "int4": 4, "uint1": 1, "uint2": 2, "uint3": 3, "uint4": 4, "uint6": 6,
}  # fmt: skip


@pytest.mark.parametrize("dtype", WIDTHS)
def test_blob_reader_reads_what_apples_writer_wrote(storage, tmp_path, dtype):
    random = np.random.default_rng(WIDTHS[dtype])
    arrays = [drawn(random, dtype, size) for size in (16, 24, 1000)]
    path = tmp_path / "weight.bin"
    writer = storage._BlobStorageWriter(str(path))
    write = getattr(writer, f"write_{WRITERS.get(dtype, dtype)}_data")
    # An odd neighbour before each, so that offsets are not all alike.
    offsets = []
    for array in arrays:
        writer.write_uint8_data(np.arange(7, dtype=np.uint8))
        raw = array.view(np.uint16) if dtype == "float16" else array
        offsets.append(write(packable(raw, dtype)))
    del writer
    for offset, array in zip(offsets, arrays, strict=True):
        got = read_blob(path, offset, TensorType(dtype, (2, array.size // 2)))
        assert got.dtype == array.dtype
        np.testing.assert_array_equal(got.reshape(-1), array)


WRITERS = {"float32": "float", "float16": "fp16"}


def drawn(random, dtype, size):
    if dtype.startswith("float"):
        return random.standard_normal(size).astype(dtype)
    bits = WIDTHS[dtype]
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if dtype[0] == "i" else (0, 2**bits)
    held = dtype if bits >= 8 else "int8" if dtype[0] == "i" else "uint8"
    return random.integers(low, high, size).astype(held)


def packable(array, dtype):
    """coremltools marks numbers of less than a byte by a type of their own."""
    if WIDTHS[dtype] >= 8:
        return array
    from coremltools.converters.mil.mil import types

    return array.astype(types.nptype_from_builtin(types.string_to_builtin(dtype)))


def test_every_weight_of_a_package_is_what_apples_reader_reads(storage, joint):
    reader = storage._BlobStorageReader(str(weight_file(joint)))
    blobs = [
        argument
        for op in open_package(joint).function("main").operations
        for argument in op.inputs.values()
        if isinstance(argument, Blob)
    ]
    assert len(blobs) == 2  # the output layer's weight and bias
    for blob in blobs:
        expected = np.asarray(reader.read_float_data(blob.offset))
        np.testing.assert_array_equal(blob.read().reshape(-1), expected)


def test_two_exports_of_a_model_have_one_digest(joint, tmp_path):
    again = export(small_source(), "joint", tmp_path / "again", Arm(beam=4)).package
    other = export(small_source(2), "joint", tmp_path / "other", Arm(beam=4)).package
    manifests = {(p / "Manifest.json").read_text() for p in (joint, again)}
    assert len(manifests) == 2  # so the folder's bytes are not the digest
    assert package_digest(open_package(joint)) == package_digest(open_package(again))
    assert package_digest(open_package(joint)) != package_digest(open_package(other))


def test_digest_counts_one_bit_of_a_weight_and_one_letter_of_the_metadata(joint, tmp_path):
    before = package_digest(open_package(joint))
    first = copied(joint, tmp_path / "weight")
    data = bytearray(weight_file(first).read_bytes())
    data[-1] ^= 1
    weight_file(first).write_bytes(data)
    second = copied(joint, tmp_path / "metadata")
    rewrite(second, lambda spec: spec.description.metadata.userDefined.update({"vrt": "x"}))
    found = {before, *(package_digest(open_package(p)) for p in (first, second))}
    assert len(found) == 3


def test_the_day_of_conversion_is_no_part_of_the_digest(joint, tmp_path):
    later = copied(joint, tmp_path)
    day = {"com.github.apple.coremltools.conversion_date": "2001-01-01"}
    rewrite(later, lambda spec: spec.description.metadata.userDefined.update(day))
    assert package_digest(open_package(later)) == package_digest(open_package(joint))


def test_contract_survives_json(joint):
    contract = open_package(joint).contract
    assert isinstance(contract, Contract) and from_json(to_json(contract)) == contract
    assert (contract.blank, contract.sizes["V"], contract.kind) == (32, 33, "joint")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"format": 2}, "has format 2, this vrt reads 1"),
        ({"kind": "encoder"}, "name the kind 'encoder'; known are predictor"),
        ({"precision": "fp8"}, "name the precision 'fp8'; known are fp32, fp16-body"),
        ({"sizes": {"V": "33"}}, "give no sizes"),
        ({"blank": None}, "names blank None of V 33"),
        ({"blank": 33}, "names blank 33 of V 33"),
        ({"functions": []}, "lists no function"),
        ({"functions": [{}]}, "is incomplete"),
        ({"colour": "red"}, "is incomplete"),
    ],
)
def test_contract_that_is_none_is_refused(joint, change, why):
    values = json.loads(to_json(open_package(joint).contract)) | change
    with pytest.raises(CoreMLError, match=why):
        from_json(json.dumps(values))


def test_golden_vectors_keep_every_number(joint, tmp_path):
    golden = golden_vectors.read(golden_vectors.beside(joint))
    hard = np.array([[1e-45, -np.inf, np.nan], [np.inf, 0.1, 16777217]], np.float32)
    whole = np.array([2**31 - 1, -(2**31)], np.int32)
    step = golden_vectors.Step({"x": hard}, {"y": whole, "z": hard[:, :2].astype(np.float16)})
    cases = (golden_vectors.Case("hard", "main", (step,)),)
    written = golden_vectors.GoldenVectors(
        golden.contract, "d", {"name": "torch"}, golden.tolerances, cases
    )
    golden_vectors.write(tmp_path / "a.json", written)
    (read,) = golden_vectors.read(tmp_path / "a.json").cases[0].steps
    for a, b in ((read.inputs, step.inputs), (read.outputs, step.outputs)):
        for name in b:
            assert a[name].dtype == b[name].dtype
            np.testing.assert_array_equal(a[name], b[name])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', "[" * 100_000, '{"format": 2}'])
def test_golden_vectors_that_are_none_are_refused(tmp_path, text):
    (tmp_path / "a.golden.json").write_text(text)
    with pytest.raises(CoreMLError, match=r"a\.golden\.json"):
        golden_vectors.read(tmp_path / "a.golden.json")


def removed(file):
    return lambda package: file(package).unlink()


def holding(file, content):
    """`content` is bytes, or what to make of those that are there."""

    def change(package):
        before = file(package).read_bytes()
        after = content if isinstance(content, bytes) else content(before)
        assert after != before
        file(package).write_bytes(after)

    return change


def manifest(package):
    return package / "Manifest.json"


def renamed(package):
    return package.rename(package.with_suffix(".mlmodelc"))


def exported_for_another(package):
    path = package.with_suffix(".onnx")
    path.write_bytes(b"x")
    return path


def with_opset(package):
    rewrite(package, lambda spec: setattr(spec.mlProgram.functions["main"], "opset", "CoreML5"))


OUTSIDE = {
    "itemInfoEntries": {"x": {"path": "../../../etc/hostname"}},
    "rootModelIdentifier": "x",
}
NOWHERE = {"itemInfoEntries": {}, "rootModelIdentifier": "x"}


def neural_network(path):
    import coremltools
    from coremltools.models import datatypes
    from coremltools.models.neural_network import NeuralNetworkBuilder

    array = datatypes.Array(3)
    builder = NeuralNetworkBuilder([("x", array)], [("y", array)])
    builder.add_activation("relu", "RELU", "x", "y")
    coremltools.models.utils.save_spec(builder.spec, str(path))
    return path


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (shutil.rmtree, "is not there; `vrt coreml export` makes packages"),
        (removed(manifest), "holds no Manifest.json: it is no .mlpackage, or a part of one"),
        (holding(manifest, b"{"), "names no model .*; copy the package again"),
        (holding(manifest, json.dumps(NOWHERE).encode()), "names no model .*; copy the package"),
        (holding(manifest, json.dumps(OUTSIDE).encode()), "which is not in the package"),
        (removed(model_file), "which is not in the package; copy it again"),
        (holding(model_file, lambda data: data[:-40]), "no Core ML specification, or cut short"),
        (holding(model_file, b""), "is empty, or no Core ML specification"),
        (
            lambda package: rewrite(
                package, lambda spec: setattr(spec, "specificationVersion", 10)
            ),
            "specification version 10, newer than 9 .*export it for iOS17 or iOS18",
        ),
        (with_opset, "the operations of CoreML5; known are CoreML7 .iOS17., CoreML8"),
        (renamed, "is compiled for one device; check the .mlpackage"),
        (exported_for_another, "is a file; a package is a folder NAME.mlpackage"),
        (
            lambda package: neural_network(package.with_suffix(".mlmodel")),
            'is a neuralNetwork, no ML Program; .* convert_to="mlprogram"',
        ),
    ],
)
def test_what_is_no_package_is_named_with_the_way_out(joint, tmp_path, change, why):
    package = copied(joint, tmp_path, golden=False)
    with pytest.raises(CoreMLError, match=why):
        check(change(package) or package)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: data[:40], "is cut short: 40 bytes"),
        (lambda data: data[:2000], "is cut short: 2000 bytes"),
        (lambda data: data[:-8], "is cut short"),
        (lambda data: b"", "cannot be read"),
        (lambda data: data[:4] + b"\x03" + data[5:], "blob version 3, known is 2"),
        (lambda data: data[:64] + bytes(64) + data[128:], "has no array at 64"),
        (lambda data: data[:68] + b"\x01" + data[69:], "of float16 at 64, the program says"),
        (lambda data: data[:72] + b"\x10" + data[73:], "holds .* bytes of float32 at 64"),
    ],
)
def test_weights_that_are_damaged_are_named(joint, tmp_path, change, why):
    package = copied(joint, tmp_path)
    data = weight_file(package).read_bytes()
    assert change(data) != data
    weight_file(package).write_bytes(change(data))
    with pytest.raises(CoreMLError, match=why):
        check(package)


def test_no_bytes_bring_a_traceback(joint, tmp_path):
    """Flipped bits in the program: an error by name, or a package that fails its vectors."""
    package = copied(joint, tmp_path)
    whole = model_file(package).read_bytes()
    random = np.random.default_rng(0)
    sound = 0
    for _ in range(60):
        data = bytearray(whole)
        for at in random.integers(0, len(data), random.integers(1, 4)):
            data[at] ^= 1 << random.integers(8)
        model_file(package).write_bytes(bytes(data))
        try:
            sound += check(package).ok
        except CoreMLError as error:
            assert str(error)
    assert sound <= 3  # a bit of a word that nobody reads, as the day of conversion


def test_missing_weights_are_named(joint, tmp_path):
    package = copied(joint, tmp_path)
    weight_file(package).unlink()
    with pytest.raises(CoreMLError, match=r"weight.bin: the weights cannot be read"):
        check(package)


def test_weights_outside_the_package_are_refused(joint, tmp_path):
    def elsewhere(spec):
        for op in operations(spec, "const"):
            if op.attributes["val"].HasField("blobFileValue"):
                op.attributes["val"].blobFileValue.fileName = "@model_path/../../../../weight.bin"

    package = copied(joint, tmp_path)
    rewrite(package, elsewhere)
    with pytest.raises(CoreMLError, match="which is not in the package"):
        check(package)


def test_a_package_of_someone_else_runs_but_proves_nothing(tmp_path):
    import coremltools as ct
    import torch

    port = ct.TensorType(name="x", shape=(2, 3), dtype=np.float32)
    out = [ct.TensorType(name="y", dtype=np.float32)]
    package = saved(converted(torch.nn.Tanh(), [port], out), tmp_path / "theirs.mlpackage")
    report = check(package)
    assert report.ok and report.kind == "no package of vrt"
    assert report.proven()[0].startswith("Proven: nothing")
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    got = Interpreter(open_package(package)).predict({"x": x})
    np.testing.assert_allclose(got["y"], np.tanh(x), rtol=1e-6)  # one function of numpy


WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "coremltools":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from vrt.cli import main
sys.argv = ["vrt", "coreml", "check", sys.argv[1]]
main()
"""


def test_without_coremltools_one_line_says_what_to_install(joint):
    command = [sys.executable, "-c", WITHOUT, str(joint)]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    assert child.returncode == 1
    assert "need coremltools: pip install 'vrt[coreml]'" in child.stdout + child.stderr
    assert "Traceback" not in child.stderr


def test_reading_a_package_says_nothing_on_the_screen(joint):
    code = "import sys; from vrt.coreml.package import open_package; open_package(sys.argv[1])"
    command = [sys.executable, "-c", code, str(joint)]
    child = subprocess.run(command, capture_output=True, text=True, check=True)
    assert child.stdout + child.stderr == ""


def test_metadata_are_under_the_key_that_hosts_know(joint):
    assert METADATA_KEY == "vrt" and METADATA_KEY in open_package(joint).metadata


def test_command_says_what_is_proven(joint):
    result = run("coreml", "check", str(joint))
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "ok joint-k4.mlpackage"
    assert lines[-2].startswith("Proven: on these 3 calls the program and the weights on the disk")
    assert lines[-1].startswith("Not proven: anything of Apple's kernels, placement or speed")


def test_command_goes_on_after_a_package_that_fails(joint, tmp_path):
    package = copied(joint, tmp_path / "cut")
    weight_file(package).write_bytes(weight_file(package).read_bytes()[:-8])
    names = [str(tmp_path / "nothing.mlpackage"), str(package), str(joint)]
    result = run("coreml", "check", *names, "--json")
    assert result.exit_code == 1
    reports = [json.loads(line) for line in result.stdout.splitlines()]
    assert [r["ok"] for r in reports] == [False, False, True]
    assert "is not there" in reports[0]["error"] and "cut short" in reports[1]["error"]
    assert reports[2]["proven"] and reports[2]["functions"][0]["replays"][0]["calls"] == 3
