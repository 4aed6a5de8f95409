"""How far a stream is from the offline pass, and which operations would part them; a receipt.

The whole engine first: a small random model, streamed in pieces of several sizes, stage by stage.
Then the operations it is made of (`exact_rows`). One thread.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from vrt.bench.exact_rows import (
    ROWS,
    SHAPES,
    attention_differences,
    conv1d_difference,
    linear_differences,
    mel_difference,
    rotary_errors,
    silu_differences,
)
from vrt.bench.voxtral import Tell
from vrt.receipt import Receipt
from vrt.voxtral.config import SAMPLE_RATE, DecoderConfig, EncoderConfig, VoxtralConfig
from vrt.voxtral.measure.speed import torch_threads
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.offline import transcribe
from vrt.voxtral.session import StreamingSession
from vrt.voxtral.weights.random_model import random_model

FEEDS = (160, 333, 1280, 4096)  # samples
SECONDS = 2.5
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
# Windows of less than a second of audio, so that every ring wraps.
SMALL = VoxtralConfig(
    EncoderConfig(width=48, layers=3, heads=6, head_dim=16, ff=96, window=24),
    DecoderConfig(
        width=64, layers=2, heads=4, kv_heads=2, head_dim=32, ff=96, window=37, vocab=128
    ),
)


def bench_exact(tell: Tell) -> Receipt:
    """Measure all of it; the receipt is ended, not yet written."""
    parameters = {"feeds": FEEDS, "seconds": SECONDS, "rows": ROWS, "shapes": SHAPES, "threads": 1}
    receipt = Receipt.begin(parameters)
    with torch_threads(1), torch.no_grad():
        numbers = {"stream": {}, "linear": {}, "linear_shapes": len(SHAPES)}
        for name, dtype in DTYPES.items():
            tell(f"stream and linear layers, {name}")
            numbers["stream"][name] = stream_differences(dtype)
            numbers["linear"][name] = linear_differences(dtype)
        tell("convolution, mel, attention, SiLU, rotary angles")
        numbers |= {
            "conv1d": conv1d_difference(),
            "mel": mel_difference(),
            "attention": attention_differences(),
            "silu": silu_differences(),
            "rotary": rotary_errors(),
        }
    return receipt.end(numbers)


def stream_differences(dtype: torch.dtype) -> dict[str, Any]:
    """By stage the largest difference from the offline pass over `FEEDS`, and unequal tokens."""
    model = random_model(SMALL, seed=0, dtype=dtype)
    clip = bursts(SECONDS)
    offline = _Stages()
    expected = [token.id for token in transcribe(model, clip, observer=offline).tokens]
    worst, unequal = dict.fromkeys(offline.joined(), 0.0), 0
    for feed in FEEDS:
        got, tokens = _streamed(model, clip, feed)
        for stage, rows in offline.joined().items():
            worst[stage] = max(worst[stage], float((got[stage] - rows).abs().max()))
        unequal += sum(a != b for a, b in zip(tokens, expected, strict=True))
    return worst | {"tokens": len(expected), "unequal_tokens": unequal}


def bursts(seconds: float, level: float = 0.1) -> np.ndarray:
    """Noise that comes and goes: stationary noise alone gives every frame the same mel."""
    count = round(seconds * SAMPLE_RATE)
    envelope = level * np.abs(np.sin(np.arange(count) / 3000))
    return (np.random.default_rng(0).normal(size=count) * envelope).astype(np.float32)


def exact_table(receipt: Receipt) -> str:
    """A line an operation: whose rows depend on the batch, and by how much."""
    numbers = receipt.numbers
    rows = [
        *((f"stream, {name}, {s}", d) for name, d in numbers["stream"].items() for s in d),
        *((f"linear, {name}, {s}", d) for name, d in numbers["linear"].items() for s in d),
        *((part, numbers) for part in ("conv1d", "mel")),
        *((f"attention, {s}", numbers["attention"]) for s in numbers["attention"]),
        *((f"SiLU, {s}", numbers["silu"]) for s in numbers["silu"]),
        *((f"rotary, {arm}, {s}", d) for arm, d in numbers["rotary"].items() for s in d),
    ]
    return "\n".join(f"{name:<40} {found[name.split(', ')[-1]]:g}" for name, found in rows)


class _Stages:
    """An observer that keeps every stage's rows."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Tensor]] = {}

    def __call__(self, stage: str, output: Tensor, seconds: float) -> None:
        if output.numel():
            rows = output.detach().double().reshape(-1, output.shape[-1])
            self.rows.setdefault(stage, []).append(rows)

    def joined(self) -> dict[str, Tensor]:
        return {stage: torch.cat(rows) for stage, rows in self.rows.items()}


def _streamed(
    model: VoxtralRealtime, clip: np.ndarray, feed: int
) -> tuple[dict[str, Tensor], list[int]]:
    stages = _Stages()
    session = StreamingSession(model, 480, observer=stages)
    session.begin()
    for at in range(0, len(clip), feed):
        session.feed(clip[at : at + feed])
    tokens = [token.id for token in session.finalize().tokens]
    return stages.joined(), tokens
