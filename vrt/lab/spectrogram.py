"""A log-mel spectrogram as a picture, and marks on its time axis.

T mel frames (10 ms), M mel bins.
"""

from collections.abc import Sequence

import altair as alt
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from vrt.voxtral.config import HOP, SAMPLE_RATE

PLOT_WIDTH, PLOT_HEIGHT = 700, 190
MOST_CELLS = 4800  # what a chart takes without becoming slow
BANDS = 32  # that are still a picture
LAP = 0.1  # of a cell, over its neighbours: against seams in a drawing of pixels


def spectrogram(
    mel: Float[ndarray, "T M"], title: str, marks: Sequence[int] = ()
) -> alt.LayerChart:
    """Time to the right, mel bins upward; `marks` are mel frames to be marked by upright lines.

    Bins and frames are averaged where there are more than a chart takes. Raises ValueError for a
    spectrogram without frames.
    """
    if not mel.size:
        raise ValueError(f"a spectrogram needs frames and bins, got {mel.shape}")
    step = HOP / SAMPLE_RATE
    bands = min(BANDS, mel.shape[1])
    every = -(-len(mel) * bands // MOST_CELLS)  # frames to a cell
    cells = _averaged(_averaged(mel, every, axis=0), -(-mel.shape[1] // bands), axis=1)
    high = mel.shape[1] / cells.shape[1]  # bins to a cell
    rows = [
        {
            "at": t * every * step,
            "to": (t + 1 + LAP) * every * step,
            "bin": band * high,
            "above": (band + 1 + LAP) * high,
            "level": round(float(cells[t, band]), 3),
        }
        for t in range(len(cells))
        for band in range(cells.shape[1])
    ]
    x = alt.X("at:Q", title="time of the padded stream (s)").scale(
        domain=[0, len(mel) * step], nice=False
    )
    y = alt.Y("bin:Q", title="mel bin").scale(domain=[0, mel.shape[1]], nice=False)
    colour = alt.Color("level:Q", title="log-mel").scale(scheme="viridis")
    picture = alt.Chart(alt.Data(values=rows)).mark_rect(clip=True)
    lines = alt.Chart(alt.Data(values=[{"at": mark * step} for mark in marks]))
    return alt.layer(
        picture.encode(x, y, alt.X2("to:Q"), alt.Y2("above:Q"), colour),
        lines.mark_rule(color="white", strokeWidth=1.5).encode(x),
    ).properties(width=PLOT_WIDTH, height=PLOT_HEIGHT, title=title)


def _averaged(values: Float[ndarray, "a b"], size: int, axis: int) -> Float[ndarray, "c d"]:
    """Means of `size` neighbours; those left over at the end are a group of their own."""
    starts = np.arange(0, values.shape[axis], size)
    sums = np.add.reduceat(values, starts, axis=axis)
    counts = np.diff([*starts, values.shape[axis]])
    return sums / np.expand_dims(counts, 1 - axis)
