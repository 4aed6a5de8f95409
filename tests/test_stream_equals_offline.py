"""A stream gives the offline path's numbers, bit for bit, whatever the feed size.

The offline arm makes one batched call a stage (counted here) over other shapes than the stream's
calls, so each 0.0 below could come out otherwise: `test_another_unit_of_work_differs` shows it.
"""

import numpy as np
import pytest
import torch
from small_models import (
    FEEDS,
    Stages,
    noise,
    random_weights,
    small_config,
    stream,
    worst_difference,
)

from vrt.voxtral import layers
from vrt.voxtral.config import DecoderConfig, EncoderConfig
from vrt.voxtral.encoder import Encoder
from vrt.voxtral.mel import LogMel
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.offline import transcribe
from vrt.voxtral.stem import ConvStem

ZERO = {"mel": 0.0, "conv_stem": 0.0, "encoder": 0.0, "projector": 0.0, "logits": 0.0}
DTYPES = (torch.float32, torch.bfloat16)

SHAPES = {
    "window 24, grouped queries": small_config(),
    "window 1": small_config(EncoderConfig(32, 2, 2, 16, 64, window=1)),
    "odd sizes": small_config(
        EncoderConfig(36, 2, 3, 10, 44, window=7),
        DecoderConfig(44, 2, 6, 3, 18, 52, window=5, vocab=77),
    ),
    "window longer than the clip": small_config(
        EncoderConfig(48, 2, 4, 16, 96, window=750),
        DecoderConfig(48, 2, 4, 4, 16, 96, window=8192, vocab=128),
    ),
}


def compare(model: VoxtralRealtime, clip: np.ndarray, feed: int | str) -> None:
    offline, streamed = Stages(), Stages()
    expected = transcribe(model, clip, observer=offline)
    got = stream(model, clip, feed, observer=streamed)
    assert {k: n for k, n in offline.calls.items() if k != "logits"} == {
        "mel": 1,
        "conv_stem": 1,
        "encoder": 1,
        "projector": 1,
    }
    assert worst_difference(streamed.joined(), offline.joined()) == ZERO
    assert got.tokens == expected.tokens
    assert offline.joined()["logits"].std(dim=0).max() > 1e-3, "nothing varies in this model"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("feed", [*FEEDS, 48_001, "random:1", "random:2"])
def test_every_feed_size(feed: int | str, dtype: torch.dtype) -> None:
    model = random_weights(small_config()).to(dtype)
    seconds = 0.6 if feed == 1 else 3.0
    compare(model, noise(seconds)[: round(seconds * 16_000) - 37], feed)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("feed", [333, 1280, 30_000])
def test_every_shape(shape: str, feed: int, dtype: torch.dtype) -> None:
    compare(random_weights(SHAPES[shape], seed=3).to(dtype), noise(2.5, seed=4), feed)


@pytest.mark.parametrize("samples", [0, 1, 39, 40, 41, 160, 1264, 1279, 1280, 1281, 1296])
def test_every_short_clip(samples: int) -> None:
    """1 sample, 10 ms, 79 ms, 80 ms and 81 ms clips among them: none is dropped or special."""
    model = random_weights(small_config())
    offline = transcribe(model, noise(1, level=0.5)[:samples])
    assert stream(model, noise(1, level=0.5)[:samples], 512).tokens == offline.tokens
    assert len(offline.tokens) == -(-samples // 1280) + 6 + 11 - (6 + 1) + 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("threads", [2, 3, 5])
def test_threads(threads: int, dtype: torch.dtype) -> None:
    """Work enough for every thread: a feed-forward width where torch's own SiLU, which each thread
    ends with other arithmetic, differs by 6e-7 in the encoder.
    """
    config = small_config(EncoderConfig(40, 1, 2, 16, ff=1032, window=24))
    torch.set_num_threads(threads)
    try:
        compare(random_weights(config, seed=5).to(dtype), noise(3, seed=6), 777)
    finally:
        torch.set_num_threads(1)


def test_torch_silu_would_differ(monkeypatch) -> None:
    """The mistake that `silu` avoids is seen where 4 * ff is no multiple of 32."""
    monkeypatch.setattr(layers, "silu", torch.nn.functional.silu)
    model = random_weights(SHAPES["odd sizes"], seed=3)
    offline, streamed = Stages(), Stages()
    transcribe(model, noise(2.5, seed=4), observer=offline)
    stream(model, noise(2.5, seed=4), 333, observer=streamed)
    assert 0 < worst_difference(streamed.joined(), offline.joined())["encoder"] < 1e-4


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_torch_defaults_do_not_matter(dtype: torch.dtype) -> None:
    model, clip = random_weights(small_config()), noise(1)
    expected = transcribe(model, clip).tokens
    torch.set_default_dtype(dtype)
    try:
        assert transcribe(model, clip).tokens == stream(model, clip, 333).tokens == expected
        assert LogMel().window.dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


def test_real_speech(speech_dir) -> None:
    from vrt.audio import read

    clip = read(speech_dir / "librispeech" / "251-137823-0002.flac").samples
    for dtype in DTYPES:
        compare(random_weights(small_config(), seed=7).to(dtype), clip, 441)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_layer_at_the_released_width(dtype: torch.dtype) -> None:
    """Stem and one encoder layer (1280, 32 x 64, window 750), past two compactions of the ring."""
    config = small_config(EncoderConfig(layers=1))
    stem, encoder = ConvStem(config), Encoder(config.encoder)
    generator = torch.Generator().manual_seed(0)
    for module in (stem, encoder):
        for weight in module.requires_grad_(False).parameters():
            weight.normal_(0, 0.03, generator=generator)
        module.to(dtype)
    mel = torch.randn(8 * 470, 128, generator=generator) * 0.4
    frames = encoder(stem(mel))
    from vrt.voxtral.stem import StemState

    stem_state, state = StemState(stem), encoder.state()
    # One token at a time, several, more than a ring's spare slots: 787 at the released window.
    sizes = [1] * 205 + [3, 5, 64, 128, 60] + [1] * 5
    got = [encoder(stem(piece, stem_state), state) for piece in mel.split([8 * s for s in sizes])]
    assert state.rings[0].compactions >= 2
    assert (torch.cat(got).float() - frames.float()).abs().max().item() == 0.0


def test_another_unit_of_work_differs() -> None:
    """The comparison can fail: three rows in place of four give a linear layer other last bits."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(1280, 640, generator=generator)
    rows = torch.randn(4, 640, generator=generator)
    whole = torch.nn.functional.linear(rows, weight)
    single = torch.nn.functional.linear(rows[:1], weight)
    assert 0 < (whole[0] - single[0]).abs().max().item() < 1e-3


def test_decode_every_gives_the_same_tokens() -> None:
    model = random_weights(small_config())
    clip = noise(3)
    expected = transcribe(model, clip).tokens
    for group in (2, 5, 1000):
        assert stream(model, clip, 1024, decode_every=group).tokens == expected
