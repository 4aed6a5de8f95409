"""How much of the past must be encoded again to get the newest frames right: a receipt.

Small random encoders of 1 to 4 layers, attention sharp enough that a single key matters; the
encoder stream without caches (`ReencodeStream`) against the ring, over a slice of three lengths.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vrt.bench.exact import SMALL, bursts
from vrt.bench.voxtral import Tell
from vrt.receipt import Receipt
from vrt.voxtral.config import (
    FRAMES_PER_TOKEN,
    MEL_PER_TOKEN,
    SAMPLES_PER_TOKEN,
    EncoderConfig,
    VoxtralConfig,
)
from vrt.voxtral.measure.speed import torch_threads
from vrt.voxtral.mel import LogMel
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.reencode import ReencodeStream, receptive_frames
from vrt.voxtral.stem import StemState
from vrt.voxtral.weights.random_model import random_model

LAYERS = (1, 2, 3, 4)
WINDOW, WIDTH, TOKENS = 24, 48, 120
SHARP = 4.0  # times the query weights


def bench_reencode(tell: Tell) -> Receipt:
    """Measure every depth and slice; the receipt is ended, not yet written."""
    parameters = {"layers": LAYERS, "window": WINDOW, "width": WIDTH, "tokens": TOKENS}
    receipt = Receipt.begin(parameters | {"sharp": SHARP, "threads": 1})
    rows = []
    with torch_threads(1), torch.no_grad():
        mel = LogMel()(torch.from_numpy(bursts(TOKENS * SAMPLES_PER_TOKEN / 16_000, level=0.5)))
        for layers in LAYERS:
            tell(f"{layers} layers")
            rows += measured(layers, mel)
    return receipt.end({"rows": rows, "released": released()})


def measured(layers: int, mel: Float[Tensor, "T M"]) -> list[dict[str, Any]]:
    """The slices of one depth against the ring."""
    model = sharp_model(layers)
    ring = ring_frames(model, mel)
    field = receptive_frames(model.encoder.config)
    slices = {
        "window + 10": WINDOW + 10,
        "field - 4": field - FRAMES_PER_TOKEN,
        "field": field,
    }
    return [
        {
            "layers": layers,
            "slice": name,
            "frames": frames,
            "largest_error": float((_again(model, mel, frames) - ring).abs().max()),
            "largest_frame": float(ring.abs().max()),
        }
        for name, frames in slices.items()
    ]


def released() -> dict[str, int | float]:
    """What the released encoder would have to encode again for each token, by its sizes."""
    field = receptive_frames(EncoderConfig())
    times = field / FRAMES_PER_TOKEN
    return {"field_frames": field, "minutes": field / 50 / 60, "times_the_linear_layers": times}


def sharp_model(layers: int) -> VoxtralRealtime:
    encoder = EncoderConfig(WIDTH, layers, 4, 16, 2 * WIDTH, WINDOW)
    model = random_model(VoxtralConfig(encoder, SMALL.decoder), seed=layers)
    for layer in model.encoder.layers:
        layer.attention.q.weight.mul_(SHARP)
    return model


def ring_frames(model: VoxtralRealtime, mel: Float[Tensor, "T M"]) -> Float[Tensor, "half D"]:
    stem, state = StemState(model.stem), model.encoder.state()
    pieces = mel.split(MEL_PER_TOKEN)
    return torch.cat([model.encoder(model.stem(piece, stem), state) for piece in pieces])


def reencode_table(receipt: Receipt) -> str:
    lines = [f"{'layers':>6}  {'slice':<12} {'frames':>6}  largest error"]
    for row in receipt.numbers["rows"]:
        lines.append(
            f"{row['layers']:>6}  {row['slice']:<12} {row['frames']:>6}  {row['largest_error']:.2g}"
        )
    return "\n".join(lines)


def _again(
    model: VoxtralRealtime, mel: Float[Tensor, "T M"], frames: int
) -> Float[Tensor, "half D"]:
    return ReencodeStream(model.stem, model.encoder, frames).feed(mel)
