"""Small packages for the tests of vrt.coreml, and ways to change one that is on the disk."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from vrt.rnnt.model import Transducer, TransducerConfig

CONFIG = TransducerConfig(
    vocab=33, encoder_width=24, predictor_width=32, predictor_layers=2, joint_width=40
)


def need_coremltools():
    return pytest.importorskip(
        "coremltools", reason="coremltools is not installed: pip install 'vrt[coreml]'"
    )


def small_source(seed=1):
    from vrt.coreml.sources import Source

    return Source(f"small-{seed}", Transducer.random(CONFIG, seed))


def converted(module, inputs, outputs=None, half=False, target="iOS17", states=None):
    """A module of torch as a program; `inputs` are coremltools' types."""
    from vrt.coreml.toolbox import quiet, toolbox

    tools = toolbox()
    shapes = [tuple(getattr(i.shape, "default", i.shape.shape)) for i in inputs]
    kinds = [torch.int32 if i.dtype is not None and "int" in str(i.dtype) else None for i in inputs]
    given = tuple(torch.zeros(s, dtype=k) for s, k in zip(shapes, kinds, strict=True))
    with quiet():
        traced = torch.jit.trace(module.eval(), given, check_trace=False)
        return tools.convert(
            traced,
            convert_to="mlprogram",
            inputs=inputs,
            outputs=outputs,
            states=states,
            compute_precision=tools.precision.FLOAT16 if half else tools.precision.FLOAT32,
            minimum_deployment_target=getattr(tools.target, target),
            skip_model_load=True,
        )


def saved(program, path):
    from vrt.coreml.toolbox import quiet

    with quiet():
        program.save(str(path))
    return path


def copied(package: Path, folder: Path, golden=True) -> Path:
    """The package, and the vectors beside it, somewhere else."""
    from vrt.coreml.golden_vectors import beside

    target = folder / package.name
    shutil.copytree(package, target)
    if golden:
        shutil.copy(beside(package), beside(target))
    return target


def model_file(package: Path) -> Path:
    return package / "Data" / "com.apple.CoreML" / "model.mlmodel"


def weight_file(package: Path) -> Path:
    return package / "Data" / "com.apple.CoreML" / "weights" / "weight.bin"


def rewrite(package: Path, change) -> None:
    """`change` gets the protobuf; it must change something."""
    from vrt.coreml.package import open_package

    spec = open_package(package).spec
    before = spec.SerializeToString(deterministic=True)
    change(spec)
    after = spec.SerializeToString(deterministic=True)
    assert after != before, "the mutation changed nothing"
    model_file(package).write_bytes(after)


def operations(spec, kind, function="main"):
    (block,) = spec.mlProgram.functions[function].block_specializations.values()
    return [op for op in block.operations if op.type == kind]


def blob_at(package: Path, name: str):
    """Writable numbers (float32) of a constant in the weight file, and how to write them back."""
    from vrt.coreml.package import open_package
    from vrt.coreml.program import Blob

    function = open_package(package).function("main")
    blob = function.producer(name).inputs["val"]
    assert isinstance(blob, Blob) and blob.type.dtype == "float32"
    data = bytearray(weight_file(package).read_bytes())
    start = int.from_bytes(data[blob.offset + 16 : blob.offset + 24], "little")
    size = 4 * blob.type.size
    values = np.frombuffer(bytes(data[start : start + size]), np.float32).reshape(blob.type.shape)

    def write(changed):
        assert not np.array_equal(changed, values), "the mutation changed nothing"
        data[start : start + size] = changed.astype(np.float32).tobytes()
        weight_file(package).write_bytes(bytes(data))

    return values.copy(), write
