"""What a program would lose if every result were kept in float16, operation by operation.

Each float result is rounded to float16 and computed on in float32: an approximation of every
kernel of Apple's, and equal to none. Overflow and underflow are arithmetic and hold for all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy import ndarray

from vrt.coreml.comparing import magnitude
from vrt.coreml.golden_vectors import Case
from vrt.coreml.interpret import Arguments, Interpreter, as_declared
from vrt.coreml.package import Package
from vrt.coreml.program import Operation
from vrt.coreml.types import TensorType

LARGEST = 65504.0


def as_float16(value: ndarray, type: TensorType) -> ndarray:
    """Rounded whatever the program declares."""
    return as_declared(value, TensorType("float16", type.shape))


@dataclass(frozen=True)
class OpRange:
    """One operation. `largest` is its largest finite magnitude in the program as declared.

    Shares are of its numbers: `lost` rounded to 0 that were not, `overflowed` became infinite,
    `log_of_zero` of a log's arguments that are 0.
    """

    name: str
    type: str
    largest: float
    lost: float
    overflowed: float
    log_of_zero: float

    @property
    def headroom(self) -> float:
        """65504 over the largest magnitude; below 1 it overflows."""
        return LARGEST / self.largest if self.largest else np.inf

    @property
    def harmful(self) -> bool:
        return self.overflowed > 0 or self.log_of_zero > 0


@dataclass(frozen=True)
class Fp16Report:
    """`drift` is the largest absolute difference of each output to the program as declared."""

    ranges: tuple[OpRange, ...]
    drift: dict[str, float]

    @property
    def harmful(self) -> tuple[OpRange, ...]:
        return tuple(r for r in self.ranges if r.harmful)

    @property
    def widest(self) -> OpRange | None:
        return max(self.ranges, key=lambda r: r.largest, default=None)


@dataclass
class _Seen:
    """What an observer keeps of one run: results and zeros in logs, by operation."""

    operations: dict[str, Operation] = field(default_factory=dict)
    results: dict[str, ndarray] = field(default_factory=dict)
    zeros: dict[str, float] = field(default_factory=dict)

    def __call__(self, op: Operation, arguments: Arguments, results: tuple[ndarray, ...]) -> None:
        floats = [r.reshape(-1) for r in results if r.dtype.kind == "f"]
        if floats:
            self.operations[op.name] = op
            self.results[op.name] = np.concatenate(floats)
        if op.type == "log":
            self.zeros[op.name] = float(np.mean(np.asarray(arguments["x"]) == 0))


def beyond_float16(case: Case) -> str | None:
    """Which of torch's answers no program can give that computes in float16, if there is one."""
    for step in case.steps:
        for name, array in step.outputs.items():
            if array.dtype.kind == "f" and magnitude(array) > LARGEST:
                return f"{case.name}, where torch answers {magnitude(array):.3g} in {name}"
    return None


def emulate(package: Package, function: str, inputs: Mapping[str, ndarray]) -> Fp16Report:
    """One call on a fresh state, as declared and in float16."""
    answers, seen = [], []
    for rounding in (as_declared, as_float16):
        runner = Interpreter(package, function, rounding)
        seen.append(_Seen())
        answers.append(runner.predict(inputs, runner.make_state(), seen[-1]))
    declared, half = seen
    ranges = [_range(op, declared, half) for op in declared.operations.values()]
    drift = {
        name: float(np.abs(answers[1][name] - wide).max(initial=0.0))
        for name, wide in answers[0].items()
        if wide.dtype.kind == "f"
    }
    return Fp16Report(tuple(ranges), drift)


def _range(op: Operation, declared: _Seen, half: _Seen) -> OpRange:
    wide, narrow = declared.results[op.name], half.results[op.name]
    finite = np.abs(wide[np.isfinite(wide)])
    return OpRange(
        name=op.name,
        type=op.type,
        largest=float(finite.max(initial=0.0)),
        lost=_share((narrow == 0) & (wide != 0)),
        overflowed=_share(np.isinf(narrow) & np.isfinite(wide)),
        log_of_zero=half.zeros.get(op.name, 0.0),
    )


def _share(found: ndarray) -> float:
    return float(np.mean(found)) if found.size else 0.0
