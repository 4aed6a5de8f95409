"""Charts of a stream's measurements, each from the rows that a receipt holds.

A row is a mapping, as JSON gives it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from vrt.lab.delays import word_delays
from vrt.lab.diagram import stage_diagram
from vrt.lab.drift import drift
from vrt.lab.latency import latency_by_stage
from vrt.lab.lattice import beam_lattice
from vrt.lab.nbest_table import nbest_table
from vrt.lab.parity import parity_by_stage
from vrt.lab.reach import reach_map
from vrt.lab.ring import ring_map
from vrt.lab.ring_sizes import first_wrong_frames
from vrt.lab.spectrogram import spectrogram
from vrt.lab.theme import OKABE_ITO, SOFT
from vrt.lab.timeline import delay_timeline
from vrt.lab.wer import word_errors
from vrt.lab.work import work_counts

__all__ = [
    "beam_lattice",
    "delay_timeline",
    "drift",
    "first_wrong_frames",
    "latency_by_stage",
    "nbest_table",
    "parity_by_stage",
    "reach_map",
    "ring_map",
    "spectrogram",
    "stage_diagram",
    "stage_latency",
    "word_delays",
    "word_errors",
    "work_counts",
]

PLOT_WIDTH = 740
ROW_HEIGHT = 26  # of a stage
TOKEN_MS = 80
PERCENTILES = {"p50_ms": "p50", "p95_ms": "p95"}


def stage_latency(rows: Sequence[Mapping[str, Any]], width: int = PLOT_WIDTH) -> alt.LayerChart:
    """p50 and p95 of each stage's milliseconds per token, against the 80 ms that a token lasts.

    `rows` have `stage`, `p50_ms` and `p95_ms`; the last one is of all stages together. Raises
    ValueError where nothing was measured; single rows without a measurement are left out.
    """
    measured = [row for row in rows if row["p50_ms"] is not None]
    if not measured:
        raise ValueError("no stage was measured: p50_ms is None in every row")
    points = [
        {"stage": row["stage"], "ms": row[column], "percentile": name}
        for row in measured
        for column, name in PERCENTILES.items()
    ]
    spans = [{"stage": r["stage"], "ms": r["p50_ms"], "to": r["p95_ms"]} for r in measured]
    low, high = min(p["ms"] for p in points), max(p["ms"] for p in points)
    domain = [low / 2, max(2.5 * TOKEN_MS, 2 * high)]
    stage = alt.Y("stage:N", title=None, sort=[row["stage"] for row in measured])
    axis = alt.Axis(values=[10.0**power for power in range(-4, 6)], format="~g")
    ms = alt.X("ms:Q", title="time per token (ms, logarithmic)", axis=axis).scale(
        type="log", domain=domain, nice=False
    )
    names = list(PERCENTILES.values())
    colour = alt.Color("percentile:N", title=None).scale(
        domain=names, range=[OKABE_ITO["blue"], OKABE_ITO["orange"]]
    )
    shape = alt.Shape("percentile:N", title=None).scale(domain=names, range=["circle", "diamond"])
    rule = alt.Chart(alt.Data(values=spans)).mark_rule(color=SOFT, strokeWidth=2)
    dots = alt.Chart(alt.Data(values=points)).mark_point(filled=True, size=95, opacity=1)
    return alt.layer(
        rule.encode(stage, ms, alt.X2("to:Q")), dots.encode(stage, ms, colour, shape), *_budget(ms)
    ).properties(width=width, height=alt.Step(ROW_HEIGHT), title=_latency_title(measured[-1]))


def _budget(ms: alt.X) -> tuple[alt.Chart, alt.Chart]:
    """The line that no stage may cross if a stream is to keep up."""
    base = alt.Chart(alt.Data(values=[{"ms": TOKEN_MS, "note": f"{TOKEN_MS} ms: real time"}]))
    colour = OKABE_ITO["vermilion"]
    line = base.mark_rule(color=colour, strokeDash=[6, 4], strokeWidth=2)
    note = base.mark_text(color=colour, align="right", baseline="top", dx=-6)
    return line.encode(ms), note.encode(ms, alt.Text("note:N"), y=alt.value(2))


def _latency_title(whole: Mapping[str, Any]) -> alt.Title:
    p50, p95 = whole["p50_ms"], whole["p95_ms"]
    ratio = max(TOKEN_MS / p50, p50 / TOKEN_MS)
    times = f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"
    speed = f"{times} times {'faster' if p50 < TOKEN_MS else 'slower'}"
    return alt.Title(
        f"A token of {TOKEN_MS} ms takes {p50:.2g} ms: {speed} than real time",
        subtitle=[f"{whole['stage']}: p50 {p50:.2g} ms, p95 {p95:.2g} ms"],
    )
