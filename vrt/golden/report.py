"""What a comparison found: stage by stage, and the first place where two answers part."""

from dataclasses import dataclass

WIDTHS = (28, 14, 10, 10, 10)  # characters of the table's columns


@dataclass(frozen=True)
class Divergence:
    """One value that differs; where shapes differ, `index` is empty and the shapes are named."""

    stage: str
    index: tuple[int, ...]
    got: float | int | str
    expected: float | int | str

    def __str__(self) -> str:
        index = ", ".join(map(str, self.index))
        where = f"{self.stage}, [{index}]" if self.index else self.stage
        return f"{where}, got {_short(self.got)}, expected {_short(self.expected)}"


@dataclass(frozen=True)
class StageResult:
    """One stage. `tolerance` is relative to `scale` = max(1, largest absolute expected value).

    For token ids `tolerance` is None and `error` counts the ids that differ. `absent` says in
    which of the two files the stage is missing; that is no failure.
    """

    stage: str
    error: float = 0.0
    scale: float = 1.0
    tolerance: float | None = None
    first: Divergence | None = None
    absent: str | None = None

    @property
    def ok(self) -> bool:
        return self.first is None

    @property
    def relative(self) -> float:
        return self.error / self.scale

    @property
    def ratio(self) -> float | None:
        """Share of the tolerance that is used up; above 1 is a failure. None for token ids."""
        return None if self.tolerance is None else self.relative / self.tolerance

    def row(self) -> str:
        if self.absent:
            return f"{self.stage:{WIDTHS[0]}}  absent from {self.absent}"
        verdict = "" if self.ok else "  FAIL"
        if self.tolerance is None:
            return f"{self.stage:{WIDTHS[0]}}{self.error:{WIDTHS[1]}.0f} differ{verdict}"
        cells = (f"{self.error:.2e}", f"{self.relative:.2e}", f"{self.tolerance:.0e}")
        cells += (f"{self.ratio:.3g}",)
        numbers = "".join(f"{c:>{w}}" for c, w in zip(cells, WIDTHS[1:], strict=True))
        return f"{self.stage:{WIDTHS[0]}}{numbers}{verdict}"


@dataclass(frozen=True)
class Report:
    """One file against another, or against the engine. `stopped`: why an engine gave up."""

    name: str
    stages: tuple[StageResult, ...]
    first: Divergence | None = None
    stopped: str | None = None
    unknown: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.first is None and self.stopped is None

    @property
    def absent(self) -> tuple[str, ...]:
        return tuple(result.stage for result in self.stages if result.absent)

    def line(self) -> str:
        """`ok NAME`, or `FAIL NAME: first divergence: stage, index, got, expected`.

        An `ok` that stages are absent from says how many were compared.
        """
        if self.ok:
            compared = len(self.stages) - len(self.absent)
            some = f" ({compared} of {len(self.stages)} stages compared)" if self.absent else ""
            return f"ok {self.name}{some}"
        if self.first is None:
            return f"FAIL {self.name}: {self.stopped}"
        return f"FAIL {self.name}: first divergence: {self.first}"

    def table(self) -> str:
        """All stages in the order of the data's flow, one a row."""
        titles = ("stage", "max abs error", "relative", "tolerance", "used")
        aligned = [f"{t:>{w}}" for t, w in zip(titles[1:], WIDTHS[1:], strict=True)]
        lines = [f"{titles[0]:{WIDTHS[0]}}" + "".join(aligned)]
        lines += [result.row() for result in self.stages]
        lines += [f"not in the format: {key}" for key in self.unknown]
        return "\n".join(lines)


def _short(value: float | int | str) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)
