"""A graph into a Core ML program: traced, converted, and compressed where asked."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, get_args

import numpy as np
import torch

from vrt.coreml.contract import Port, Precision
from vrt.coreml.errors import CoreMLError
from vrt.coreml.graphs import Graph
from vrt.coreml.toolbox import INSTALL, quiet, toolbox

Target = Literal["iOS17", "iOS18"]
PALETTE_BITS = (1, 2, 3, 4, 6, 8)
SMALLEST_PALETTIZED = 1024  # weights: a table of 64 entries for fewer saves nothing

Program = Any  # coremltools.models.MLModel; coremltools is not imported to name a type


def convert(
    graph: Graph,
    precision: Precision = "fp32",
    target: Target = "iOS17",
    palettize: int | None = None,
) -> Program:
    """The program of `graph`, in memory. Inputs and outputs stay FP32 and INT32 in every arm.

    `fp16-body` rounds weights and operations to FP16, but for the tail of the scores (log-softmax,
    top-K) and norms. `palettize` is bits a weight, by k-means, of encoder-side graphs only.

    Raises:
        CoreMLError: settings that no package can have, or a coremltools that cannot be used.
    """
    refuse(graph, precision, target, palettize)
    tools = toolbox()
    with quiet():
        program = tools.convert(
            _traced(graph),
            convert_to="mlprogram",
            inputs=[_tensor(port, shaped=True) for port in graph.inputs],
            outputs=[_tensor(port, shaped=False) for port in graph.outputs],
            states=[_state(port) for port in graph.states] or None,
            compute_precision=_precision(graph, precision),
            minimum_deployment_target=getattr(tools.target, target),
            pass_pipeline=_passes(),
            skip_model_load=True,
        )
        return program if palettize is None else _palettized(program, graph, palettize)


def refuse(graph: Graph, precision: str, target: str, palettize: int | None) -> None:
    """Raises `CoreMLError` for a setting that is not there, or not for this graph."""
    refuse_other("precision", precision, Precision)
    refuse_other("target", target, Target)
    if graph.states and target == "iOS17":
        raise CoreMLError("states that Core ML keeps (MLState) need --target iOS18")
    if palettize is None:
        return
    if palettize not in PALETTE_BITS:
        raise CoreMLError(f"{palettize} bits a weight: palettes have {_listed(PALETTE_BITS)}")
    if not graph.encoder_side:
        raise CoreMLError(
            f"palettes are for the encoder's weights; {graph.kind} is small and decides on tokens,"
            " so it stays as it is: leave out --palettize"
        )
    if find_spec("sklearn") is None:
        raise CoreMLError(f"palettes are found by scikit-learn, which is not there: {INSTALL}")


def refuse_other(name: str, value: str, choices: Any) -> None:
    """`choices` is a `Literal`."""
    if value not in get_args(choices):
        raise CoreMLError(f"{name} {value!r}: there is {' and '.join(get_args(choices))}")


def _traced(graph: Graph) -> torch.jit.ScriptModule:
    """Traced once: a check would run the module again, when its states have moved."""
    feeds = graph.draw(np.random.default_rng(0))
    given = tuple(torch.from_numpy(feeds[port.name]) for port in graph.inputs)
    graph.reset()
    with torch.no_grad():
        traced = torch.jit.trace(graph.module.eval(), given, check_trace=False)
    graph.reset()
    return traced


def _tensor(port: Port, shaped: bool) -> Any:
    shape = {"shape": port.shape} if shaped else {}
    return toolbox().TensorType(name=port.name, dtype=getattr(np, port.dtype), **shape)


def _state(port: Port) -> Any:
    tools = toolbox()
    kept = tools.TensorType(shape=port.shape, dtype=getattr(np, port.dtype))
    return tools.StateType(wrapped_type=kept, name=port.name)


def _precision(graph: Graph, precision: Precision) -> Any:
    tools = toolbox()
    if precision == "fp32":
        return tools.precision.FLOAT32
    return tools.transform.FP16ComputePrecision(op_selector=lambda op: not stays_wide(op, graph))


def _passes() -> Any:
    """Token ids stay 32 bits wide in every arm."""
    pipeline = toolbox().PassPipeline()
    pipeline.remove_passes({"common::add_int16_cast"})
    return pipeline


def stays_wide(op: Any, graph: Graph) -> bool:
    """Whether an operation of the program keeps FP32 in the arm fp16-body."""
    if op.op_type in graph.wide | graph.wide_from:
        return True
    if any(user.op_type in graph.wide for var in op.outputs for user in var.child_ops):
        return True
    return bool(graph.wide_from) and any(o.op_type in graph.wide_from for o in _before(op))


def _before(op: Any) -> list[Any]:
    """All operations that `op` depends on."""
    found: dict[int, Any] = {}
    waiting = [op]
    while waiting:
        for given in waiting.pop().inputs.values():
            for var in given if isinstance(given, list | tuple) else [given]:
                if var is not None and var.op is not None and id(var.op) not in found:
                    found[id(var.op)] = var.op
                    waiting.append(var.op)
    return list(found.values())


def _palettized(program: Program, graph: Graph, bits: int) -> Program:
    optimize = import_module("coremltools.optimize.coreml")
    settings = optimize.OpPalettizerConfig(
        mode="kmeans", nbits=bits, weight_threshold=SMALLEST_PALETTIZED
    )
    small = optimize.palettize_weights(program, optimize.OptimizationConfig(settings))
    kinds = [op.op_type for f in small._mil_program.functions.values() for op in f.operations]
    if "constexpr_lut_to_dense" not in kinds:
        raise CoreMLError(
            f"{graph.kind} has no weight of {SMALLEST_PALETTIZED} numbers or more, so there is"
            " nothing to palettize; leave out --palettize"
        )
    return small


def _listed(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values))
