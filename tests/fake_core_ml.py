"""Apple's half of coremltools, played by the interpreter: the only stand-in, at the lowest place.

All of coremltools' own Python runs for real (MLModel, CompiledMLModel, compile_model, the classes
of a compute plan). What is played is `_MLModelProxy`, the binding to Core ML.framework, whose
calls and arguments are those of coremlpython/CoreMLPython.mm. So it shows that vrt calls
coremltools as coremltools wants to be called; it shows nothing of Core ML.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import numpy as np

from vrt.coreml import apple
from vrt.coreml.interpret import Interpreter
from vrt.coreml.package import open_package


class Proxy:
    """`_MLModelProxy`. `asked` has the arguments of every one that was made."""

    asked: ClassVar[list] = []
    refuses: str = ""  # what Core ML says in place of loading
    breaks: str = ""  # and in place of a prediction
    newest = 9  # specification version
    off = 0.0  # added to every float output: other kernels than the interpreter's

    def __init__(self, path, unit, function, hints, asset):
        self.asked.append((path, unit, function))
        if self.refuses:
            raise RuntimeError(self.refuses)
        self.path = path
        package = open_package(path if path.endswith(".mlpackage") else Path(path) / "m.mlpackage")
        self.runner = Interpreter(package, function or "main")

    @classmethod
    def maximum_supported_specification_version(cls):
        return cls.newest

    @staticmethod
    def compileModel(path):
        folder = Path(tempfile.mkdtemp(suffix=".mlmodelc"))
        shutil.copytree(path, folder / "m.mlpackage")
        return str(folder)

    @classmethod
    def get_compute_plan(cls, path, unit):
        if not path.endswith(".mlmodelc"):
            raise SystemExit("Core ML aborts here")
        return Plan(open_package(Path(path) / "m.mlpackage"))

    def get_compiled_model_path(self):
        return f"{self.path}c"

    def newState(self):
        return self.runner.make_state()

    def predict(self, data, state):
        if self.breaks:
            raise RuntimeError(self.breaks)
        answers = self.runner.predict(data, state)
        data.clear()  # coremltools may write into what it is given
        return {
            n: a + np.float32(self.off) if a.dtype.kind == "f" else a for n, a in answers.items()
        }


class Plan:
    """A compute plan of coremltools' own classes: lstm and linear on the CPU, convolutions on the
    Neural Engine, nothing known of the rest."""

    def __init__(self, package):
        from coremltools.models import compute_device, compute_plan

        self.devices = {
            "lstm": compute_device.MLCPUComputeDevice,
            "linear": compute_device.MLCPUComputeDevice,
            "conv": compute_device.MLNeuralEngineComputeDevice,
        }
        self.usage, self.cost = (
            compute_plan.MLComputePlanDeviceUsage,
            compute_plan.MLComputePlanCost,
        )
        functions = {
            name: compute_plan.MLModelStructureProgramFunction(
                inputs=[],
                block=compute_plan.MLModelStructureProgramBlock(
                    inputs=[],
                    operations=[
                        compute_plan.MLModelStructureProgramOperation(
                            inputs={},
                            operator_name=op.type if op.type == "const" else f"ios17.{op.type}",
                            outputs=[],
                            blocks=[],
                            __proxy__=None,
                        )
                        for op in function.operations
                    ],
                    output_names=[],
                ),
            )
            for name, function in package.functions.items()
        }
        program = compute_plan.MLModelStructureProgram(functions=functions)
        self.model_structure = compute_plan.MLModelStructure(
            neuralnetwork=None, program=program, pipeline=None
        )

    def _device(self, operation):
        return self.devices.get(operation.operator_name.removeprefix("ios17."))

    def get_compute_device_usage_for_mlprogram_operation(self, operation):
        kind = self._device(operation)
        if kind is None:
            return None
        device = kind.__new__(kind)  # without the proxy that only a Mac has
        return self.usage(preferred_compute_device=device, supported_compute_devices=[device])

    def get_estimated_cost_for_mlprogram_operation(self, operation):
        return None if self._device(operation) is None else self.cost(weight=0.25)


def play(monkeypatch) -> type[Proxy]:
    """Until the test ends this machine has a Core ML; the class that plays it."""
    from coremltools.models import _compiled_model, compute_plan, model, utils

    proxy = type("Proxy", (Proxy,), {"asked": []})
    binding = ModuleType("coremltools.libcoremlpython")
    binding._MLModelProxy = proxy
    monkeypatch.setitem(sys.modules, "coremltools.libcoremlpython", binding)
    for module in (_compiled_model, compute_plan, model):
        monkeypatch.setattr(module, "_MLModelProxy", proxy)
    for module in (_compiled_model, model, utils):
        monkeypatch.setattr(module, "_macos_version", lambda: (15, 0))
    monkeypatch.setattr(model, "_is_macos", lambda: True)
    monkeypatch.setattr(apple, "platform", SimpleNamespace(system=lambda: "Darwin"))
    return proxy
