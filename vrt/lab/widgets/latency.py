"""How long the model took for each 80 ms of audio, and how loud they were: what a live view draws.

A piece is 80 ms of audio at 16 kHz.
"""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float32

from vrt.audio import SAMPLE_RATE

PIECE_MS = 80
PIECE = SAMPLE_RATE * PIECE_MS // 1000  # samples
LEVELS = 4  # peaks a piece, one for each 20 ms


@dataclass(frozen=True)
class Latency:
    """Of all pieces so far, in milliseconds; `over` of them took longer than they last."""

    pieces: int
    p50_ms: float
    p95_ms: float
    max_ms: float
    over: int


@dataclass
class Pieces:
    """One entry a piece: `ms` of computing; and `LEVELS` peaks, 0..1, in `levels`. `samples` in
    all."""

    ms: list[float] = field(default_factory=list)
    levels: list[float] = field(default_factory=list)
    samples: int = 0

    def add(self, samples: Float32[np.ndarray, "n"], seconds: float) -> None:
        self.ms.append(round(seconds * 1000, 3))
        padded = np.pad(np.abs(samples), (0, -len(samples) % LEVELS))
        peaks = padded.reshape(LEVELS, -1).max(axis=1)
        self.samples += len(samples)
        self.levels += [round(min(1.0, float(peak)), 4) for peak in peaks]

    def copy(self) -> "Pieces":
        return Pieces(self.ms[:], self.levels[:], self.samples)

    def latency(self) -> Latency | None:
        """None before the first piece."""
        return latency_of(self.ms)


def latency_of(ms: list[float]) -> Latency | None:
    """Percentiles are those of numpy: between two values by a straight line."""
    if not ms:
        return None
    p50, p95 = np.percentile(ms, [50, 95])
    over = sum(value > PIECE_MS for value in ms)
    return Latency(len(ms), float(p50), float(p95), max(ms), over)


class Cutter:
    """Cuts what a resampler gives, of any length, into pieces of 80 ms."""

    def __init__(self) -> None:
        self._rest = np.zeros(0, np.float32)

    def feed(self, samples: Float32[np.ndarray, "n"]) -> list[Float32[np.ndarray, "piece"]]:
        joined = np.concatenate([self._rest, samples])
        whole = len(joined) // PIECE * PIECE
        self._rest = joined[whole:]
        return [joined[at : at + PIECE] for at in range(0, whole, PIECE)]

    def finish(self) -> list[Float32[np.ndarray, "n"]]:
        """The last piece, shorter than the others, or none."""
        rest, self._rest = self._rest, self._rest[:0]
        return [rest] if len(rest) else []
