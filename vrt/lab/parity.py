"""How far two runs differ at each stage, against the tolerance there."""

from collections.abc import Mapping, Sequence
from math import floor, log10
from typing import Any

import altair as alt

from vrt.lab.theme import INK, OKABE_ITO

PLOT_WIDTH, ROW_HEIGHT = 700, 30
EXACT, WITHIN, ABOVE = "exactly 0.0", "within the tolerance", "above the tolerance"
DIFFERS = "not 0.0"  # what ABOVE is called where nothing has a tolerance
LOOKS = {
    EXACT: (OKABE_ITO["green"], "square"),
    WITHIN: (OKABE_ITO["blue"], "circle"),
    ABOVE: (OKABE_ITO["vermilion"], "cross"),
}
LEAST = 1e-9  # where the axis begins unless something is smaller


def parity_by_stage(
    rows: Sequence[Mapping[str, Any]],
    width: int = PLOT_WIDTH,
    axis_title: str = "largest difference, relative (logarithmic)",
) -> alt.LayerChart:
    """One point a row, a tick for the stage's tolerance, on a logarithmic axis.

    `rows` have `stage`, `relative` (largest absolute difference over max(1, largest absolute
    expected value), or what `axis_title` says in its place) and `tolerance` (None: it must be 0.0).
    A logarithmic axis has no zero: rows that agree exactly stand at its left end, which is labelled
    0.0, in a shape of their own. Raises ValueError without rows.
    """
    if not rows:
        raise ValueError("parity_by_stage has nothing to show: no rows")
    values = [r["relative"] for r in rows] + [r["tolerance"] or 0.0 for r in rows]
    least = min([LEAST, *(v for v in values if v > 0)])
    zero = 10.0 ** (floor(log10(least)) - 1)
    high = 10.0 ** (floor(log10(max(*values, least))) + 1)
    named, looks = _looks(rows)
    points = [
        {"stage": r["stage"], "at": r["relative"] or zero, "verdict": named[verdict(r)]}
        for r in rows
    ]
    limits = {r["stage"]: r["tolerance"] for r in rows if r["tolerance"]}
    ticks = [{"stage": stage, "at": limit} for stage, limit in limits.items()]
    labels = f"datum.value < {zero * 2} ? '0.0' : format(datum.value, '.0e')"
    axis = alt.Axis(labelExpr=labels, values=_decades(zero, high))
    at = alt.X("at:Q", title=axis_title, axis=axis)
    at = at.scale(type="log", domain=[zero / 2, high], nice=False)
    order = list(dict.fromkeys(r["stage"] for r in rows))
    stage = alt.Y("stage:N", title=None, sort=order, axis=alt.Axis(labelLimit=300))
    scale = {"domain": list(looks)}
    colour = alt.Color("verdict:N", title=None).scale(range=[c for c, _ in looks.values()], **scale)
    shape = alt.Shape("verdict:N", title=None).scale(range=[s for _, s in looks.values()], **scale)
    limit = alt.Chart(alt.Data(values=ticks)).mark_tick(color=INK, thickness=2, height=20)
    dots = alt.Chart(alt.Data(values=points)).mark_point(filled=True, size=110, opacity=0.9)
    return alt.layer(limit.encode(at, stage), dots.encode(at, stage, colour, shape)).properties(
        width=width, height=alt.Step(ROW_HEIGHT), title=_title(rows)
    )


def _looks(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    """What verdicts are called in the legend, and how those that can be are drawn."""
    if any(row["tolerance"] for row in rows):
        return {name: name for name in LOOKS}, LOOKS
    return {EXACT: EXACT, ABOVE: DIFFERS}, {EXACT: LOOKS[EXACT], DIFFERS: LOOKS[ABOVE]}


def verdict(row: Mapping[str, Any]) -> str:
    if row["relative"] == 0:
        return EXACT
    return WITHIN if row["relative"] <= (row["tolerance"] or 0.0) else ABOVE


def _decades(low: float, high: float) -> list[float]:
    first, last = round(log10(low)), round(log10(high))
    return [10.0**power for power in range(first, last + 1)]


def _title(rows: Sequence[Mapping[str, Any]]) -> alt.Title:
    verdicts = [verdict(row) for row in rows]
    above = [row["stage"] for row, found in zip(rows, verdicts, strict=True) if found == ABOVE]
    limited = any(row["tolerance"] for row in rows)
    exact = verdicts.count(EXACT)
    if above:
        named = ", ".join(dict.fromkeys(above))
        by = " by more than the tolerance" if limited else ""
        finding = f"{len(above)} of {len(rows)} differ{by}: {named}"
    elif exact == len(rows):
        finding = f"All {exact} comparisons are exactly 0.0"
    else:
        finding = (
            f"All {len(rows)} comparisons are within the tolerance, {exact} of them exactly 0.0"
        )
    return alt.Title(finding, subtitle=["upright line: the tolerance of the stage"] * limited)
