"""Log-mel features of the small acoustic model: each frame a pure function of its own 400 samples.

n samples (16 kHz), T mel frames (10 ms), F=257 frequency bins, M=40 mel bins. Nothing is centred,
padded or normalised by the utterance, so a stream and a whole recording give the same frames.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from vrt.audio import SAMPLE_RATE

HOP = 160  # samples: 10 ms
WINDOW = 400  # samples: 25 ms
N_FFT = 512
MEL_BINS = 40
BAND = (60.0, 3900.0)  # Hz: what a telephone passes, so that 8 kHz recordings fill it
FLOOR = 1e-10  # of full-scale power: 100 dB below, where 16 bits end
CENTRE, SPREAD = 9.0, 4.0  # (ln + CENTRE) / SPREAD puts speech of common levels near -2..2


def mel_filters() -> Float[Tensor, "F M"]:
    """Triangles on O'Shaughnessy's mel scale, 2595 log10(1 + f / 700); each sums to 1."""
    low, high = (2595 * np.log10(1 + f / 700) for f in BAND)
    edges = 700 * (10 ** (np.linspace(low, high, MEL_BINS + 2) / 2595) - 1)
    freqs = np.linspace(0, SAMPLE_RATE / 2, N_FFT // 2 + 1)[:, None]
    rising = (freqs - edges[:-2]) / np.diff(edges)[:-1]
    falling = (edges[2:] - freqs) / np.diff(edges)[1:]
    triangles = np.maximum(0, np.minimum(rising, falling))
    return torch.from_numpy((triangles / triangles.sum(0)).astype(np.float32))


class LogMelFront(nn.Module):
    """Samples to log-mels. Power is that of a sample: noise of level s gives s^2 in every bin."""

    def __init__(self) -> None:
        super().__init__()
        window = torch.hann_window(WINDOW, periodic=False, dtype=torch.float32)
        self.register_buffer("window", window / window.square().sum().sqrt(), persistent=False)
        self.register_buffer("filters", mel_filters(), persistent=False)

    @property
    def silence(self) -> float:
        """The value of a bin without any power."""
        return (float(np.log(FLOOR)) + CENTRE) / SPREAD

    def forward(self, samples: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows T M"]:
        """All frames that fit: T = (n - 400) // 160 + 1, or none."""
        if samples.shape[-1] < WINDOW:
            return samples.new_empty(*samples.shape[:-1], 0, MEL_BINS)
        spectrum = torch.fft.rfft(samples.unfold(-1, WINDOW, HOP) * self.window, n=N_FFT)
        power = spectrum.real.square() + spectrum.imag.square()
        return (torch.log(power @ self.filters + FLOOR) + CENTRE) / SPREAD


def frame_count(samples: int) -> int:
    """Mel frames of so many samples."""
    return max(0, (samples - WINDOW) // HOP + 1)


class FrontStream:
    """The same frames from samples that come in pieces. Remembers fewer than 400 samples."""

    def __init__(self, front: LogMelFront) -> None:
        self.front = front
        self.reset()

    def reset(self) -> None:
        self.pending = self.front.window.new_empty(0)

    def feed(self, samples: Float[Tensor, "n"]) -> Float[Tensor, "T M"]:
        """The frames that `samples` completes, possibly none."""
        self.pending = torch.cat([self.pending, samples])
        mel = self.front(self.pending)
        self.pending = self.pending[len(mel) * HOP :].clone()  # a view would keep the feed alive
        return mel
