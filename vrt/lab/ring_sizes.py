"""The first wrong encoder frame against the number of a ring's slots, for several chunk sizes."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from vrt.lab.theme import OKABE_ITO, SOFT

PLOT_WIDTH, PLOT_HEIGHT = 660, 250
ABOVE = 1.12  # where "never" stands, over the last frame
APART = 0.24  # slots between the points of one ring
LOOKS = [
    (OKABE_ITO["blue"], "circle"),
    (OKABE_ITO["orange"], "square"),
    (OKABE_ITO["green"], "triangle-up"),
    (OKABE_ITO["purple"], "diamond"),
]


def first_wrong_frames(
    rows: Sequence[Mapping[str, Any]], window: int, frames: int
) -> alt.LayerChart:
    """A point a ring, by its slots; an upright line at window + chunk - 1 for each chunk size.

    `rows` have `slots`, `chunk` (encoder frames a call) and `first_wrong`, None where all of the
    `frames` frames were right: such rings stand above the others, at "never". Raises ValueError
    without rows or with more chunk sizes than can be told apart.
    """
    chunks = sorted({row["chunk"] for row in rows})
    if not 1 <= len(chunks) <= len(LOOKS):
        raise ValueError(f"1 to {len(LOOKS)} chunk sizes can be shown, got {len(chunks)}")
    never = frames * ABOVE
    aside = {chunk: APART * (i - (len(chunks) - 1) / 2) for i, chunk in enumerate(chunks)}
    points = [
        {
            "slots": row["slots"] + aside[row["chunk"]],
            "chunk": _name(row["chunk"]),
            "at": never if row["first_wrong"] is None else row["first_wrong"],
        }
        for row in rows
    ]
    needs = [{"slots": window + chunk - 1.5, "chunk": _name(chunk)} for chunk in chunks]
    slots = [row["slots"] for row in rows]
    x = alt.X("slots:Q", title="slots of the ring", axis=alt.Axis(format="d", grid=False)).scale(
        domain=[min(slots) - 1, max(slots) + 1], nice=False
    )
    label = f"datum.value > {frames} ? 'never' : datum.value"
    axis = alt.Axis(values=[*_ticks(frames), never], labelExpr=label)
    y = alt.Y("at:Q", title="first wrong encoder frame", axis=axis).scale(
        domain=[0, never * 1.06], nice=False
    )
    names = {"domain": [_name(chunk) for chunk in chunks]}
    colours, shapes = zip(*LOOKS[: len(chunks)], strict=True)
    colour = alt.Color("chunk:N", title=None).scale(range=list(colours), **names)
    shape = alt.Shape("chunk:N", title=None).scale(range=list(shapes), **names)
    dots = alt.Chart(alt.Data(values=points)).mark_point(filled=True, size=55, opacity=0.95)
    lines = alt.Chart(alt.Data(values=needs)).mark_rule(strokeDash=[5, 4], strokeWidth=1.5)
    level = alt.Chart(alt.Data(values=[{"at": never}])).mark_rule(color=SOFT, opacity=0.4)
    return alt.layer(
        level.encode(y), lines.encode(x, colour), dots.encode(x, y, colour, shape)
    ).properties(width=PLOT_WIDTH, height=PLOT_HEIGHT, title=_title(rows, window, chunks))


def _name(chunk: int) -> str:
    return f"{chunk} frames a call"


def _ticks(frames: int) -> list[int]:
    step = max(1, frames // 4)
    return [*range(0, frames - step // 2, step)]


def smallest_right(rows: Sequence[Mapping[str, Any]], chunk: int) -> int | None:
    """Slots of the smallest ring that is right and all larger ones too; None if there is none."""
    right: int | None = None
    own = sorted((r for r in rows if r["chunk"] == chunk), key=lambda r: -r["slots"])
    for row in own:
        if row["first_wrong"] is not None:
            break
        right = row["slots"]
    return right


def _title(rows: Sequence[Mapping[str, Any]], window: int, chunks: Sequence[int]) -> alt.Title:
    found = {chunk: smallest_right(rows, chunk) for chunk in chunks}
    if all(found[chunk] == window + chunk - 1 for chunk in chunks):
        text = "A ring needs window + chunk - 1 slots: one fewer is wrong as soon as it wraps"
    else:
        text = "; ".join(
            f"{_name(chunk)}: " + (f"{n} slots" if n else "no ring is large enough")
            for chunk, n in found.items()
        )
    return alt.Title(text, subtitle=[f"window {window}; dashed: window + chunk - 1"])
