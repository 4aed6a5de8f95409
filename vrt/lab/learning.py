"""How a training goes, and what it made: losses by step, error rates by test."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from vrt.lab.theme import OKABE_ITO, SOFT
from vrt.lab.wer import spoken

PLOT_WIDTH, PLOT_HEIGHT, ROW_HEIGHT = 680, 230, 27
# The looks of at most four lines or groups.
LOOKS = [
    (OKABE_ITO["black"], "circle", [5, 3]),
    (OKABE_ITO["blue"], "square", [1, 0]),
    (OKABE_ITO["orange"], "triangle-up", [8, 3, 2, 3]),
    (OKABE_ITO["green"], "diamond", [2, 2]),
]

Rows = Sequence[Mapping[str, Any]]


def loss_curve(rows: Rows, unit: str, title: str) -> alt.LayerChart:
    """A line an arm. `rows` have `arm`, `step` (from 1) and `loss`; `unit` is the loss's, and
    `title` the finding. Raises ValueError without rows or with more arms than can be told apart."""
    colour, shape, dash = _looks(rows, "arm")
    base = alt.Chart(alt.Data(values=list(rows))).encode(
        alt.X("step:Q", title="step of the training").scale(nice=False, zero=False),
        alt.Y("loss:Q", title=f"loss ({unit})").scale(zero=True),
        colour,
    )
    return alt.layer(
        base.mark_line(strokeWidth=1.6).encode(dash),
        base.mark_point(filled=True, size=30, opacity=1).encode(shape),
    ).properties(width=PLOT_WIDTH, height=PLOT_HEIGHT, title=title)


def error_rates(rows: Rows, title: str) -> alt.LayerChart:
    """A point a test with its 95 % interval. `rows` have `test`, `group`, and what a receipt has of
    each: `wer_percent`, `wer_percent_95`, `words`. Raises ValueError as `loss_curve`."""
    colour, shape, _ = _looks(rows, "group")
    drawn = [
        {
            "test": spoken(row["test"]),
            "group": row["group"],
            "percent": row["wer_percent"],
            "low": row["wer_percent_95"][0],
            "high": row["wer_percent_95"][1],
        }
        for row in rows
    ]
    y = alt.Y("test:N", title=None, sort=None, axis=alt.Axis(labelLimit=260))
    base = alt.Chart(alt.Data(values=drawn))
    at = alt.X("percent:Q", title="word error rate (%)").scale(zero=True)
    words = {row["words"] for row in rows}
    return alt.layer(
        base.mark_rule(color=SOFT, strokeWidth=2).encode(alt.X("low:Q"), y, alt.X2("high:Q")),
        base.mark_point(filled=True, size=85, opacity=1).encode(at, y, colour, shape),
        base.mark_text(dy=-10, fontSize=11).encode(at, y, alt.Text("percent:Q", format=".1f")),
    ).properties(
        width=PLOT_WIDTH - 160,
        height=alt.Step(ROW_HEIGHT),
        title=alt.Title(
            title,
            subtitle=[
                f"lines: 95 % intervals over strings, {min(words)} to {max(words)} words a test"
            ],
        ),
    )


def _looks(rows: Rows, name: str) -> tuple[alt.Color, alt.Shape, alt.StrokeDash]:
    kinds = list(dict.fromkeys(row[name] for row in rows))
    if not 1 <= len(kinds) <= len(LOOKS):
        raise ValueError(f"1 to {len(LOOKS)} of {name} can be told apart, got {len(kinds)}")
    colours, shapes, dashes = (list(look) for look in zip(*LOOKS[: len(kinds)], strict=True))
    legend = alt.Legend(title=None, orient="bottom", labelLimit=320)
    return (
        alt.Color(f"{name}:N", legend=legend).scale(domain=kinds, range=colours),
        alt.Shape(f"{name}:N", legend=legend).scale(domain=kinds, range=shapes),
        alt.StrokeDash(f"{name}:N", legend=legend).scale(domain=kinds, range=dashes),
    )
