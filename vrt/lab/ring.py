"""What the slots of a sliding-window ring hold over time: forward writes, then a compaction."""

from collections.abc import Mapping
from typing import Any

import altair as alt

from vrt.lab.theme import OKABE_ITO

PLOT_WIDTH, PLOT_HEIGHT = 680, 320
SEEN, UNSEEN = "the next query sees it", "no query sees it again"
OVERLAP = 0.1  # of a block
EDGES = ["next write", "window begins"]


def ring_map(
    trace: Mapping[str, Any], frame_s: int | float, width: int = PLOT_WIDTH
) -> alt.LayerChart:
    """Slots upward, time to the right; the colour tells which frame a slot holds.

    `trace` is that of `vrt.voxtral.measure.ring_trace`, `frame_s` the seconds of a frame. Frames
    that no later query sees are pale.
    """
    at = alt.X("at:Q", title="time (s)").scale(nice=False)
    slot = alt.Y("slot:Q", title="slot").scale(domain=[0, trace["capacity"]], nice=False)
    return alt.layer(
        _held(trace, frame_s).encode(
            at,
            slot,
            alt.X2("to:Q"),
            alt.Y2("above:Q"),
            alt.Color("spoken:Q", title="spoken at (s)").scale(scheme="viridis"),
            alt.Opacity("kept:N", title=None).scale(domain=[SEEN, UNSEEN], range=[1.0, 0.22]),
        ),
        _edges(trace, frame_s).encode(
            at,
            slot,
            alt.StrokeDash("edge:N", title=None).scale(domain=EDGES, range=[[1, 0], [6, 4]]),
        ),
    ).properties(width=width, height=PLOT_HEIGHT, title=_title(trace, frame_s))


def _held(trace: Mapping[str, Any], frame_s: int | float) -> alt.Chart:
    """Blocks of slots; opaque ones overlap a little, against seams in a drawing of pixels."""
    rows = []
    for block in trace["held"]:
        lap = OVERLAP if block["in_window"] else 0.0
        row = {
            "at": block["seen"] * frame_s,
            "to": (block["until"] + lap * (block["until"] - block["seen"])) * frame_s,
            "slot": block["slot"],
            "above": block["above"] + lap * (block["above"] - block["slot"]),
            "spoken": block["frame"] * frame_s,
            "kept": SEEN if block["in_window"] else UNSEEN,
        }
        rows.append(row)
    return alt.Chart(alt.Data(values=rows)).mark_rect(clip=True)


def _edges(trace: Mapping[str, Any], frame_s: int | float) -> alt.Chart:
    """Where the next frame is written, and the oldest slot that its query sees."""
    rows = [
        {"at": cursor["seen"] * frame_s, "slot": slot, "edge": edge}
        for cursor in trace["cursors"]
        for edge, slot in zip(
            EDGES, (cursor["cursor"], cursor["cursor"] - trace["window"] + 1), strict=True
        )
    ]
    return alt.Chart(alt.Data(values=rows)).mark_line(color=OKABE_ITO["vermilion"], strokeWidth=2)


def _title(trace: Mapping[str, Any], frame_s: int | float) -> alt.Title:
    window, capacity, times = trace["window"], trace["capacity"], trace["compactions"]
    seen = trace["cursors"][-1]["seen"] * frame_s
    return alt.Title(
        f"{capacity} slots serve a window of {window} frames: {times} compactions in {seen:.0f} s",
        subtitle=[
            f"written from one slot to the next; at the end the last {window - 1} move to the front"
        ],
    )
