"""Log-mel features, whole or in pieces: a pure function of 400 samples a frame.

S samples, T mel frames (10 ms), F=201 frequency bins, M=128 mel bins. Source: the feature
extractor of transformers 5.24 (`voxtral_realtime`); the scale is Slaney's, as in librosa.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vrt.voxtral.config import (
    HOP,
    LOOK_AHEAD,
    LOOK_BACK,
    MEL_BINS,
    N_FFT,
    SAMPLE_RATE,
    SAMPLES_PER_TOKEN,
)

LOG_FLOOR = 1e-10
LOG_MEL_MAX = 1.5  # only sets the floor below; louder frames are not clamped
LOG_RANGE = 8.0  # log10 units kept below LOG_MEL_MAX


def silence(count: int) -> Float[Tensor, "S"]:
    """Zeros, fp32 on the CPU whatever torch's defaults are; so is all that becomes mel."""
    return torch.zeros(count, dtype=torch.float32, device="cpu")


def hann() -> Float[Tensor, "400"]:
    """The periodic Hann window; the symmetric one differs by 0.1 in the encoder's output."""
    return torch.hann_window(N_FFT, periodic=True, dtype=torch.float32, device="cpu")


def mel_filters(bins: int = MEL_BINS) -> Float[Tensor, "F M"]:
    """Triangular filters, 0..8000 Hz, of equal area; in float64, then rounded once to fp32."""
    edges = _mel_to_hz(np.linspace(_hz_to_mel(0.0), _hz_to_mel(SAMPLE_RATE / 2), bins + 2))
    freqs = np.linspace(0, SAMPLE_RATE / 2, N_FFT // 2 + 1)[:, None]
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    rising = (freqs - low) / (centre - low)
    falling = (high - freqs) / (high - centre)
    triangles = np.maximum(0, np.minimum(rising, falling))
    return torch.from_numpy((triangles * 2 / (high - low)).astype(np.float32))


def _hz_to_mel(hz: float) -> float:
    """Slaney's scale: linear (66.7 Hz a mel) below 1000 Hz, 27 mels to a factor of 6.4 above."""
    return hz * 3 / 200 if hz < 1000 else 15 + 27 * np.log(hz / 1000) / np.log(6.4)


def _mel_to_hz(mel: np.ndarray) -> np.ndarray:
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))


class LogMel:
    """Offline log-mel of a stream that is already padded: 160 samples a frame.

    `__call__` takes the whole padded stream; what lies before and after it counts as zeros.
    """

    def __init__(self, bins: int = MEL_BINS) -> None:
        self.window = hann()
        self.filters = mel_filters(bins)

    def __call__(self, samples: Float[Tensor, "S"]) -> Float[Tensor, "T M"]:
        if len(samples) % SAMPLES_PER_TOKEN:
            raise ValueError(
                f"LogMel takes whole tokens of {SAMPLES_PER_TOKEN} samples, got {len(samples)}"
            )
        return self.frames(torch.nn.functional.pad(samples, (LOOK_BACK, LOOK_AHEAD)))

    def frames(self, samples: Float[Tensor, "S"]) -> Float[Tensor, "T M"]:
        """All frames that fit: T = (S - 400) // 160 + 1, nothing padded."""
        spectrum = torch.fft.rfft(samples.unfold(0, N_FFT, HOP) * self.window)
        power = spectrum.real.square() + spectrum.imag.square()
        log_mel = torch.log10(torch.clamp(power @ self.filters, min=LOG_FLOOR))
        return (torch.clamp(log_mel, min=LOG_MEL_MAX - LOG_RANGE) + 4) / 4


class LogMelStream:
    """Incremental log-mel: whole tokens of 8 frames as soon as their samples are there.

    A token's last frame needs 40 samples past its end. Remembers fewer than 1520 samples.
    """

    def __init__(self, log_mel: LogMel) -> None:
        self.log_mel = log_mel
        self.reset()

    def reset(self) -> None:
        self.pending = silence(LOOK_BACK)

    def feed(self, samples: Float[Tensor, "S"]) -> Float[Tensor, "T M"]:
        """The frames that `samples` completes: a multiple of 8, possibly none."""
        self.pending = torch.cat([self.pending, samples])
        tokens = (len(self.pending) - LOOK_BACK - LOOK_AHEAD) // SAMPLES_PER_TOKEN
        if tokens <= 0:
            return self.pending.new_empty(0, self.log_mel.filters.shape[1])
        done = tokens * SAMPLES_PER_TOKEN
        mel = self.log_mel.frames(self.pending[: done + LOOK_BACK + LOOK_AHEAD])
        self.pending = self.pending[done:].clone()  # a view would keep a long feed alive
        return mel
