"""Inputs with the answers of torch, in JSON beside a package: a host replays them without Python.

`NAME.golden.json` stands beside `NAME.mlpackage`:

    {"format": 1, "package_digest": "...", "oracle": {"name": "torch", "version": "2.13.0"},
     "contract": {... as in the package's metadata ...},
     "tolerances": {"scores": {"max_abs": 1e-4, "measured": 6.9e-6, "cause": "..."}},
     "cases": [{"name": "random-0", "function": "main", "steps": [
        {"inputs":  {"frames": {"dtype": "float32", "shape": [8, 640], "values": [...]}},
         "outputs": {"scores": {...}, "ids": {...}},
         "gaps":    {"ids": {...}}}]}]}

Values are in row-major order; numbers that JSON does not have are "inf", "-inf", "nan". The steps
of a case follow one another on one fresh state (MLState); a package without state has one step a
case. Every float output has a tolerance. An integer output must be equal wherever its `gaps` (the
distance of its class's score to that of the nearest other class, in torch) exceeds `GAP`; without
`gaps` it must be equal everywhere.
"""

import json
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from vrt.coreml.contract import Contract, from_json, to_json
from vrt.coreml.errors import CoreMLError

FORMAT = 1
GAP = 1e-4  # of log-probability: classes closer than this may change places
FP32_TOLERANCE = 1e-4  # the most that a float32 package without state may ask for

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Tolerance:
    """Largest absolute difference allowed, the one that was measured, and where it comes from."""

    max_abs: float
    measured: float
    cause: str


@dataclass(frozen=True)
class Step:
    """One call: inputs, what torch answers, and the gaps of its integer outputs."""

    inputs: Arrays
    outputs: Arrays
    gaps: Arrays = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """Calls in a row, on one fresh state."""

    name: str
    function: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class GoldenVectors:
    """All that `NAME.golden.json` holds; `oracle` names who answered."""

    contract: Contract
    package_digest: str
    oracle: dict[str, str]
    tolerances: dict[str, Tolerance]
    cases: tuple[Case, ...]


def beside(package: str | PathLike[str]) -> Path:
    """Where the golden vectors of a package are."""
    package = Path(package)
    return package.with_name(f"{package.stem}.golden.json")


def write(path: str | PathLike[str], golden: GoldenVectors) -> None:
    """Equal vectors give equal bytes."""
    document = {
        "format": FORMAT,
        "package_digest": golden.package_digest,
        "oracle": golden.oracle,
        "contract": json.loads(to_json(golden.contract)),
        "tolerances": {name: asdict(t) for name, t in golden.tolerances.items()},
        "cases": [_case_json(case) for case in golden.cases],
    }
    text = json.dumps(document, sort_keys=True, allow_nan=False)
    Path(path).write_text(text + "\n", encoding="utf-8")


def read(path: str | PathLike[str]) -> GoldenVectors:
    """Raises `CoreMLError` for a file that is no golden vectors, `OSError` where there is none."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise CoreMLError(f"{path} is no JSON ({error}); export the package again") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise CoreMLError(f"{path} is no golden vectors of format {FORMAT}; export again")
    try:
        return GoldenVectors(
            contract=from_json(json.dumps(document["contract"])),
            package_digest=document["package_digest"],
            oracle=document["oracle"],
            tolerances={n: Tolerance(**t) for n, t in document["tolerances"].items()},
            cases=tuple(_case(case) for case in document["cases"]),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CoreMLError(
            f"{path} is damaged: {type(error).__name__} {error}; export the package again"
        ) from None


def _case_json(case: Case) -> dict[str, Any]:
    steps = [
        {part: _tensors_json(getattr(step, part)) for part in ("inputs", "outputs", "gaps")}
        for step in case.steps
    ]
    return {"name": case.name, "function": case.function, "steps": steps}


def _case(values: dict[str, Any]) -> Case:
    steps = tuple(
        Step(_tensors(s["inputs"]), _tensors(s["outputs"]), _tensors(s.get("gaps", {})))
        for s in values["steps"]
    )
    return Case(values["name"], values["function"], steps)


def _tensors_json(arrays: Arrays) -> dict[str, Any]:
    return {name: _tensor_json(array) for name, array in arrays.items()}


def _tensor_json(array: np.ndarray) -> dict[str, Any]:
    values = array.reshape(-1).tolist()
    if array.dtype.kind == "f":
        # The shortest decimal that reads back to the same float32 or float16.
        short = [float(np.format_float_scientific(x)) for x in array.reshape(-1)]
        values = [x if np.isfinite(x) else str(x) for x in short]
    return {"dtype": array.dtype.name, "shape": list(array.shape), "values": values}


def _tensors(values: dict[str, Any]) -> Arrays:
    return {name: _tensor(tensor) for name, tensor in values.items()}


def _tensor(values: dict[str, Any]) -> np.ndarray:
    array = np.array([float(x) for x in values["values"]], dtype=np.float64)
    return array.astype(values["dtype"]).reshape(values["shape"])
