"""Cases of calls, answered by torch before, asked of a saved package again and compared."""

from dataclasses import dataclass, field

from vrt.coreml.comparing import OutputDiff, compare, limits_of, loudness, magnitude, worst
from vrt.coreml.contract import Contract
from vrt.coreml.errors import CoreMLError
from vrt.coreml.golden_vectors import FP32_TOLERANCE, Case, GoldenVectors, Step, Tolerance
from vrt.coreml.interpret import Interpreter
from vrt.coreml.package import Package
from vrt.coreml.vectors import MOST_FP16, MOST_PALETTE


@dataclass(frozen=True)
class Failure:
    """One output beyond its limit, in one call of a case."""

    case: Case
    step: int
    diff: OutputDiff


@dataclass(frozen=True)
class Replay:
    """Calls of one kind: golden vectors, fresh inputs against torch, or Core ML on this Mac."""

    against: str
    calls: int
    diffs: tuple[OutputDiff, ...]  # of each output, the worst call's
    failures: tuple[Failure, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.failures

    def lines(self) -> list[str]:
        count = f"{self.calls} call" + ("s" if self.calls != 1 else "")
        names = dict.fromkeys(failure.case.name for failure in self.failures)
        failed = f", beyond the limit in {', '.join(names)}" if names else ""
        return [f"{self.against}: {count}{failed}", *(f"  {diff}" for diff in self.diffs)]


@dataclass(frozen=True)
class Limits:
    """How far a package may be from torch.

    What float32 loses is in proportion to loud answers. An arm that rounds more loses in
    proportion to all that is larger than what it was measured on.
    """

    tolerances: dict[str, Tolerance] = field(default_factory=dict)
    most: float = FP32_TOLERANCE
    exact: bool = True
    largest: dict[str, float] = field(default_factory=dict)  # of each output, when measured

    @classmethod
    def recorded(cls, contract: Contract | None, golden: GoldenVectors) -> "Limits":
        """Of the golden vectors themselves, and of inputs like them."""
        largest: dict[str, float] = {}
        for step in (step for case in golden.cases for step in case.steps):
            for name, array in step.outputs.items():
                largest[name] = max(largest.get(name, 1.0), magnitude(array))
        exact = contract is None or contract.exact
        return cls(golden.tolerances, _most(contract), exact, largest)

    @classmethod
    def fresh(cls, contract: Contract, golden: GoldenVectors | None) -> "Limits":
        """Of other inputs. What a palette loses depends on them: there is only the most allowed."""
        if golden is None or contract.palettize_bits is not None:
            return cls(most=_most(contract), exact=contract.exact)
        return cls.recorded(contract, golden)

    def of_step(self, step: Step) -> dict[str, float]:
        limits = limits_of(step.outputs, self.tolerances, self.most)
        return limits if self.exact else {n: v * self._louder(n, step) for n, v in limits.items()}

    def _louder(self, name: str, step: Step) -> float:
        """`compare` allows for loud answers; this makes it those louder than the measured."""
        now = magnitude(step.outputs[name])
        return max(1.0, now / self.largest.get(name, 1.0)) / loudness(name, step.outputs)


def replay(package: Package, against: str, cases: list[Case], limits: Limits) -> Replay:
    """Each case on a fresh state."""
    diffs, failures, calls = [], [], 0
    for case in cases:
        runner = Interpreter(package, case.function)
        state = runner.make_state()
        for index, step in enumerate(case.steps):
            _refuse_outputs(step, runner)
            found = compare(step, runner.predict(step.inputs, state), limits.of_step(step))
            diffs += found
            failures += [Failure(case, index, diff) for diff in found if not diff.ok]
            calls += 1
    return Replay(against, calls, tuple(worst(diffs)), tuple(failures))


def _refuse_outputs(step: Step, runner: Interpreter) -> None:
    there = runner.function.outputs.keys()
    if not step.outputs.keys() <= there:
        raise CoreMLError(
            f"torch answers {', '.join(step.outputs)}; function {runner.function.name!r} has the"
            f" outputs {', '.join(there)}: export the package again"
        )


def _most(contract: Contract | None) -> float:
    if contract is None or contract.exact:
        return FP32_TOLERANCE
    return MOST_FP16 if contract.palettize_bits is None else MOST_PALETTE
