"""The first operation whose result is not torch's.

An operation of a converted program has the name that its value has in the traced module. So torch
can be asked for every named value on the way, not only for the outputs; operations that the
converter made up have no such name and are passed over.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy import ndarray

from vrt.coreml.comparing import OutputDiff, compare
from vrt.coreml.golden_vectors import Step
from vrt.coreml.graphs import Graph
from vrt.coreml.interpret import Arguments, Interpreter
from vrt.coreml.package import Package
from vrt.coreml.program import Operation
from vrt.coreml.toolbox import quiet

HALF_SUFFIX = "_cast_fp16"


@dataclass(frozen=True)
class Divergence:
    """`before` is the last operation that agreed."""

    operation: str
    type: str
    diff: OutputDiff
    before: str

    def __str__(self) -> str:
        after = f"; {self.before} before it agrees" if self.before else ""
        return f"{self.operation} ({self.type}) at {self.diff.first}{after}"


def first_divergence(
    package: Package,
    function: str,
    steps: Sequence[Step],
    limit: float,
    graph: Graph | None = None,
) -> Divergence | None:
    """In the order of the program, in the last of `steps` from a fresh state.

    Without `graph` only outputs are known.
    """
    *before, step = steps
    known = dict(step.outputs)
    if graph is not None and not graph.states:
        known = torch_values(graph, step.inputs) | known
    found: list[Divergence] = []
    agreed = [""]

    def watch(op: Operation, _: Arguments, results: tuple[ndarray, ...]) -> None:
        for (name, _type), result in zip(op.outputs, results, strict=True):
            name = name.removesuffix(HALF_SUFFIX)
            expected = known.get(name)
            if expected is None or expected.shape != result.shape:
                continue
            (diff,) = compare(
                Step({}, {name: expected}, _gaps(step, name)), {name: result}, {name: limit}
            )
            if diff.ok:
                agreed[0] = name
            elif not found:
                found.append(Divergence(op.name, op.type, diff, agreed[0]))

    runner = Interpreter(package, function)
    state = runner.make_state()
    for earlier in before:
        runner.predict(earlier.inputs, state)
    runner.predict(step.inputs, state, watch)
    return found[0] if found else None


def _gaps(step: Step, name: str) -> dict[str, ndarray]:
    return {name: step.gaps[name]} if name in step.gaps else {}


@torch.no_grad()
def torch_values(graph: Graph, feeds: Mapping[str, ndarray]) -> dict[str, ndarray]:
    """Every value of the traced module, by the name that the converter gives it."""
    given = tuple(torch.from_numpy(np.array(feeds[port.name])) for port in graph.inputs)
    with quiet():
        traced = torch.jit.trace(graph.module.eval(), given, check_trace=False)
    jit = torch._C
    # The passes that the converter runs, so that values without a name get the same numbers.
    inner = traced.forward.graph
    jit._jit_pass_inline(inner)
    jit._jit_pass_inline_fork_wait(inner)
    jit._jit_pass_dce(inner)
    jit._jit_pass_canonicalize_graph_fuser_ops(inner)
    inner = jit._jit_pass_canonicalize(inner)
    before = len(list(inner.outputs()))
    names = []
    for node in inner.nodes():
        for value in node.outputs():
            tensor = value.type().isSubtypeOf(jit.TensorType.get())
            if tensor and node.kind() not in ("prim::GetAttr", "prim::Constant"):
                inner.registerOutput(value)
                names.append(_converted(value.debugName()))
    inner, weights = jit._jit_pass_lower_graph(inner, traced._c)
    inner.makeMultiOutputIntoTuple()
    values = jit._create_function_from_graph("values", inner)(*given, *weights)[before:]
    return {name: value.numpy() for name, value in zip(names, values, strict=True)}


def _converted(name: str) -> str:
    return f"var_{name}" if name[0].isdigit() else re.sub(r"\W", "_", name)
