"""How charts appear in a notebook: `vrt.lab.begin()` once, before the first chart.

Under the runner, and wherever no Jupyter server started the kernel, a chart is a static PNG. In a
live notebook it can be pointed at and zoomed, without a network; the PNG is stored beside it, so
that the saved file shows a picture wherever it is opened.
"""

import os
from importlib.util import find_spec
from typing import Any

import altair as alt
from altair.utils.mimebundle import spec_to_mimebundle

from vrt.lab import theme
from vrt.lab.png import smaller_png

BATCH = "VRT_LAB_BATCH"  # set by the runner
SERVED = "JPY_SESSION_NAME"  # set by a Jupyter server for the kernels that it starts
STATIC, LIVE = "vrt-static", "vrt-live"
SCALE = 2  # pixels of a PNG to a pixel on the screen
PNG, PLAIN = "image/png", "text/plain"

Bundle = tuple[dict[str, Any], dict[str, Any]]


def begin(live: bool | None = None) -> None:
    """Give charts shown from here on the theme of vrt, static or live; None finds out which.

    Raises ModuleNotFoundError where `live=True` asks for widgets that are not installed.
    """
    if live and not _has_widgets():
        raise ModuleNotFoundError("live charts need anywidget; pip install 'vrt[notebook]'")
    theme.use()
    alt.renderers.enable(LIVE if (is_live() if live is None else live) else STATIC)


def is_live() -> bool:
    """Whether this kernel belongs to an open notebook, as far as its environment tells."""
    return not os.environ.get(BATCH) and SERVED in os.environ and _has_widgets()


def _has_widgets() -> bool:
    return find_spec("anywidget") is not None


def static_bundle(spec: dict[str, Any]) -> Bundle:
    """A small PNG, its size on the screen, and what it says for who cannot see it."""
    shown, metadata = spec_to_mimebundle(
        spec,
        format="png",
        mode="vega-lite",
        vegalite_version=alt.VEGALITE_VERSION,
        scale_factor=SCALE,
    )
    text = description(spec)
    size = {side: round(metadata[PNG][side] / SCALE) for side in ("width", "height")}
    return {PNG: smaller_png(shown[PNG]), PLAIN: text}, {PNG: {**size, "alt": text}}


def live_bundle(spec: dict[str, Any]) -> Bundle:
    """A widget that needs no network, above the static bundle."""
    bundle, metadata = static_bundle(spec)
    alt.JupyterChart.enable_offline(True)
    chart = alt.Chart.from_dict({"description": description(spec), **spec})
    widget = alt.JupyterChart(chart=chart)._repr_mimebundle_()
    shown = widget[0] if isinstance(widget, tuple) else widget
    return {**shown, **bundle}, metadata


def description(spec: dict[str, Any]) -> str:
    """What a chart says of itself: its description, or else its title."""
    title = spec.get("title", "")
    if isinstance(title, dict):
        title = [title.get("text", ""), title.get("subtitle", "")]
    return str(spec.get("description") or _joined(title) or "a chart")


def _joined(text: Any) -> str:
    return text if isinstance(text, str) else "; ".join(filter(None, map(_joined, text)))


alt.renderers.register(STATIC, static_bundle)
alt.renderers.register(LIVE, live_bundle)
