"""Each effect does what it says, in numbers."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from vrt.rnnt.front import MEL_BINS, LogMelFront
from vrt.train import augment
from vrt.train.schedule import learning_rate


def tone(hz, count=16_000, hull=True):
    wave = 0.1 * np.sin(2 * np.pi * hz * np.arange(count) / 16_000)
    return (wave * (np.hanning(count) if hull else 1)).astype(np.float32)


def peak_hz(samples):
    spectrum = np.abs(np.fft.rfft(samples, 1 << 17))
    return np.argmax(spectrum) * 16_000 / (1 << 17)


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("factor", [0.8, 0.93, 1.0, 1.1, 1.25])
def test_speed_moves_pitch_and_length_and_keeps_the_level(factor):
    samples = tone(1000)
    faster = augment.speed(samples, factor)
    assert faster.dtype == np.float32
    assert peak_hz(faster) == pytest.approx(1000 * factor, rel=0.005)
    assert len(faster) == pytest.approx(len(samples) / factor, rel=0.005)
    assert augment.level_db(faster) == pytest.approx(augment.level_db(samples), abs=0.05)


def test_speed_of_one_changes_nothing():
    samples = tone(1000, 7000)
    # Measured: 3e-8; a Fourier transform there and back, rounded to fp32.
    np.testing.assert_allclose(augment.speed(samples, 1.0), samples, rtol=0, atol=1e-7)


def test_speed_takes_any_length():
    for count in (1, 2, 255, 256, 257):
        for factor in (0.8, 1.25):
            assert len(augment.speed(np.ones(count, dtype=np.float32), factor)) >= 1


def test_levels():
    samples = tone(500, hull=False)
    assert augment.level_db(samples) == pytest.approx(20 * np.log10(0.1) - 3.01, abs=0.01)
    assert augment.level_db(augment.at_level(samples, -33.0)) == pytest.approx(-33, abs=1e-3)
    silence = np.zeros(100, dtype=np.float32)
    assert np.array_equal(augment.at_level(silence, -20.0), silence)


@pytest.mark.parametrize("make", [augment.noise, augment.white])
def test_noise_has_unit_level_and_mix_the_ratio_asked_for(make):
    other = make(48_000, rng())
    assert augment.level_db(other) == pytest.approx(0, abs=0.1)
    speech = tone(500, 48_000)
    left = augment.mix(speech, other, 12.0) - speech
    assert augment.level_db(speech) - augment.level_db(left) == pytest.approx(12, abs=0.01)


def test_colour_filters_without_ringing_round_the_end():
    samples = tone(500, 8000)
    samples[4000:] = 0
    coloured = augment.colour(samples, rng(1))
    assert len(coloured) == 8000 and not np.allclose(coloured, samples, atol=1e-3)
    assert augment.level_db(coloured[6000:]) < augment.level_db(coloured[:4000]) - 40
    assert not np.array_equal(coloured, augment.colour(samples, rng(2)))


def test_a_room_rings_after_the_sound_and_decays():
    samples = np.zeros(16_000, dtype=np.float32)
    samples[100] = 1
    wet = augment.reverberate(samples, rng(), 0.3)
    assert wet[100] == pytest.approx(1, abs=1e-6) and np.abs(wet[:100]).max() < 1e-6
    early, late = (augment.level_db(wet[a : a + 800]) for a in (110, 110 + 4000))
    # 60 dB in 4800 samples: 50 dB in 4000, to the chance of 800 drawn samples.
    assert early - late == pytest.approx(50, abs=2)


@pytest.mark.parametrize("factor", [0.85, 1.18])
def test_warp_moves_bands_towards_the_promised_place(factor):
    """A band at bin 20 of the warped mel is read from 20 * factor."""
    mel = torch.arange(MEL_BINS, dtype=torch.float32).repeat(3, 1)
    warped = augment.warp(mel, factor)
    assert warped[1, 20].item() == pytest.approx(20 * factor, abs=1e-4)
    assert warped[1, 0] == 0 and warped[1, -1] == MEL_BINS - 1
    assert (warped[:, 1:] > warped[:, :-1]).all()
    assert torch.equal(augment.warp(mel, 1.0), mel)


def test_mask_blanks_at_most_what_it_may():
    mel = torch.ones(100, MEL_BINS)
    generator, seen = rng(3), set()
    for _ in range(50):
        blank = augment.mask(mel, generator, -2.0) == -2.0
        bands, gaps = blank.all(0).sum().item(), blank.all(1).sum().item()
        assert bands <= 16 and gaps <= 16
        assert blank.sum() == bands * 100 + gaps * MEL_BINS - bands * gaps
        seen.add((bands > 0, gaps > 0))
    assert len(seen) == 4 and (mel == 1).all()  # of every kind, and the input left alone


def test_augmented_digits_stay_in_the_front_ends_range():
    mel = LogMelFront()(torch.from_numpy(augment.at_level(tone(500), -45.0)))
    assert torch.isfinite(mel).all() and mel.min() >= LogMelFront().silence - 1e-6


def test_learning_rate_rises_then_falls_to_its_share():
    rates = [learning_rate(step, 1000, 2e-3, 100) for step in range(1000)]
    assert rates[0] == pytest.approx(2e-5) and max(rates) == rates[99] == pytest.approx(2e-3)
    assert all(a <= b for a, b in pairwise(rates[:100]))
    assert all(a >= b for a, b in pairwise(rates[100:]))
    assert rates[-1] == pytest.approx(0.03 * 2e-3, rel=1e-2)
