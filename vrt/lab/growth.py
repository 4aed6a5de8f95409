"""How text grew while audio came in: what was on the screen, from when to when, below the waveform.

n samples at 16 kHz.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
from jaxtyping import Float32

from vrt.audio import SAMPLE_RATE
from vrt.lab.theme import INK, OKABE_ITO

PLOT_WIDTH, WAVE_HEIGHT, ROW_HEIGHT = 640, 60, 24
PEAK_S = 0.02  # of the waveform
MOST_SCREENS = 24
REST = 0.15  # of the recording, behind its end: room for what is certain then
LONGEST = 60  # characters of a text that are shown, its end
CERTAIN, OPEN = "committed: never changes", "tentative: the best so far"


def text_growth(
    rows: Sequence[Mapping[str, Any]], samples: Float32[np.ndarray, "n"]
) -> alt.VConcatChart:
    """A bar for each text that was on the screen, as long as it was there.

    `rows` are those of `vrt.lab.widgets.live_rows`, `samples` what they heard; of more than 24
    texts the last are drawn. Raises ValueError where no text ever showed.
    """
    screens = screen_rows(rows)[-MOST_SCREENS:]
    if not screens:
        raise ValueError(f"no text showed in {len(rows)} rows; nothing was said, or nothing heard")
    seconds = len(samples) / SAMPLE_RATE
    end = seconds * (1 + REST)
    screens[-1]["to"] = end
    time = alt.X("from:Q", title="audio heard (s)").scale(domain=[0, end], nice=False)
    order = alt.Y("number:O", axis=None)
    base = alt.Chart(alt.Data(values=screens))
    colour = alt.Color("kind:N", legend=alt.Legend(title=None, orient="top", labelLimit=300)).scale(
        domain=[CERTAIN, OPEN], range=[OKABE_ITO["blue"], OKABE_ITO["orange"]]
    )
    bars = base.mark_bar(height=6, cornerRadius=3, yOffset=8).encode(
        time, order, alt.X2("to:Q"), colour
    )
    said = base.mark_text(align="left", baseline="middle", color=INK, yOffset=-3)
    said = said.encode(time.scale(domain=[0, end], nice=False), order, alt.Text("said:N"))
    texts = alt.layer(bars, said).properties(width=PLOT_WIDTH, height=alt.Step(ROW_HEIGHT + 6))
    return alt.vconcat(_wave(samples, end), texts, spacing=4, title=_title(rows, screens))


def screen_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Consecutive rows of the same text as one: `from` and `to` in seconds, `said`, `kind`."""
    screens: list[dict[str, Any]] = []
    for row in rows:
        said = row["text"] + row["tentative"]
        kind = OPEN if row["tentative"] else CERTAIN
        if screens:
            screens[-1]["to"] = row["heard_s"]
        if said and not (screens and (screens[-1]["whole"], screens[-1]["kind"]) == (said, kind)):
            short = said if len(said) <= LONGEST else f"… {said[-LONGEST:]}"
            short = f"{short[:-1]}␣" if short.endswith(" ") else short
            at = {"from": row["heard_s"], "to": row["heard_s"]}
            screens.append(
                {"number": len(screens), "whole": said, "said": short, "kind": kind} | at
            )
    return screens


def _wave(samples: Float32[np.ndarray, "n"], end: float) -> alt.Chart:
    step = round(PEAK_S * SAMPLE_RATE)
    whole = len(samples) // step * step
    peaks = np.abs(samples[:whole]).reshape(-1, step).max(axis=1)
    rows = [
        {"at": number * PEAK_S, "up": float(peak), "down": -float(peak)}
        for number, peak in enumerate(peaks)
    ]
    time = alt.X("at:Q", axis=None).scale(domain=[0, end], nice=False)
    area = alt.Chart(alt.Data(values=rows)).mark_area(
        color=OKABE_ITO["sky"], interpolate="monotone"
    )
    return area.encode(time, alt.Y("up:Q", axis=None), alt.Y2("down:Q")).properties(
        width=PLOT_WIDTH, height=WAVE_HEIGHT
    )


def _title(rows: Sequence[Mapping[str, Any]], screens: Sequence[Mapping[str, Any]]) -> alt.Title:
    first, last = screens[0], rows[-1]
    return alt.Title(
        f"The first text shows after {first['from']:.2f} s of audio, the last word is certain at"
        f" {last['heard_s']:.2f} s",
        subtitle=[f"{len(screens)} texts were on the screen; a bar lasts as long as its text"],
    )
