"""The picture at the top of the README, from the receipt of a demo:

python -m vrt.demo.readme vrt-demo/receipt.json data/pictures/stream.png
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vrt.demo.picture import SCALE
from vrt.receipt import Receipt
from vrt.voxtral.config import (
    FRAMES_PER_TOKEN,
    MEL_PER_TOKEN,
    SAMPLES_PER_TOKEN,
    TOKEN_MS,
    TOKEN_SECONDS,
    VoxtralConfig,
)
from vrt.voxtral.measure.flow import REACH

DIAGRAM_WIDTH = 858  # with the timeline's labels below it, 900 pixels in all
TITLE = "Each stage works on new audio only, and remembers what the next step needs"
SUBTITLE = (
    "Voxtral Realtime at its released size: what each 80 ms of audio become, and what is kept"
)


def draw(numbers: Mapping[str, Any], path: str | os.PathLike[str]) -> Path:
    """The stages at the released sizes, and below them when each token of the demo came."""
    import altair as alt

    from vrt.lab import plot, theme

    diagram = plot.stage_diagram(
        stages(VoxtralConfig()),
        goes_in=["audio", f"{SAMPLES_PER_TOKEN} samples", f"{TOKEN_MS} ms"],
        comes_out=["text", "1 token", f"{TOKEN_MS} ms"],
        loop="the previous token",
        width=DIAGRAM_WIDTH,
    ).properties(title=alt.Title(TITLE, subtitle=[SUBTITLE]))
    timeline = plot.delay_timeline(numbers["timeline"])
    return theme.save_png(alt.vconcat(diagram, timeline, spacing=26), path, SCALE)


def stages(config: VoxtralConfig) -> list[dict[str, Any]]:
    """Each stage for one token: what it is, what it gives out, and what it remembers."""
    enc, dec = config.encoder, config.decoder
    frame_ms, mel_ms = TOKEN_MS // FRAMES_PER_TOKEN, TOKEN_MS // MEL_PER_TOKEN
    frames = f"{FRAMES_PER_TOKEN} × {enc.width}, {frame_ms} ms"
    columns = (
        ("Log-mel", "spectrogram", f"{MEL_PER_TOKEN} × {config.mel_bins}, {mel_ms} ms"),
        ("Conv stem", "2 convolutions", frames),
        ("Encoder", f"{enc.layers} layers", frames),
        ("Projector", f"{FRAMES_PER_TOKEN} frames into 1", f"1 × {dec.width}, {TOKEN_MS} ms"),
        ("Decoder", f"{dec.layers} layers", f"1 of {dec.vocab:,} ids"),
    )
    remembers = {
        "Log-mel": ["the last samples,", f"at most {REACH - 1}"],
        "Conv stem": ["2 mel frames,", "1 frame between"],
        "Encoder": ["keys and values of", f"the last {enc.window * frame_ms // 1000} s"],
        "Decoder": ["keys and values of", f"the last {dec.window * TOKEN_SECONDS / 60:.0f} min"],
    }
    return [
        {"name": name, "lines": lines, "remembers": remembers.get(name, [])}
        for name, *lines in columns
    ]


if __name__ == "__main__":
    draw(Receipt.load(sys.argv[1]).numbers, sys.argv[2])
