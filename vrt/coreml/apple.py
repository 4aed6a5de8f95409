"""Core ML itself, where there is one: packages loaded and asked on this Mac."""

import platform
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vrt.coreml.comparing import compare, worst
from vrt.coreml.errors import CoreMLError
from vrt.coreml.golden_vectors import Case, Step
from vrt.coreml.interpret import Interpreter
from vrt.coreml.package import Package
from vrt.coreml.replay import Failure, Limits, Replay
from vrt.coreml.scorer import Runner
from vrt.coreml.toolbox import toolbox

NOT_LOADED = "You will not be able to run predict"  # how coremltools warns of a load that failed

Begin = Callable[[], Runner]  # a fresh state, where the function has one


def load(package: Package, function: str, unit: str = "CPU_ONLY") -> Begin:
    """Compile and load a function; `unit` is the name of a `coremltools.ComputeUnit`.

    Raises:
        CoreMLError: this is no Mac, or Core ML refuses the package.
    """
    _refuse_other_systems()
    tools = toolbox()
    with _asked(f"cannot load {package.path.name}"):
        warnings.filterwarnings("error", message=NOT_LOADED)
        model = tools.models.MLModel(
            str(package.path),
            compute_units=tools.ComputeUnit[unit],
            function_name=_name(package, function),
        )
        model.get_compiled_model_path()  # raises where the system is too old for the package
    return _begin(model, package, function)


def compile_package(package: Package, compiled: Path) -> None:
    """Into a folder `NAME.mlmodelc`, which must not be there yet. Raises as `load`."""
    _refuse_other_systems()
    with _asked(f"cannot compile {package.path.name}"):
        toolbox().models.utils.compile_model(str(package.path), str(compiled))


def load_compiled(compiled: Path, package: Package, function: str, unit: str) -> Begin:
    """Load a function of what `compile_package` made. Raises as `load`."""
    _refuse_other_systems()
    tools = toolbox()
    with _asked(f"cannot load {package.path.name} on {unit}"):
        model = tools.models.CompiledMLModel(
            str(compiled),
            compute_units=tools.ComputeUnit[unit],
            function_name=_name(package, function),
        )
    return _begin(model, package, function)


def on_this_mac(package: Package, name: str, cases: list[Case], limits: Limits) -> Replay:
    """Against the interpreter, which rounds as the program declares. macOS only."""
    begin, runner = load(package, name), Interpreter(package, name)
    diffs, failures, calls = [], [], 0
    for case in cases:
        state, theirs = runner.make_state(), begin()
        for index, step in enumerate(case.steps):
            ours = Step(step.inputs, runner.predict(step.inputs, state), step.gaps)
            found = compare(ours, theirs(step.inputs), limits.of_step(ours))
            diffs += found
            failures += [Failure(case, index, diff) for diff in found if not diff.ok]
            calls += 1
    return Replay("Core ML on this Mac's CPU", calls, tuple(worst(diffs)), tuple(failures))


def _begin(model: Any, package: Package, function: str) -> Begin:
    """`model` is an MLModel or a CompiledMLModel."""
    stateful = any(type.state for type in package.function(function).inputs.values())

    def begin() -> Runner:
        with _asked("cannot keep a state"):
            state = model.make_state() if stateful else None

        def call(feeds: dict) -> dict:
            with _asked(f"cannot run {package.path.name}"):
                return model.predict(dict(feeds), state)  # coremltools writes into the dict

        return call

    return begin


def _name(package: Package, function: str) -> str | None:
    """None where there is one function only: a package that is no multifunction takes no name."""
    return function if len(package.functions) > 1 else None


def _refuse_other_systems() -> None:
    if platform.system() != "Darwin":
        raise CoreMLError(
            f"Core ML runs on macOS, this is {platform.system()}; use the interpreter here"
        )


@contextmanager
def _asked(what: str) -> Iterator[None]:
    """coremltools raises bare `Exception`s, and only warns where Core ML refused a model."""
    with warnings.catch_warnings():
        try:
            yield
        except Exception as error:
            raise CoreMLError(f"Core ML on this Mac {what}: {error}") from error
