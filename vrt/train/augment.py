"""Augmentation of samples and log-mels: one function an effect, all chance from a numpy Generator.

n samples (16 kHz), m samples afterwards, T mel frames, M mel bins.
"""

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor

from vrt.audio import SAMPLE_RATE

SPEECH_BAND = 0.5  # of the spectrum to 8 kHz: digits were recorded at 8 kHz

Samples = Float32[np.ndarray, " n"]


def level_db(samples: Samples) -> float:
    """Root mean square in dB of full scale; -200 for silence."""
    return float(10 * np.log10(np.mean(np.square(samples, dtype=np.float64)) + 1e-20))


def at_level(samples: Samples, db: float) -> Samples:
    """Scaled so that its `level_db` is `db`; silence stays silence."""
    now = level_db(samples)
    return samples if now < -150 else gain(samples, db - now)


def gain(samples: Samples, db: float) -> Samples:
    return samples * np.float32(10 ** (db / 20))


def _roomy(count: int, multiple: int = 1024) -> int:
    """A length of at least `count` whose Fourier transform is quick."""
    return -(-count // multiple) * multiple


def speed(samples: Samples, factor: float) -> Float32[np.ndarray, " m"]:
    """Faster and higher by `factor`, as a tape would be: the spectrum cut or padded.

    The factor is met to half a percent for 0.4 s, and better for more: lengths are rounded.
    """
    count = _roomy(len(samples), 256)
    length = max(32, 32 * round(count / factor / 32))
    spectrum = np.fft.rfft(samples, count)
    kept = np.zeros(length // 2 + 1, dtype=spectrum.dtype)
    shared = min(len(kept), len(spectrum))
    kept[:shared] = spectrum[:shared]
    whole = np.fft.irfft(kept, length) * (length / count)
    return whole[: max(1, len(samples) * length // count)].astype(np.float32)


def colour(samples: Samples, rng: np.random.Generator, taps: int = 8, db: float = 4.0) -> Samples:
    """Another microphone: a random smooth response over the band, `db` its standard deviation.

    The response is drawn at `taps` frequencies from 0 to 4 kHz and held from there up.
    """
    drawn = rng.normal(0, db, taps)
    size = _roomy(len(samples) + 256)
    places = np.linspace(0, SPEECH_BAND, taps)
    response = np.interp(np.linspace(0, 1, size // 2 + 1), places, drawn - drawn.mean())
    filtered = np.fft.irfft(np.fft.rfft(samples, size) * 10 ** (response / 20), size)
    return filtered[: len(samples)].astype(np.float32)


def reverberate(samples: Samples, rng: np.random.Generator, decay_s: float) -> Samples:
    """A room: noise that falls by 60 dB in `decay_s`, after the direct sound."""
    length = int(decay_s * SAMPLE_RATE)
    tail = rng.standard_normal(length) * 10 ** (-3 * np.arange(length) / length)
    tail *= rng.uniform(0.1, 0.6) / np.sqrt(np.square(tail).sum())
    tail[0] = 1
    size = _roomy(len(samples) + length)
    wet = np.fft.irfft(np.fft.rfft(samples, size) * np.fft.rfft(tail, size), size)
    return wet[: len(samples)].astype(np.float32)


def noise(count: int, rng: np.random.Generator) -> Samples:
    """Noise of unit level whose spectrum falls by a random slope of 0 to 6 dB an octave."""
    slope, size = rng.uniform(0, 1), _roomy(count)
    spectrum = np.fft.rfft(white(size, rng))
    bins = np.maximum(np.arange(len(spectrum)), len(spectrum) / 160)  # level below 50 Hz
    coloured = np.fft.irfft(spectrum / bins**slope, size)[:count]
    return (coloured / np.sqrt(np.square(coloured).mean() + 1e-20)).astype(np.float32)


def white(count: int, rng: np.random.Generator) -> Samples:
    """White noise of unit level: what the test sets are mixed with."""
    return rng.standard_normal(count, dtype=np.float32)


def mix(speech: Samples, other: Samples, snr_db: float) -> Samples:
    """`other` added `snr_db` below the level of `speech`; both over their whole lengths."""
    return speech + at_level(other, level_db(speech) - snr_db)


def warp(mel: Float[Tensor, "T M"], factor: float) -> Float[Tensor, "T M"]:
    """A longer or shorter vocal tract: bin i reads from i * factor, back to the top bin linearly.

    Straight up to 70% of the bins (divided by `factor` where it is above 1), then to the last.
    """
    count = mel.shape[1]
    knee = 0.7 * count / max(1.0, factor)
    knots = ([0.0, knee, count - 1.0], [0.0, knee * factor, count - 1.0])
    places = np.interp(np.arange(count), *knots)
    low = np.minimum(places.astype(np.int64), count - 2)
    part = torch.from_numpy((places - low).astype(np.float32))
    below, above = mel[:, low], mel[:, low + 1]
    return below + (above - below) * part


def mask(
    mel: Float[Tensor, "T M"],
    rng: np.random.Generator,
    value: float,
    bands: int = 2,
    band_width: int = 8,
    gaps: int = 2,
    gap_frames: int = 8,
) -> Float[Tensor, "T M"]:
    """SpecAugment: up to `bands` bands of bins and `gaps` stretches of frames set to `value`."""
    mel = mel.clone()
    frames, bins = mel.shape
    for _ in range(int(rng.integers(0, bands + 1))):
        width = int(rng.integers(1, band_width + 1))
        first = int(rng.integers(0, max(1, bins - width)))
        mel[:, first : first + width] = value
    for _ in range(int(rng.integers(0, gaps + 1))):
        length = int(rng.integers(1, gap_frames + 1))
        first = int(rng.integers(0, max(1, frames - length)))
        mel[first : first + length] = value
    return mel
