"""Differences between two answers to a malsd problem, as they are found: what, where, how large.

An `order` ranks places: iteration, then stage in the order of the flow, then utterance and slot.
"""

import math
import sys
from dataclasses import dataclass, field
from typing import Any

from vrt.golden.malsd_stages import TOLERANCE, value
from vrt.golden.report import Divergence, StageResult

Answer = dict[str, Any]
Index = tuple[int, ...]
AFTER = sys.maxsize  # the place of results: after every iteration


@dataclass
class Stage:
    """Differences of one stage as they are found."""

    name: str
    tolerance: float | None
    error: float = 0.0
    first: tuple[Index, Divergence] | None = None
    seen: bool = False

    def differ(self, order: Index, index: Index, got: Any, expected: Any) -> None:
        if self.first is None:
            self.first = order, Divergence(self.name, index, plain(got), plain(expected))

    def result(self) -> StageResult:
        first = self.first[1] if self.first else None
        return StageResult(self.name, self.error, 1.0, self.tolerance, first)


@dataclass
class Comparison:
    """`order` ranks differences: iteration, then stage, then place; results after iterations."""

    expected: Answer
    got: Answer
    stages: dict[str, Stage] = field(default_factory=dict)

    def stage(self, name: str, tolerance: float | None = None) -> Stage:
        return self.stages.setdefault(name, Stage(name, tolerance))

    def numbers(
        self, stage: Stage, order: Index, index: Index, pair: tuple[Any, Any], kind: str
    ) -> None:
        """One number each. A score may be off by the tolerance, anything else may not."""
        stage.seen = True
        want, have = value(pair[0], kind), pair[1]
        try:
            have = value(have, kind)
        except (TypeError, ValueError):
            stage.differ(order, index, have, want)
            return
        error = error_of(want, have) if kind == "score" else float(want != have)
        stage.error = max(stage.error, error) if kind == "score" else stage.error + error
        if not error <= (TOLERANCE if kind == "score" else 0):
            stage.differ(order, index, have, want)


def error_of(want: float, have: float) -> float:
    if want == have:
        return 0.0
    error = abs(want - have)
    return math.inf if math.isnan(error) else error


def plain(found: Any) -> float | int | str:
    return found if isinstance(found, int | float | str) else str(found)
