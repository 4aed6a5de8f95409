"""One look for every chart, and the way from a chart to a small PNG.

theme.use()                       # in a notebook: all charts from here on
theme.save_png(chart, "a.png")    # anywhere, whatever theme is in use
"""

import io
import os
from pathlib import Path

import altair as alt

from vrt.lab.png import smaller_png

# Eight colours that stay apart for colour-blind readers (Okabe and Ito 2008).
OKABE_ITO = {
    "black": "#000000",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "green": "#009E73",
    "yellow": "#F0E442",
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "purple": "#CC79A7",
}
INK, SOFT, FAINT = "#1A1A1A", "#5F6368", "#E3E5E8"  # text, side remarks, grid lines
# vl-convert carries Liberation Sans, so a PNG looks the same on every machine.
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
WIDTH = 900  # pixels of a README's column
NAME = "vrt"


@alt.theme.register(NAME, enable=False)
def vrt_theme() -> alt.theme.ThemeConfig:
    """White ground, dark text from 12 pixels, a title that stands at the left edge."""
    axis = {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelColor": INK,
        "titleColor": SOFT,
        "gridColor": FAINT,
        "domainColor": SOFT,
        "tickColor": SOFT,
    }
    title = {
        "anchor": "start",
        "frame": "group",
        "fontSize": 16,
        "color": INK,
        "subtitleFontSize": 12.5,
        "subtitleColor": SOFT,
        "subtitlePadding": 5,
        "offset": 12,
    }
    return {
        "config": {
            "background": "white",
            "font": FONT,
            "axis": axis,
            "title": title,
            "header": {"labelFontSize": 12, "titleFontSize": 12},
            "legend": {"labelFontSize": 12, "titleFontSize": 12, "symbolSize": 90},
            "range": {"category": list(OKABE_ITO.values())},
            "text": {"fontSize": 12, "color": INK},
            "view": {"stroke": None},
        }
    }


def use() -> None:
    """Give this theme to every chart shown from here on."""
    alt.theme.enable(NAME)


def save_png(
    chart: alt.TopLevelMixin, path: str | os.PathLike[str], scale: int | float = 2
) -> Path:
    """Draw `chart` in this theme at `scale` pixels a unit; the theme in use stays as it was.

    With Pillow installed the file is written with a palette of 256 colours, several times smaller.
    """
    drawn = io.BytesIO()
    with alt.theme.enable(NAME):
        chart.save(drawn, format="png", scale_factor=scale)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(smaller_png(drawn.getvalue()))
    return target
