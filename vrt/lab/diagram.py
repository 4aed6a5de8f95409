"""A drawn pipeline: one box a stage, what it gives to the next, and what it remembers below it.

Coordinates are pixels from the upper left corner.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from vrt.lab.theme import INK, OKABE_ITO, SOFT

SIDE = 80  # width of what goes in, and of what comes out
GAP = 20  # between boxes, for an arrow
LOOP, TOP, BOTTOM, MEMORY, HEIGHT = 14, 32, 112, 126, 190  # y of the edges
LINE = 17  # from one line of text to the next

Pixels = int | float

FILL = {"stage": "#E3F0F9", "memory": "#FFF4D6"}
EDGE = {"stage": OKABE_ITO["blue"], "memory": OKABE_ITO["orange"]}


def stage_diagram(
    stages: Sequence[Mapping[str, Any]],
    goes_in: Sequence[str],
    comes_out: Sequence[str],
    loop: str,
    width: int,
) -> alt.LayerChart:
    """Boxes from left to right; what comes out also goes back into the last one, named `loop`.

    A stage has a `name`, two `lines` of text, and two lines in `remembers` (empty: nothing).
    `goes_in` and `comes_out` are a bold and two plain lines.
    """
    box = (width - 2 * SIDE - (len(stages) + 1) * GAP) / len(stages)
    lefts = [SIDE + GAP + i * (box + GAP) for i in range(len(stages))]
    out, middle = width - SIDE / 2, (TOP + BOTTOM) / 2
    keeps = [(left, stage) for left, stage in zip(lefts, stages, strict=True) if stage["remembers"]]
    last = lefts[-1] + box / 2
    rects = [_rect(left, left + box, TOP, BOTTOM, "stage") for left in lefts]
    rects += [_rect(left, left + box, MEMORY, HEIGHT, "memory") for left, _ in keeps]
    paths = [[(x - GAP + 3, middle), (x - 4, middle)] for x in [*lefts, width - SIDE]]
    paths += [[(left + box / 2, BOTTOM), (left + box / 2, MEMORY)] for left, _ in keeps]
    paths += [[(out, TOP + 6), (out, LOOP), (last, LOOP), (last, TOP - 4)]]
    texts = [_text((last + out) / 2, LOOP - 8, loop, "soft")]
    texts += _lines(SIDE / 2, middle, goes_in, "bold") + _lines(out, middle, comes_out, "bold")
    for left, stage in zip(lefts, stages, strict=True):
        texts += _lines(left + box / 2, middle, [stage["name"], *stage["lines"]], "bold")
    for left, stage in keeps:
        texts += _lines(
            left + box / 2, (MEMORY + HEIGHT) / 2, ["remembers", *stage["remembers"]], "soft"
        )
    heads = [(x - 5, middle, 90) for x in [*lefts, width - SIDE]] + [(last, TOP - 5, 180)]
    layers = [
        *_drawn(rects, width),
        _paths(paths, width),
        _heads(heads, width),
        *_written(texts, width),
    ]
    return alt.layer(*layers).properties(width=width, height=HEIGHT)


def _rect(left: Pixels, right: Pixels, top: Pixels, bottom: Pixels, kind: str) -> dict[str, Any]:
    return {"x": left, "x2": right, "y": top, "y2": bottom, "kind": kind}


def _text(x: Pixels, y: Pixels, text: str, style: str) -> dict[str, Any]:
    return {"x": x, "y": y, "text": text, "style": style}


def _lines(x: Pixels, middle: Pixels, lines: Sequence[str], head: str) -> list[dict[str, Any]]:
    """Lines of text centred around `middle`, the first in another style."""
    top = middle - LINE * (len(lines) - 1) / 2
    styles = [head] + ["plain"] * (len(lines) - 1)
    return [
        _text(x, top + LINE * i, line, style)
        for i, (line, style) in enumerate(zip(lines, styles, strict=True))
    ]


def _place(width: int) -> tuple[alt.X, alt.Y]:
    x = alt.X("x:Q", axis=None).scale(domain=[0, width], nice=False)
    return x, alt.Y("y:Q", axis=None).scale(domain=[HEIGHT, 0], nice=False)


def _drawn(rects: Sequence[Mapping[str, Any]], width: int) -> list[alt.Chart]:
    return [
        alt.Chart(alt.Data(values=[r for r in rects if r["kind"] == kind]))
        .mark_rect(
            fill=FILL[kind],
            stroke=EDGE[kind],
            strokeDash=[4, 3] if kind == "memory" else [1, 0],
            cornerRadius=6,
        )
        .encode(*_place(width), alt.X2("x2:Q"), alt.Y2("y2:Q"))
        for kind in FILL
    ]


def _paths(paths: Sequence[Sequence[tuple[Pixels, Pixels]]], width: int) -> alt.Chart:
    rows = [
        {"x": x, "y": y, "path": number, "step": step}
        for number, path in enumerate(paths)
        for step, (x, y) in enumerate(path)
    ]
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(color=SOFT, strokeWidth=1.5)
        .encode(*_place(width), alt.Detail("path:N"), alt.Order("step:Q"))
    )


def _heads(heads: Sequence[tuple[Pixels, Pixels, int]], width: int) -> alt.Chart:
    """Arrow heads; angle 90 points to the right, 180 down."""
    rows = [{"x": x, "y": y, "angle": angle} for x, y, angle in heads]
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_point(shape="triangle", filled=True, size=70, color=SOFT, opacity=1)
        .encode(*_place(width), alt.Angle("angle:Q", scale=None))
    )


def _written(texts: Sequence[Mapping[str, Any]], width: int) -> list[alt.Chart]:
    looks = {
        "bold": {"fontSize": 14, "fontWeight": "bold", "color": INK},
        "plain": {"fontSize": 12, "color": INK},
        "soft": {"fontSize": 12, "fontStyle": "italic", "color": SOFT},
    }
    return [
        alt.Chart(alt.Data(values=[t for t in texts if t["style"] == style]))
        .mark_text(baseline="middle", **look)
        .encode(*_place(width), alt.Text("text:N"))
        for style, look in looks.items()
    ]
