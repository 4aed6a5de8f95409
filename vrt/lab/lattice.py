"""The hypotheses of a beam over its iterations: who came from whom, who was merged or pruned.

A column is what the beam holds after an iteration; a line leads from parent to child, the wider the
more probability the child has of what the best of its column has.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from vrt.golden.malsd_format import MalsdGolden
from vrt.lab.beam_steps import BLANK, CARRIED, FORCED, LABEL, MERGED, PRUNED, beam_steps
from vrt.lab.lattice_rows import Columns, end_rows, finding, line_rows, result_rows, slot_rows
from vrt.lab.theme import INK, OKABE_ITO, SOFT
from vrt.rnnt.trace import Trace

STEP = 42  # pixels from column to column and, in a narrow beam, from slot to slot
PLOT_WIDTH, LEAST_WIDTH, PLOT_HEIGHT, LEAST_ROW = 760, 340, 420, 20
COLUMNS = 18  # that fit the width
WIDEST, THINNEST = 8.0, 0.7  # pixels of a line
PALE, GREY = "#D5D9DE", "#B8BCC2"  # a blank, a line
LOOKS = {  # colour and shape of a slot by the move that made it, and of a slot's end
    LABEL: (OKABE_ITO["sky"], "circle"),
    BLANK: (PALE, "circle"),
    FORCED: (OKABE_ITO["orange"], "square"),
    CARRIED: (OKABE_ITO["green"], "diamond"),
    MERGED: (OKABE_ITO["purple"], "triangle-up"),
    PRUNED: (OKABE_ITO["vermilion"], "cross"),
}

Rows = Sequence[Mapping[str, Any]]


def beam_lattice(
    source: MalsdGolden | Trace,
    utterance: int = 0,
    names: Mapping[int, str] | None = None,
    first: int = 1,
    count: int = COLUMNS,
    score_norm: bool = True,
) -> alt.LayerChart:
    """Iterations `first` .. `first + count - 1` of one utterance, the beam before them on the left.

    `source` is a golden file of the `malsd` kind as `vrt.golden.malsd_format.read` gives it, or the
    `Trace` of a search; `names` are texts of labels, else their numbers are shown. `score_norm`, as
    in `BeamConfig`, tells which hypothesis is the best. Raises ValueError without such iterations.
    """
    columns, names = beam_steps(source, utterance, score_norm), names or {}
    if not 1 <= first < len(columns) or count < 1:
        raise ValueError(
            f"iterations {first}..{first + count - 1}: the search has 1..{len(columns) - 1}"
        )
    shown = columns[first - 1 : first + count]
    slots = 1 + max(max(m.slot, m.merged_into or 0) for column in shown for m in column)
    row = max(LEAST_ROW, min(STEP, PLOT_HEIGHT // slots))
    marks = _Marks(first - 1, len(shown), slots, min(row, STEP) / STEP)
    return (
        alt.layer(
            *marks.lines(line_rows(shown)),
            *marks.slots(slot_rows(shown, names)),
            *marks.ends(end_rows(shown)),
            marks.results(result_rows(shown[-1], names)),
        )
        .resolve_scale(strokeWidth="independent")
        .properties(
            width=max(LEAST_WIDTH, len(shown) * min(STEP, PLOT_WIDTH // len(shown))),
            height=(slots + 1) * row,
            title=_title(columns, first, len(shown), names),
        )
    )


class _Marks:
    """The marks of a lattice on one pair of axes; `size` shrinks them in a wide beam."""

    def __init__(self, start: int, columns: int, slots: int, size: float):
        self.start, self.frames_at, self.size = start, slots - 0.2, size
        x = alt.Axis(values=[*range(start, start + columns)], format="d", grid=False, domain=False)
        y = alt.Axis(values=[*range(slots)], format="d", grid=False, domain=False, ticks=False)
        self.x = alt.X("at:Q", title="iteration: one symbol of every hypothesis", axis=x).scale(
            domain=[start - 0.5, start + columns - 0.5], nice=False
        )
        self.y = alt.Y("slot:Q", title="slot", axis=y).scale(domain=[slots + 0.1, -0.6], nice=False)
        moves, colours = list(LOOKS), [colour for colour, _ in LOOKS.values()]
        shapes = [shape for _, shape in LOOKS.values()]
        legend = alt.Legend(title=None, orient="bottom", columns=6 if columns > 9 else 3)
        self.colour = alt.Color("move:N", legend=legend).scale(domain=moves, range=colours)
        self.shape = alt.Shape("move:N", legend=legend).scale(domain=moves, range=shapes)

    def lines(self, rows: Rows) -> list[alt.Chart]:
        """Those that lead to the best hypothesis over the others."""
        width = alt.StrokeWidth("share:Q", legend=None).scale(
            domain=[0, 1], range=[THINNEST, WIDEST * self.size]
        )
        return [
            _chart(rows, best=best)
            .mark_rule(color=colour, strokeCap="round")
            .encode(self.x, self.y, alt.X2("to:Q"), alt.Y2("to_slot:Q"), width)
            for best, colour in ((False, GREY), (True, OKABE_ITO["blue"]))
        ]

    def slots(self, rows: Rows) -> list[alt.Chart]:
        frame = [{**row, "slot": self.frames_at} for row in rows if row["best"]]
        hint = [alt.Tooltip(f"{key}:N") for key in ("move", "sign", "score", "frame")]
        dot = {"size": 420 * self.size**2, "opacity": 1, "strokeWidth": 2}
        return [
            _chart(rows)
            .mark_point(filled=True, **dot)
            .encode(self.x, self.y, self.colour, self.shape, tooltip=hint),
            _chart(rows, best=True)
            .mark_point(filled=False, stroke=OKABE_ITO["blue"], **dot)
            .encode(self.x, self.y, self.shape),
            _chart(rows).mark_text(fontWeight="bold").encode(self.x, self.y, alt.Text("sign:N")),
            _chart(frame).mark_text(color=SOFT).encode(self.x, self.y, alt.Text("frame:Q")),
            _chart([{"at": self.start - 0.5, "slot": self.frames_at}])
            .mark_text(text="frame", color=SOFT, align="right")
            .encode(self.x, self.y),
        ]

    def ends(self, rows: Rows) -> list[alt.Chart]:
        """A cross beside a slot that was pruned; an arrow from a merged one to who took it in."""
        heads = [{**row, "slot": row["into"]} for row in rows]
        return [
            _chart([row for row in rows if row["move"] == MERGED])
            .mark_rule(color=OKABE_ITO["purple"], strokeWidth=2)
            .encode(self.x, self.y, alt.Y2("into:Q")),
            _chart(heads)
            .mark_point(filled=True, size=75, opacity=1)
            .encode(self.x, self.y, self.colour, self.shape, alt.Angle("angle:Q", scale=None)),
        ]

    def results(self, rows: Rows) -> alt.Chart:
        base = _chart(rows).mark_text(align="left", dx=8, color=INK)
        return base.encode(self.x, self.y, alt.Text("said:N"))


def _chart(rows: Rows, best: bool | None = None) -> alt.Chart:
    kept = [row for row in rows if best is None or row["best"] == best]
    return alt.Chart(alt.Data(values=kept))


def _title(columns: Columns, first: int, shown: int, names: Mapping[int, str]) -> alt.Title:
    part = f"Shown: iterations {first} to {first + shown - 2}. " if shown < len(columns) else ""
    return alt.Title(
        finding(columns, names),
        subtitle=[
            f"{part}Blue line: the way of the best; below it the encoder frame it reads next.",
            "Width: probability over that of the column's best.",
        ],
    )
