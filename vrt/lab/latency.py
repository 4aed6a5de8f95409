"""What each stage of a token costs on each device, against the floor of its memory and real time.

Times are milliseconds per call; a token lasts 80 ms.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from vrt.lab.theme import INK, OKABE_ITO
from vrt.receipt import Receipt
from vrt.voxtral.config import TOKEN_MS

PLOT_WIDTH, ROW_HEIGHT, BAND = 640, 24, 10  # pixels; of a device in a stage, between stages
LOOKS = [
    (OKABE_ITO["blue"], "circle"),
    (OKABE_ITO["orange"], "square"),
    (OKABE_ITO["green"], "triangle-up"),
    (OKABE_ITO["purple"], "diamond"),
    (OKABE_ITO["sky"], "triangle-down"),
    (OKABE_ITO["black"], "stroke"),
]
# Those rows of a bench of the Voxtral engine that are work for one token.
STAGES = ("front", "encoder chunk", "decoder at 39", "decoder at 8192")

Rows = Sequence[Mapping[str, Any]]


def latency_by_stage(devices: Mapping[str, Rows | None], what: str = "") -> alt.LayerChart:
    """For each stage and device a point, a line from low to high, and a tick at the memory floor.

    `devices` hold rows as `bench_rows` and `stage_rows` give them: `stage`, `middle_ms`, `low_ms`,
    `high_ms`, `floor_ms` (None: unknown). None for a device says that it was not measured, which is
    written below the title. `what` says what point and line are. Raises ValueError where nothing
    was measured, or for more devices than can be told apart.
    """
    found = {name: rows for name, rows in devices.items() if rows}
    if not found:
        raise ValueError(f"nothing was measured on {', '.join(devices) or 'any device'}")
    if len(found) > len(LOOKS):
        raise ValueError(f"{len(LOOKS)} devices can be told apart, got {len(found)}")
    rows = [{**row, "device": name} for name, own in found.items() for row in own]
    stages, names = list(dict.fromkeys(row["stage"] for row in rows)), list(found)
    base = alt.Chart(alt.Data(values=rows))
    floors = alt.Chart(alt.Data(values=[row for row in rows if row["floor_ms"] is not None]))
    y = alt.Y("stage:N", title=None, sort=stages, axis=alt.Axis(ticks=False, labelLimit=220))
    offset = alt.YOffset("device:N", sort=names)
    x = alt.X("middle_ms:Q", title="time (ms, logarithmic)", axis=_axis()).scale(
        type="log", domain=_domain(rows), nice=False
    )
    kinds, (colours, shapes) = {"domain": names}, zip(*LOOKS[: len(names)], strict=True)
    legend = alt.Legend(title=None, orient="bottom", columns=2, labelLimit=330)
    colour = alt.Color("device:N", legend=legend).scale(range=list(colours), **kinds)
    shape = alt.Shape("device:N", legend=legend).scale(range=list(shapes), **kinds)
    span = base.mark_rule(strokeWidth=2.5).encode(
        alt.X("low_ms:Q"), y, offset, alt.X2("high_ms:Q"), colour
    )
    tick = floors.mark_tick(color=INK, thickness=2, height=15)
    return alt.layer(
        *_real_time(x),
        span,
        tick.encode(alt.X("floor_ms:Q"), y, offset),
        base.mark_point(filled=True, size=85, opacity=1).encode(x, y, offset, colour, shape),
    ).properties(
        width=PLOT_WIDTH,
        height=len(stages) * (len(names) * ROW_HEIGHT + BAND),
        title=_title(rows, devices, what),
    )


def bench_rows(
    receipt: Receipt, arm: str = "ours", threads: int = 1, stages: Sequence[str] = STAGES
) -> list[dict[str, Any]]:
    """Wall times of one arm of `vrt bench voxtral`: median, least and largest, and the floor.

    Stages that the receipt does not have are left out. Raises ValueError naming what it has, where
    that arm was not measured with so many threads.
    """
    rows = receipt.numbers["rows"]
    own = [row for row in rows if row["arm"] == arm and row["threads"] == threads]
    if not own:
        known = sorted({(row["arm"], row["threads"]) for row in rows})
        listed = ", ".join(f"{name} on {count}" for name, count in known)
        raise ValueError(f"{arm!r} on {threads} threads was not measured; there are {listed}")
    return [
        {
            "stage": row["row"],
            "middle_ms": row["wall_median_ms"],
            "low_ms": row["wall_min_ms"],
            "high_ms": row["wall_max_ms"],
            "floor_ms": row["floor_wall_ms"],
        }
        for stage in stages
        for row in own
        if row["row"] == stage
    ]


def stage_rows(rows: Rows) -> list[dict[str, Any]]:
    """p50 and p95 per token of a stage table; stages that put out no token are left out."""
    return [
        {
            "stage": row["stage"],
            "middle_ms": row["p50_ms"],
            "low_ms": row["p50_ms"],
            "high_ms": row["p95_ms"],
            "floor_ms": None,
        }
        for row in rows
        if row["p50_ms"] is not None
    ]


def _axis() -> alt.Axis:
    decades = [10.0**power for power in range(-4, 6)]
    return alt.Axis(values=[d * step for d in decades for step in (1, 3)], format="~g")


def _domain(rows: Rows) -> list[float]:
    low = min(min(r["low_ms"], r["floor_ms"] or r["low_ms"]) for r in rows)
    return [low / 1.5, 1.5 * max(TOKEN_MS, *(row["high_ms"] for row in rows))]


def _real_time(x: alt.X) -> tuple[alt.Chart, alt.Chart]:
    note = f"{TOKEN_MS} ms: real time"
    base = alt.Chart(alt.Data(values=[{"middle_ms": TOKEN_MS, "note": note}]))
    line = base.mark_rule(color=OKABE_ITO["vermilion"], strokeDash=[6, 4], strokeWidth=2)
    text = base.mark_text(color=OKABE_ITO["vermilion"], align="right", baseline="bottom", dx=-4)
    return line.encode(x), text.encode(x, alt.Text("note:N"), y=alt.value(-3))


def _title(rows: Rows, devices: Mapping[str, Rows | None], what: str) -> alt.Title:
    slow = [row for row in rows if row["middle_ms"] > TOKEN_MS]
    if slow:
        worst = max(slow, key=lambda row: row["middle_ms"])
        times = worst["middle_ms"] / TOKEN_MS
        finding = f"Too slow for a live stream: {worst['stage']}, {times:.2g} times {TOKEN_MS} ms"
    else:
        finding = f"Every stage alone takes less than the {TOKEN_MS} ms of its token"
    absent = [name for name, own in devices.items() if not own]
    notes = [what, "upright black tick: memory floor" if _any_floor(rows) else ""]
    lines = [
        "; ".join(filter(None, notes)),
        *([f"not measured: {', '.join(absent)}"] if absent else []),
    ]
    return alt.Title(finding, subtitle=[line for line in lines if line], offset=22)


def _any_floor(rows: Rows) -> bool:
    return any(row["floor_ms"] is not None for row in rows)
