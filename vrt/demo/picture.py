"""The picture that a demo leaves; altair and vl-convert are loaded only here, when it is drawn."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCALE = 2  # pixels a unit, for dense screens


def draw(numbers: Mapping[str, Any], path: str | os.PathLike[str]) -> Path:
    """When each token came and what each stage cost. Raises ModuleNotFoundError without altair."""
    import altair as alt

    from vrt.lab import plot, theme

    timeline = plot.delay_timeline(numbers["timeline"])
    latency = plot.stage_latency(numbers["stages"])
    both = alt.vconcat(timeline, latency, spacing=26).resolve_scale(
        color="independent", shape="independent"
    )
    return theme.save_png(both, path, SCALE)
