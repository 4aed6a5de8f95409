"""What each output of a causal stage reads: ranges of inputs, by where they come from.

An output is a frame, a range is of inputs counted in one unit (samples, frames).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from vrt.lab.theme import INK, OKABE_ITO

PLOT_WIDTH, ROW_HEIGHT = 640, 20
# Colours in the order in which a caller names its kinds: new, remembered, not there or not seen.
COLOURS = [OKABE_ITO["sky"], OKABE_ITO["orange"], "#D5D9DE", OKABE_ITO["vermilion"]]


def reach_map(
    rows: Sequence[Mapping[str, Any]],
    kinds: Sequence[str],
    reads: str,
    output: str,
    title: str,
    now: Mapping[str, int | float] | None = None,
) -> alt.LayerChart:
    """One line an output, one bar a range that it reads.

    `rows` have `output`, `first`, `end` (the first input after the range) and `kind`, one of
    `kinds`, at most four. `reads` and `output` name the axes, with their units. `now` marks moments
    on the axis of inputs by upright lines with these names. Raises ValueError without rows, or for
    a kind that is not named.
    """
    _check(rows, kinds)
    domain = [min(row["first"] for row in rows), max(row["end"] for row in rows)]
    x = alt.X("first:Q", title=reads, axis=alt.Axis(format="d")).scale(domain=domain, nice=False)
    y = alt.Y("output:O", title=output, axis=alt.Axis(grid=False, domain=False, ticks=False))
    named = {"domain": list(kinds)}
    legend = alt.Legend(title=None, orient="bottom", symbolType="square", labelLimit=400)
    colour = alt.Color("kind:N", legend=legend).scale(range=COLOURS[: len(kinds)], **named)
    bars = alt.Chart(alt.Data(values=list(rows))).mark_bar(height=ROW_HEIGHT - 6)
    edges = alt.Chart(alt.Data(values=[{"first": at, "note": n} for n, at in (now or {}).items()]))
    return (
        alt.layer(
            bars.encode(x, y, alt.X2("end:Q"), colour),
            edges.mark_rule(color=INK, strokeDash=[4, 3]).encode(x),
            edges.mark_text(align="left", baseline="bottom", dx=3, dy=-3).encode(
                x, alt.Text("note:N"), y=alt.value(0)
            ),
        )
        .resolve_scale(color="independent")
        .properties(
            width=PLOT_WIDTH, height=alt.Step(ROW_HEIGHT), title=alt.Title(title, offset=24)
        )
    )


def _check(rows: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> None:
    if not rows:
        raise ValueError("reach_map has nothing to show: no rows")
    if not 1 <= len(kinds) <= len(COLOURS):
        raise ValueError(f"{len(kinds)} kinds; 1 to {len(COLOURS)} can be told apart")
    unknown = [row["kind"] for row in rows if row["kind"] not in kinds]
    if unknown:
        raise ValueError(f"kind {unknown[0]!r} is none of {', '.join(kinds)}")


def window_rows(window: int, size: int, first: int, count: int) -> list[dict[str, Any]]:
    """What `count` queries from frame `first` on read of the keys, in groups of `size`.

    `seen` are the frames of the query's window; `masked` those that only others of its group see.
    """
    rows = []
    for query in range(first, first + count):
        start = query - query % size  # of the group
        low, high = query - window + 1, query + 1
        ends = (start - window + 1, start + size)
        spans = (("masked", ends[0], low), ("seen", low, high), ("masked", high, ends[1]))
        for kind, begin, end in spans:
            if end > begin:
                rows.append({"output": query, "first": begin, "end": end, "kind": kind})
    return rows
