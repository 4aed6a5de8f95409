"""Small random Voxtral models and the comparison of a stream with the offline path."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from vrt.voxtral.config import DecoderConfig, EncoderConfig, VoxtralConfig
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.observe import Observer
from vrt.voxtral.session import StreamingSession
from vrt.voxtral.transcript import Transcript

# Feed sizes that broke other implementations: one sample, around a mel hop and a token, the
# buffers of microphones (441 at 44.1 kHz, 512, 1024), several tokens at once.
FEEDS = (1, 7, 159, 160, 161, 333, 441, 512, 1000, 1024, 1280, 4096)


def small_config(
    encoder: EncoderConfig | None = None, decoder: DecoderConfig | None = None
) -> VoxtralConfig:
    """Windows far smaller than a second of audio, so that every ring wraps."""
    return VoxtralConfig(
        encoder or EncoderConfig(width=48, layers=3, heads=6, head_dim=16, ff=96, window=24),
        decoder
        or DecoderConfig(
            width=64, layers=2, heads=4, kv_heads=2, head_dim=32, ff=96, window=37, vocab=128
        ),
    )


def random_weights(config: VoxtralConfig, seed: int = 0) -> VoxtralRealtime:
    """Weights of about unit gain, biases and norms away from 0 and 1 so that each one matters."""
    model = VoxtralRealtime(config).requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        if "norm" in name:
            weight.copy_(1 + 0.1 * noise)
        elif weight.dim() == 1:
            weight.copy_(0.1 * noise)
        else:
            weight.copy_(noise * weight[0].numel() ** -0.5)
    model.decoder.embed.weight.mul_(3)
    model.projector.linear2.weight.mul_(6)
    return model.eval()


def noise(seconds: float, seed: int = 0, level: float = 0.1) -> np.ndarray:
    """Noise in bursts: stationary noise alone gives every frame the same mel."""
    n = round(seconds * 16_000)
    generator = np.random.default_rng(seed)
    envelope = np.abs(np.sin(np.arange(n) / 3000)) * level
    return (generator.normal(size=n) * envelope).astype(np.float32)


class Stages:
    """An observer that keeps every stage's rows."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Tensor]] = {}
        self.calls: dict[str, int] = {}

    def __call__(self, stage: str, output: Tensor, seconds: float) -> None:
        if output.numel():
            self.rows.setdefault(stage, []).append(output.clone().reshape(-1, output.shape[-1]))
        if output.numel() or stage != "mel":
            self.calls[stage] = self.calls.get(stage, 0) + 1

    def joined(self) -> dict[str, Tensor]:
        return {stage: torch.cat(rows) for stage, rows in self.rows.items()}


def pieces(samples: np.ndarray, feed: int | str) -> Iterator[np.ndarray]:
    """`samples` in pieces of `feed`, or of random sizes for "random:SEED"."""
    if isinstance(feed, int):
        yield from (samples[at : at + feed] for at in range(0, len(samples), feed))
        return
    generator = np.random.default_rng(int(feed.removeprefix("random:")))
    at = 0
    while at < len(samples):
        size = int(generator.integers(0, 3000))
        yield samples[at : at + size]
        at += size


def stream(
    model: VoxtralRealtime,
    samples: np.ndarray,
    feed: int | str = 1280,
    delay_ms: int = 480,
    observer: Observer | None = None,
    **settings: bool | int,
) -> Transcript:
    session = StreamingSession(model, delay_ms, observer=observer, **settings)
    session.begin()
    for piece in pieces(samples, feed):
        session.feed(piece)
    return session.finalize()


def worst_difference(got: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, float]:
    """Largest absolute difference by stage; shapes must agree."""
    assert {k: v.shape for k, v in got.items()} == {k: v.shape for k, v in expected.items()}
    return {k: (got[k].double() - v.double()).abs().max().item() for k, v in expected.items()}
