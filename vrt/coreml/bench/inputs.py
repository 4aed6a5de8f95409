"""What a function is asked during a sweep, and what the interpreter answers to it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy import ndarray

from vrt.coreml import golden_vectors
from vrt.coreml.errors import CoreMLError
from vrt.coreml.golden_vectors import Arrays
from vrt.coreml.interpret import Interpreter
from vrt.coreml.package import Package
from vrt.coreml.types import FLOATS, TensorType

SEED = 0
LOGITS, IDS = "logits", "ids"


@dataclass(frozen=True)
class Asked:
    """`steps` follow one another on a fresh state."""

    package: Package
    function: str
    steps: tuple[Arrays, ...]

    @classmethod
    def of(cls, package: Package, function: str) -> "Asked":
        """The first golden case of the function; random numbers where there are no vectors."""
        beside = golden_vectors.beside(package.path)
        cases = golden_vectors.read(beside).cases if beside.is_file() else ()
        for case in cases:
            if case.function == function:
                return cls(package, function, tuple(step.inputs for step in case.steps))
        types = package.function(function).inputs
        random = np.random.default_rng(SEED)
        drawn = {n: _drawn(n, t, random) for n, t in types.items() if not t.state}
        return cls(package, function, (drawn,))

    @cached_property
    def expected(self) -> list[Arrays]:
        """By the interpreter, of the package as it is on the disk."""
        runner = Interpreter(self.package, self.function)
        state = runner.make_state()
        return [runner.predict(step, state) for step in self.steps]

    @property
    def bytes_copied(self) -> int:
        """A call's inputs and outputs, which lie on the host on both sides of it."""
        inside = self.package.function(self.function)
        given = [type for type in inside.inputs.values() if not type.state]
        ports = given + list(inside.outputs.values())
        return sum(type.size * type.numpy.itemsize for type in ports)

    def agreement(self, answers: list[Arrays]) -> dict[str, float | dict[str, float] | None]:
        """`max_abs` by output, and shares of equal ids: `topk_equal` of all, `top1_equal` of the
        best of each row. An answer that is missing or of another shape is as far as can be."""
        pairs = list(zip(self.expected, answers, strict=True))
        floats = [name for name, a in self.expected[0].items() if a.dtype.kind == "f"]
        return {
            "max_abs": {n: max(_distance(a[n], b.get(n)) for a, b in pairs) for n in floats},
            "topk_equal": _share([_equal(a[IDS], b.get(IDS)) for a, b in pairs if IDS in a]),
            "top1_equal": _share([_top1(a, b) for a, b in pairs if IDS in a or LOGITS in a]),
        }


FARTHEST = 3.4e38  # the largest float32: a receipt holds no infinity


def _drawn(name: str, type: TensorType, random: np.random.Generator) -> ndarray:
    if None in type.shape:
        raise CoreMLError(f"input {name!r} is {type}: a sweep needs fixed shapes")
    if type.dtype in FLOATS:
        return random.standard_normal(type.shape).astype(type.numpy)
    return np.zeros(type.shape, type.numpy)  # an id that every table has


def _distance(expected: ndarray, got: ndarray | None) -> float:
    if got is None or got.shape != expected.shape:
        return FARTHEST
    a, b = expected.astype(np.float64), got.astype(np.float64)
    with np.errstate(invalid="ignore"):
        off = np.where(a == b, 0.0, np.abs(a - b))
    return float(np.nan_to_num(off, nan=FARTHEST, posinf=FARTHEST).max(initial=0.0))


def _equal(expected: ndarray, got: ndarray | None) -> float:
    if got is None or got.shape != expected.shape:
        return 0.0
    return float(np.mean(expected == got))


def _top1(expected: Arrays, got: Arrays) -> float:
    if IDS in expected:
        found = got.get(IDS)
        return _equal(expected[IDS][:, 0], None if found is None else found[:, 0])
    logits = got.get(LOGITS)
    best = None if logits is None else logits.argmax(-1)
    return _equal(expected[LOGITS].argmax(-1), best)


def _share(found: list[float]) -> float | None:
    return float(np.mean(found)) if found else None
