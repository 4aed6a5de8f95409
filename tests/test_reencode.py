"""The ring against an encoder stream without caches, and how far back a frame really sees."""

import pytest
import torch
from small_models import noise, random_weights, small_config

from vrt.voxtral.config import EncoderConfig
from vrt.voxtral.mel import LogMel
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.reencode import ReencodeStream, receptive_frames
from vrt.voxtral.stem import StemState


def model(layers: int, window: int) -> VoxtralRealtime:
    """Attention sharp enough that a single key matters."""
    encoder = EncoderConfig(48, layers, 4, 16, 96, window)
    net = random_weights(small_config(encoder), seed=layers)
    for layer in net.encoder.layers:
        layer.attention.q.weight.mul_(4)
    return net


def mel(tokens: int) -> torch.Tensor:
    return LogMel()(torch.from_numpy(noise(tokens * 0.08 + 0.1, level=0.5)[: tokens * 1280]))


@torch.no_grad()
def ring_frames(model: VoxtralRealtime, mel: torch.Tensor, tokens: int) -> torch.Tensor:
    stem, state = StemState(model.stem), model.encoder.state()
    pieces = mel.split(8 * tokens)
    return torch.cat([model.encoder(model.stem(piece, stem), state) for piece in pieces])


def test_receptive_field_of_the_released_encoder() -> None:
    """24,000 frames: eight minutes of audio, where the window alone is fifteen seconds."""
    assert receptive_frames(EncoderConfig()) == 32 * 749 + 4 == 23_972


@pytest.mark.parametrize(("layers", "window"), [(1, 9), (2, 9), (3, 6), (2, 1), (4, 5)])
@pytest.mark.parametrize("tokens", [1, 3])
def test_ring_equals_reencoding(layers: int, window: int, tokens: int) -> None:
    """Windows that wrap many times in 60 tokens. Measured 0.0: a group sees the same keys in the
    same order either way. The gate of 1e-5 is for kernels that batch otherwise.
    """
    net, features = model(layers, window), mel(60)
    expected = ReencodeStream(net.stem, net.encoder).feed(features)
    got = ring_frames(net, features, tokens)
    assert got.abs().max() > 1
    assert (got - expected).abs().max() < 1e-5


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_window_alone_is_too_short_from_two_layers_on(layers: int) -> None:
    """Re-encoding window + 10 frames: right with one layer, wrong by more than 0.1 with more."""
    net, features = model(layers, window=16), mel(60)
    short = ReencodeStream(net.stem, net.encoder, frames=16 + 10).feed(features)
    error = (short - ring_frames(net, features, 1)).abs().max()
    assert error < 1e-5 if layers == 1 else error > 0.1


def test_one_frame_less_than_the_field_is_wrong() -> None:
    """The receptive field is tight: the oldest frame counted moves the newest."""
    net = model(layers=2, window=6)
    x = torch.randn(4 * 8, 48)
    field = receptive_frames(net.encoder.config)
    with torch.no_grad():
        moved = x.clone()
        oldest = len(x) - field + 3  # what the first of the newest four frames sees last
        moved[oldest - 3 : oldest] += 1
        assert (net.encoder(moved)[-4] - net.encoder(x)[-4]).abs().max() > 0
        moved = x.clone()
        moved[: oldest - 3] += 1
        assert (net.encoder(moved)[-4:] - net.encoder(x)[-4:]).abs().max() == 0


def test_memory_is_bounded_and_reset_forgets() -> None:
    net, features = model(2, 5), mel(40)
    stream = ReencodeStream(net.stem, net.encoder)
    first = stream.feed(features)
    assert len(stream.mel) == 8 * (-(-receptive_frames(net.encoder.config) // 4) + 1)
    stream.reset()
    assert torch.equal(stream.feed(features), first)


def test_fewer_frames_than_a_token_are_refused() -> None:
    net = model(1, 5)
    with pytest.raises(ValueError, match="frames=3 is less than the 4"):
        ReencodeStream(net.stem, net.encoder, frames=3)
