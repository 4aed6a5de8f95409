"""How far runs are from what they should give, place by place: frame, layer, or token.

A logarithmic axis has no zero: places that agree exactly stand at its lower end, labelled 0.0.
"""

from collections.abc import Mapping, Sequence
from math import floor, log10
from typing import Any

import altair as alt

from vrt.lab.theme import INK, OKABE_ITO

PLOT_WIDTH, PLOT_HEIGHT = 680, 240
LEAST = 1e-9  # where the axis begins unless something is smaller
LOOKS = [
    (OKABE_ITO["green"], "square"),
    (OKABE_ITO["vermilion"], "cross"),
    (OKABE_ITO["blue"], "circle"),
    (OKABE_ITO["orange"], "triangle-up"),
    (OKABE_ITO["purple"], "diamond"),
]


def drift(
    rows: Sequence[Mapping[str, Any]],
    place: str,
    tolerance: int | float | None = None,
    title: str | None = None,
) -> alt.LayerChart:
    """A line an arm: its largest difference at each place, and the tolerance as a level line.

    `rows` have `arm` (at most five), `at` (a whole number) and `difference`; `place` names what
    `at` counts, with its unit. The title is the finding unless given. Raises ValueError without
    rows or with more arms than can be told apart.
    """
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    if not 1 <= len(arms) <= len(LOOKS):
        raise ValueError(f"drift shows 1 to {len(LOOKS)} arms, got {len(arms)}")
    zero, high = _ends(rows, tolerance)
    points = [{**row, "shown": row["difference"] or zero} for row in rows]
    labels = f"datum.value < {zero * 2} ? '0.0' : format(datum.value, '.0e')"
    axis = alt.Axis(labelExpr=labels, values=_decades(zero, high))
    y = alt.Y("shown:Q", title="largest difference (logarithmic)", axis=axis).scale(
        type="log", domain=[zero / 2, high], nice=False
    )
    span = [min(r["at"] for r in rows) - 0.5, max(r["at"] for r in rows) + 0.5]
    x = alt.X("at:Q", title=place, axis=alt.Axis(format="d", tickMinStep=1, grid=False)).scale(
        domain=span, nice=False
    )
    legend = alt.Legend(title=None, orient="bottom", columns=2, labelLimit=320)
    kinds = {"domain": arms}
    colours, shapes = zip(*LOOKS[: len(arms)], strict=True)
    colour = alt.Color("arm:N", legend=legend).scale(range=list(colours), **kinds)
    shape = alt.Shape("arm:N", legend=legend).scale(range=list(shapes), **kinds)
    base = alt.Chart(alt.Data(values=points))
    limit = alt.Chart(alt.Data(values=[] if tolerance is None else [{"shown": tolerance}]))
    return alt.layer(
        limit.mark_rule(color=INK, strokeDash=[6, 4]).encode(y),
        base.mark_line(strokeWidth=1.2, opacity=0.7).encode(x, y, colour),
        base.mark_point(filled=True, size=38, opacity=1).encode(x, y, colour, shape),
    ).properties(
        width=PLOT_WIDTH, height=PLOT_HEIGHT, title=title or finding(rows, place, tolerance)
    )


def _ends(rows: Sequence[Mapping[str, Any]], tolerance: int | float | None) -> tuple[float, float]:
    """Where 0.0 stands, and the upper end of the axis."""
    values = [row["difference"] for row in rows] + [tolerance or 0.0]
    least = min([LEAST, *(v for v in values if v > 0)])
    return 10.0 ** (floor(log10(least)) - 1), 10.0 ** (floor(log10(max(*values, least))) + 1)


def _decades(low: float, high: float) -> list[float]:
    """The first one and every second one above it."""
    first, last = round(log10(low)), round(log10(high))
    return [10.0**power for power in (first, *range(first + 1, last + 1, 2))]


def finding(
    rows: Sequence[Mapping[str, Any]], place: str, tolerance: int | float | None = None
) -> str:
    """For each arm in one line: exact, within the tolerance, or where it first leaves it."""
    parts = []
    for arm in dict.fromkeys(row["arm"] for row in rows):
        own = [row for row in rows if row["arm"] == arm]
        wrong = [row["at"] for row in own if row["difference"] > (tolerance or 0.0)]
        worst = max(row["difference"] for row in own)
        if wrong:
            parts.append(f"{arm}: first wrong at {place.split(' (')[0]} {min(wrong)}")
        else:
            parts.append(f"{arm}: {'exact' if worst == 0 else 'within the tolerance'}")
    return "; ".join(parts)
