"""One answer against another: outputs by name, within limits, ids only where they are decided.

A limit holds for answers up to `LOUD` in magnitude and grows with those beyond: float32 keeps seven
digits, not seven places.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from vrt.coreml.golden_vectors import FP32_TOLERANCE, GAP, Arrays, Step, Tolerance

LOUD = 32.0
TOGETHER = {"scores", "blank_score"}  # of one row of logits, whose size tells what they may lose


@dataclass(frozen=True)
class OutputDiff:
    """One output. `error` is the largest absolute difference, of ids the largest gap of scores at
    one that differs; `limit` is what it may be."""

    name: str
    error: float
    limit: float
    first: str = ""  # where and what, of the worst

    @property
    def ok(self) -> bool:
        return self.error <= self.limit

    def __str__(self) -> str:
        verdict = "" if self.ok else f"  FAIL at {self.first}"
        return f"{self.name}: {self.error:.2g} of {self.limit:.2g}{verdict}"


def compare(
    step: Step, got: Mapping[str, ndarray], limits: Mapping[str, float]
) -> list[OutputDiff]:
    """Each output that torch answered, in its order."""
    return [
        _ids(name, got[name], expected, step.gaps.get(name), limits[name])
        if expected.dtype.kind in "iu"
        else _floats(name, got[name], expected, limits[name] * loudness(name, step.outputs))
        for name, expected in step.outputs.items()
    ]


def loudness(name: str, outputs: Arrays) -> float:
    """How many times `LOUD` the answer is, or 1."""
    names = TOGETHER & outputs.keys() if name in TOGETHER else {name}
    return max(1.0, *(magnitude(outputs[n]) / LOUD for n in names))


def magnitude(array: ndarray) -> float:
    """The largest finite one."""
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    return float(finite.max(initial=0.0))


def limits_of(
    outputs: Arrays, tolerances: Mapping[str, Tolerance], most: float
) -> dict[str, float]:
    """Each output's limit: of the golden vectors, else `most`; for ids what two scores that may
    drift by it can change places over."""
    others = {"f": most, "i": GAP if most <= FP32_TOLERANCE else 2 * most}
    return {
        name: tolerances[name].max_abs if name in tolerances else others[array.dtype.kind]
        for name, array in outputs.items()
    }


def worst(diffs: list[OutputDiff]) -> list[OutputDiff]:
    """Of several comparisons, that of each output which used most of its limit."""
    found: dict[str, OutputDiff] = {}
    for diff in diffs:
        old = found.get(diff.name)
        if old is None or diff.error * old.limit > old.error * diff.limit:
            found[diff.name] = diff
    return list(found.values())


def _floats(name: str, got: ndarray, expected: ndarray, limit: float) -> OutputDiff:
    if got.shape != expected.shape:
        return OutputDiff(name, np.inf, limit, f"shape {got.shape}, expected {expected.shape}")
    a, b = got.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        off = np.where(a == b, 0.0, np.abs(a - b))  # two infinities of one sign are equal
    off[np.isnan(off)] = np.inf
    if not off.size:
        return OutputDiff(name, 0.0, limit)
    place = np.unravel_index(off.argmax(), off.shape)
    where = f"{list(map(int, place))}, got {a[place]:.7g}, expected {b[place]:.7g}"
    return OutputDiff(name, float(off[place]), limit, where)


def _ids(
    name: str, got: ndarray, expected: ndarray, gaps: ndarray | None, limit: float
) -> OutputDiff:
    if got.shape != expected.shape:
        return OutputDiff(name, np.inf, limit, f"shape {got.shape}, expected {expected.shape}")
    gaps = np.full(expected.shape, np.inf) if gaps is None else gaps
    wrong = np.where(got != expected, gaps, 0.0)
    if not wrong.size:
        return OutputDiff(name, 0.0, limit)
    place = np.unravel_index(wrong.argmax(), wrong.shape)
    where = f"{list(map(int, place))}, got {got[place]}, expected {expected[place]}"
    return OutputDiff(name, float(wrong[place]), limit, where)
