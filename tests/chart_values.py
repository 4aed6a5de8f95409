"""What the tests of charts share: a chart's data by the mark that draws it, and its picture."""

from pathlib import Path

import altair as alt
import numpy as np
from PIL import Image

from vrt.lab import theme


def drawn(chart: alt.TopLevelMixin, path: Path, widest: int = 1000) -> np.ndarray:
    """The chart as a picture that a README could hold: not blank, and not wider than `widest`."""
    image = Image.open(theme.save_png(chart, path / "chart.png", scale=1.0))
    pixels = np.asarray(image.convert("L"), dtype=float)
    assert image.width <= widest and image.height >= 80
    assert pixels.std() > 5  # a blank page has 0
    return np.asarray(image.convert("RGB"))


def layers(spec: dict) -> list[dict]:
    """All single marks of a chart, in the order of drawing."""
    for key in ("layer", "hconcat", "vconcat", "concat"):
        if key in spec:
            return [layer for part in spec[key] for layer in layers(part)]
    return layers(spec["spec"]) if "spec" in spec else [spec]


def rows_of(spec: dict, mark: str) -> list[dict]:
    """The rows of every layer drawn by `mark`."""
    found = [layer for layer in layers(spec) if layer["mark"]["type"] == mark]
    return [row for layer in found for row in layer.get("data", spec.get("data"))["values"]]
