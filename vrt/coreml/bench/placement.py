"""On which hardware Core ML plans to run each operation, and what it thinks that they cost.

A plan is no measurement. Where Core ML says nothing of an operation it is `unknown`, not CPU: it
says nothing of constants, nor of any where the package's target is old.
"""

from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

from vrt.coreml.toolbox import toolbox

UNKNOWN = "unknown"
NAMES = {
    "MLCPUComputeDevice": "cpu",
    "MLGPUComputeDevice": "gpu",
    "MLNeuralEngineComputeDevice": "neural engine",
}
CONSTANT = "const"


def placement(compiled: Path, function: str, unit: str) -> dict[str, Any]:
    """Counts of operations by device, shares of cost, and the operations of each device by type.

    `compiled` must be a .mlmodelc: Core ML ends the process where it is a package (2757).
    """
    tools = toolbox()
    plans = import_module("coremltools.models.compute_plan")
    plan = plans.MLComputePlan.load_from_path(
        path=str(compiled), compute_units=tools.ComputeUnit[unit]
    )
    return counted(plan, function)


def counted(plan: Any, function: str) -> dict[str, Any]:
    """Of a coremltools `MLComputePlan`. Constants are left out: nothing runs them."""
    program = plan.model_structure.program
    if program is None or function not in program.functions:
        return {"operations": {}, "cost": {}, "types": {}}
    counts: Counter[str] = Counter()
    cost: Counter[str] = Counter()
    types: dict[str, Counter[str]] = {}
    for operation in program.functions[function].block.operations:
        kind = operation.operator_name.rpartition(".")[2]  # "ios17.conv"
        if kind == CONSTANT:
            continue
        device = _device(plan.get_compute_device_usage_for_mlprogram_operation(operation))
        weight = plan.get_estimated_cost_for_mlprogram_operation(operation)
        counts[device] += 1
        cost[device] += 0.0 if weight is None else weight.weight
        types.setdefault(device, Counter())[kind] += 1
    return {
        "operations": dict(counts),
        "cost": dict(cost),
        "types": {device: dict(found) for device, found in types.items()},
    }


def _device(usage: Any) -> str:
    if usage is None:
        return UNKNOWN
    return NAMES.get(type(usage.preferred_compute_device).__name__, UNKNOWN)
