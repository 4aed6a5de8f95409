"""When each word appears at several transcription delays, against the audio it speaks about.

Times are seconds of audio received.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import altair as alt

from vrt.lab.theme import OKABE_ITO, SOFT

PLOT_WIDTH, ROW_HEIGHT = 700, 36
UP, DOWN = -6, 9  # pixels from a line: where words and where points stand
APPEARS, AT_END = "the word's text is complete", "complete at the end of the clip"
LOOKS = {APPEARS: (OKABE_ITO["blue"], "circle"), AT_END: (OKABE_ITO["orange"], "diamond")}


def word_delays(rows: Sequence[Mapping[str, Any]], clip_s: int | float) -> alt.LayerChart:
    """One line a delay: a bar for the audio that a word's tokens speak about, a point where its
    text was complete.

    `rows` are those of `Streamed.words` at several delays, `clip_s` the length of the clip; text
    that came out there was not late by its delay, the clip had ended. Raises ValueError without a
    word.
    """
    if not rows:
        raise ValueError("word_delays has nothing to show: no word was heard")
    points = [
        {**row, "line": _line(row), "what": AT_END if row["appeared"] >= clip_s else APPEARS}
        for row in rows
    ]
    order = [_line(row) for row in sorted(rows, key=lambda row: row["delay_ms"])]
    y = alt.Y("line:N", title="transcription delay", sort=list(dict.fromkeys(order)))
    end = max(clip_s, max(row["appeared"] for row in rows))
    x = alt.X("start:Q", title="audio received (s)").scale(domain=[0, end * 1.04], nice=False)
    at = alt.X("appeared:Q")
    kinds, base = {"domain": list(LOOKS)}, alt.Chart(alt.Data(values=points))
    legend = alt.Legend(title=None, orient="bottom", labelLimit=300)
    colour = alt.Color("what:N", legend=legend).scale(range=[c for c, _ in LOOKS.values()], **kinds)
    shape = alt.Shape("what:N", legend=legend).scale(range=[s for _, s in LOOKS.values()], **kinds)
    over = alt.Chart(alt.Data(values=[{"start": clip_s}]))
    return alt.layer(
        over.mark_rule(color=SOFT, strokeDash=[2, 3]).encode(x),
        base.mark_rule(color=SOFT, strokeWidth=1, yOffset=DOWN).encode(
            alt.X("end:Q"), y, alt.X2("appeared:Q")
        ),
        base.mark_bar(height=16, yOffset=UP, color=OKABE_ITO["sky"], opacity=0.7).encode(
            x, y, alt.X2("end:Q")
        ),
        base.mark_text(align="left", dx=3, dy=UP).encode(x, y, alt.Text("word:N")),
        base.mark_point(filled=True, size=80, opacity=1, yOffset=DOWN).encode(at, y, colour, shape),
    ).properties(width=PLOT_WIDTH, height=alt.Step(ROW_HEIGHT), title=_title(points))


def _line(row: Mapping[str, Any]) -> str:
    return f"{row['delay_ms']} ms"


def _title(points: Sequence[Mapping[str, Any]]) -> alt.Title:
    """How long after a word's end its text is complete, at both ends of the sweep; medians."""
    live = [row for row in points if row["what"] == APPEARS]
    late = {
        delay: median(r["appeared"] - r["end"] for r in live if r["delay_ms"] == delay)
        for delay in sorted({row["delay_ms"] for row in live})
    }
    subtitle = ["bars: the audio that a word's tokens speak about; dotted line: the clip's end"]
    if not late:
        return alt.Title("All words come out at the end of the clip", subtitle=subtitle)
    first, last = min(late), max(late)
    parts = [f"{late[first] * 1000:.0f} ms after its audio at a delay of {first} ms"]
    if last != first:
        parts.append(f"{late[last] * 1000:.0f} ms at {last} ms")
    return alt.Title(f"Text is complete {', '.join(parts)}", subtitle=subtitle)
