"""Voices in between: a word of one speaker with the resonances moved toward another's.

n samples (16 kHz), F frames (8 ms), B bins to 4 kHz, C cepstral coefficients.
"""

import numpy as np
from jaxtyping import Float, Float32

Samples = Float32[np.ndarray, " n"]

WINDOW = 512  # samples, 32 ms
HOP = WINDOW // 4
BINS = WINDOW // 4  # below 4 kHz, where digits recorded at 8 kHz have their sound
COEFFICIENTS = 20  # of the envelope: resonances, not the harmonics of the pitch
FLOOR = 1e-3  # of the loudest magnitude
MOST = np.log(10.0)  # 20 dB, either way


def between(own: Samples, other: Float32[np.ndarray, " m"], part: float) -> Samples:
    """`own` with its spectral envelope moved `part` of the way to that of `other`.

    Both say the same word; `other` is stretched to the length of `own`. The pitch stays, and the
    mean of the log envelope; the level may change by some dB.
    """
    spectra = _spectra(own)
    mine, theirs = _cepstra(spectra), _stretched(_cepstra(_spectra(other)), len(spectra))
    moved = part * (theirs - mine)
    moved[:, 0] = 0  # the mean
    response = np.zeros(spectra.shape)
    response[:, :BINS] = np.clip(moved @ _cosines(), -MOST, MOST)
    return _joined(spectra * np.exp(response), len(own))


def _spectra(samples: Samples) -> np.ndarray:
    padded = np.pad(samples, (WINDOW, WINDOW + -len(samples) % HOP))
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]
    return np.fft.rfft(frames * _hann())


def _joined(spectra: np.ndarray, length: int) -> Samples:
    """Overlap and add; the squares of the windows sum to 1.5."""
    frames = np.fft.irfft(spectra, WINDOW) * (_hann() / 1.5)
    out = np.zeros((len(frames) + WINDOW // HOP - 1) * HOP)
    for number, frame in enumerate(frames):
        out[number * HOP : number * HOP + WINDOW] += frame
    return out[WINDOW : WINDOW + length].astype(np.float32)


def _cepstra(spectra: np.ndarray) -> Float[np.ndarray, "F C"]:
    """Smooth log envelopes below 4 kHz."""
    size = np.abs(spectra[:, :BINS])
    return np.log(np.maximum(size, FLOOR * size.max() + 1e-9)) @ _cosines().T


def _stretched(rows: Float[np.ndarray, "F C"], count: int) -> Float[np.ndarray, "count C"]:
    places = np.linspace(0, len(rows) - 1, count)
    low = np.minimum(places.astype(int), max(0, len(rows) - 2))
    high = np.minimum(low + 1, len(rows) - 1)
    part = (places - low)[:, None]
    return rows[low] * (1 - part) + rows[high] * part


def _cosines() -> Float[np.ndarray, "C B"]:
    """The first cosines over the bins, orthonormal."""
    rows = np.cos(np.pi * np.arange(COEFFICIENTS)[:, None] * (np.arange(BINS) + 0.5) / BINS)
    rows[0] *= np.sqrt(0.5)
    return rows * np.sqrt(2 / BINS)


def _hann() -> Float[np.ndarray, " n"]:
    return np.hanning(WINDOW + 1)[:-1]
