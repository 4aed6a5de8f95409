"""The stage table of a stream: its rows for receipts and charts, its text for a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StageRow:
    """One line of the stage table; `takes_in` and `gives_out` are those of one token.

    `p50_ms`, `p95_ms`: milliseconds per token, within 1 %; None before the first token.
    `share`: of the time of all calls, 0..1; None before the first call.
    """

    stage: str
    takes_in: str
    gives_out: str
    remembers: str
    remembers_bytes: int
    calls: int
    rows_in: int
    rows_out: int
    p50_ms: float | None
    p95_ms: float | None
    total_ms: float
    share: float | None


HEADER = (
    "stage",
    "takes in",
    "gives out",
    "bytes",
    "remembers",
    "calls",
    "p50 ms",
    "p95 ms",
    "time",
)
LEFT = frozenset({"stage", "takes in", "gives out", "remembers"})


def render(table: Sequence[StageRow]) -> str:
    """The table as aligned text, at most 100 columns wide at the released sizes."""
    lines = [HEADER, *(_cells(row) for row in table)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligns = ["<" if name in LEFT else ">" for name in HEADER]
    texts = [
        "  ".join(f"{cell:{a}{w}}" for cell, a, w in zip(line, aligns, widths, strict=True))
        for line in lines
    ]
    texts.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(text.rstrip() for text in texts)


def _cells(row: StageRow) -> tuple[str, ...]:
    return (
        row.stage,
        row.takes_in,
        row.gives_out,
        _bytes(row.remembers_bytes),
        row.remembers,
        f"{row.calls}",
        _number(row.p50_ms),
        _number(row.p95_ms),
        "-" if row.share is None else f"{row.share:.0%}",
    )


def _bytes(count: int) -> str:
    """Decimal units, three digits: 403 MB."""
    if not count:
        return "-"
    size, units = float(count), ["B", "kB", "MB", "GB"]
    while size >= 999.5 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.3g} {units[0]}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.{3 if value < 10 else 1 if value < 100 else 0}f}"
