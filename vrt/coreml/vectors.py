"""Golden vectors of an export: inputs drawn, torch's answers, and how far the saved package is.

The distance is measured with the interpreter on the package as it lies on the disk. FP32 is held
to a fixed limit, other arms to a multiple of what was measured; and none may drift so far that it
would be another model.
"""

from collections.abc import Iterator

import numpy as np
import torch

from vrt.coreml.arms import WITH_CACHE, WITH_TAIL
from vrt.coreml.comparing import OutputDiff, compare
from vrt.coreml.contract import Contract
from vrt.coreml.errors import CoreMLError
from vrt.coreml.golden_vectors import FP32_TOLERANCE, GAP, Arrays, Case, Step, Tolerance
from vrt.coreml.graphs import Graph
from vrt.coreml.interpret import Interpreter
from vrt.coreml.package import Package
from vrt.coreml.reference import Model, Reference, reference
from vrt.coreml.voxtral_host import CachedGraph

SEED = 0
LARGE = 100_000  # numbers a step: of more, one case is enough text
STREAM_STEPS = 3
LOUD = 8.0  # times a random input: peaked scores, with long negative tails
# What an arm may drift as a part of the largest answer (or of 1), and how much more than measured
# it may on a machine that rounds elsewhere: a palette is the same everywhere, FP16 sums are not.
MOST_FP16, MARGIN_FP16 = 0.02, 4.0
MOST_PALETTE, MARGIN_PALETTE = 0.5, 1.25

ORACLE = {"name": "torch", "version": torch.__version__}


def cases(graph: Graph, contract: Contract, function: str, model: Model) -> tuple[Case, ...]:
    """The same for the same model. A graph with keys and values is asked for steps of a stream."""
    random = np.random.default_rng(SEED)
    answer = reference(contract, function, model)
    if graph.kind in WITH_CACHE:
        steps = tuple(_stream(graph, contract, answer, random))
        if graph.states:
            return (Case("stream", function, steps),)
        return tuple(Case(f"step-{n}", function, (step,)) for n, step in enumerate(steps))
    found = [("random-0", graph.draw(random))]
    if sum(array.size for array in found[0][1].values()) <= LARGE:
        found.append(("random-1", graph.draw(random)))
    if graph.kind in WITH_TAIL:
        found.append(("loud", _loud(graph.draw(random))))
    return tuple(Case(name, function, (answer(feeds),)) for name, feeds in found)


def _stream(
    graph: Graph, contract: Contract, answer: Reference, random: np.random.Generator
) -> Iterator[Step]:
    """As a host makes them: real angles, and the cache that the steps before left."""
    host = CachedGraph(contract, lambda feeds: answer(feeds).outputs)
    for _ in range(STREAM_STEPS):
        step = answer(host.feeds(graph.draw(random)))
        host.took(step.outputs)
        yield step


def _loud(feeds: Arrays) -> Arrays:
    return {n: a * np.float32(LOUD) if a.dtype.kind == "f" else a for n, a in feeds.items()}


def tolerances(package: Package, cases: tuple[Case, ...]) -> dict[str, Tolerance]:
    """Limits of every output; those of whole numbers are gaps of scores.

    Raises:
        CoreMLError: the package does not compute what torch does.
    """
    contract = package.contract
    exact = (contract.precision, contract.palettize_bits) == ("fp32", None)
    exact = exact and contract.cache != "mlstate"
    plain = contract.palettize_bits is None
    most, margin = (MOST_FP16, MARGIN_FP16) if plain else (MOST_PALETTE, MARGIN_PALETTE)
    measured: dict[str, float] = {}
    ids: list[OutputDiff] = []
    for step, got in _answers(package, cases):
        scales = {name: float(np.abs(a).max()) for name, a in step.outputs.items()}
        limits = {n: FP32_TOLERANCE if exact else most * max(1.0, s) for n, s in scales.items()}
        for diff in compare(step, got, limits):
            if step.outputs[diff.name].dtype.kind == "i":
                ids.append(diff)
                continue
            _refuse(package, diff)
            measured[diff.name] = max(measured.get(diff.name, 0.0), diff.error)
    cause, margin = _cause(contract), 0.0 if exact else margin
    found = {n: Tolerance(max(FP32_TOLERANCE, margin * m), m, cause) for n, m in measured.items()}
    return found | _gaps(package, ids, GAP if exact or not ids else 2 * found["scores"].max_abs)


def _gaps(package: Package, ids: list[OutputDiff], limit: float) -> dict[str, Tolerance]:
    """Classes may change places where their scores are closer than both may drift."""
    for diff in ids:
        _refuse(package, OutputDiff(diff.name, diff.error, limit, diff.first))
    cause = "classes closer than this may change places"
    return {diff.name: Tolerance(limit, max(d.error for d in ids), cause) for diff in ids}


def _answers(
    package: Package, cases: tuple[Case, ...]
) -> Iterator[tuple[Step, dict[str, np.ndarray]]]:
    runners: dict[str, Interpreter] = {}
    for case in cases:
        if case.function not in runners:
            runners[case.function] = Interpreter(package, case.function)
        runner = runners[case.function]
        state = runner.make_state()
        for step in case.steps:
            yield step, runner.predict(step.inputs, state)


def _refuse(package: Package, diff: OutputDiff) -> None:
    if not diff.ok:
        raise CoreMLError(
            f"{package.path.name} does not compute what torch does: {diff}; the conversion went"
            " wrong, or FP16 is too narrow for this model (leave out --precision)"
        )


def _cause(contract: Contract) -> str:
    causes = ["order of sums in float32"]
    if contract.precision == "fp16-body":
        causes.append("weights and operations rounded to float16")
    if contract.palettize_bits is not None:
        causes.append(f"weights rounded to {2**contract.palettize_bits} values a tensor")
    if contract.cache == "mlstate":
        causes.append("keys and values kept in float16, as torch did too")
    return "; ".join(causes)
