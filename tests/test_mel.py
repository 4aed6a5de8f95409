"""Log-mel against transformers' filters and torch.stft, and its look-ahead of 40 samples."""

import numpy as np
import pytest
import torch
from small_models import FEEDS, noise, pieces

from vrt.voxtral.mel import LogMel, LogMelStream, hann, mel_filters


def test_filters_equal_the_reference() -> None:
    """Both in float64, then fp32: equal to the last bit but where log and exp round otherwise."""
    audio_utils = pytest.importorskip("transformers.audio_utils")
    expected = audio_utils.mel_filter_bank(
        num_frequency_bins=201,
        num_mel_filters=128,
        min_frequency=0.0,
        max_frequency=8000.0,
        sampling_rate=16_000,
        norm="slaney",
        mel_scale="slaney",
    ).astype(np.float32)
    # Measured: 0.0. The gate is one fp32 rounding of the largest filter (0.042), for another libm.
    assert np.abs(mel_filters().numpy() - expected).max() < 4e-9


def test_features_equal_the_reference() -> None:
    """Its feature extractor on a padded clip; measured 1.2e-7 (|X|^2 by abs() there). Gate 5e-7."""
    transformers = pytest.importorskip("transformers")
    extractor = transformers.VoxtralRealtimeFeatureExtractor()
    clip = np.concatenate([np.zeros(1280), noise(1.2, level=2.0), np.zeros(1280)])
    clip = clip[: len(clip) // 1280 * 1280].astype(np.float32)
    clip[-1280:] = 0  # the reference reflects at the end; reflected zeros are zeros
    expected = extractor(clip, sampling_rate=16_000, return_tensors="pt")["input_features"][0]
    got = LogMel()(torch.from_numpy(clip)).T
    assert got.max() > 1.0, "loud enough to pass the level that sets the floor"
    assert (got - expected).abs().max() < 5e-7


def test_float64_reference() -> None:
    """numpy in float64 from the definition; measured 1.3e-6 (fp32 FFT). Gate 2e-5."""
    clip = noise(0.4, level=0.3)[: 4 * 1280]
    padded = np.concatenate([np.zeros(200), clip.astype(np.float64), np.zeros(40)])
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    frames = np.stack([padded[t * 160 : t * 160 + 400] * window for t in range(32)])
    power = np.abs(np.fft.rfft(frames)) ** 2 @ mel_filters().double().numpy()
    expected = (np.maximum(np.log10(np.maximum(power, 1e-10)), 1.5 - 8) + 4) / 4
    assert np.abs(LogMel()(torch.from_numpy(clip)).numpy() - expected).max() < 2e-5


def test_silence_is_the_floor() -> None:
    assert torch.equal(LogMel()(torch.zeros(1280)), torch.full((8, 128), -0.625))


def test_the_window_is_periodic() -> None:
    assert hann()[0] == 0 and hann()[200] == 1 and hann()[1] == hann()[399]


@pytest.mark.parametrize("feed", [*FEEDS, "random:3"])
def test_pieces_equal_whole(feed: int | str) -> None:
    clip = noise(1.0, seed=1)[: 12 * 1280]
    stream = LogMelStream(LogMel())
    got = [stream.feed(torch.from_numpy(piece)) for piece in pieces(clip, feed)]
    got.append(stream.feed(torch.zeros(40)))
    assert torch.equal(torch.cat(got), LogMel()(torch.from_numpy(clip)))


def test_a_token_needs_40_samples_past_its_end_and_no_more() -> None:
    stream = LogMelStream(LogMel())
    assert len(stream.feed(torch.zeros(1280 + 39))) == 0
    assert len(stream.feed(torch.zeros(1))) == 8
    assert len(stream.feed(torch.zeros(1279))) == 0
    assert len(stream.feed(torch.zeros(1))) == 8


def test_memory_is_bounded() -> None:
    stream = LogMelStream(LogMel())
    for size in (1, 100_000, 37, 1280, 16_000):
        stream.feed(torch.zeros(size))
        assert len(stream.pending) < 1520
        assert stream.pending.untyped_storage().nbytes() < 1520 * 4


def test_a_part_of_a_token_is_refused() -> None:
    with pytest.raises(ValueError, match="whole tokens of 1280 samples, got 1281"):
        LogMel()(torch.zeros(1281))
