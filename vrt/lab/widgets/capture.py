"""What a browser sends of a recording: numbered blocks of samples, and a message that ends it.

n samples of one block, at the microphone's own rate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32

BLOCK_MS = 80  # of a block, as the browser cuts them
BYTES = 4  # of a float32 sample, little-endian
SLOWEST, FASTEST = 8_000, 384_000  # Hz, of a microphone


class CaptureError(ValueError):
    """A message that is no block of a recording; says what is wrong with it."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """One block of a recording, its samples copied.

    `recording` grows from one recording to the next, `sequence` from one block to the next.
    `start` is the number of samples that the microphone had given before this block, lost ones
    counted: so a gap has a length. The block that is `last` holds no samples.
    """

    recording: int
    sequence: int
    start: int
    rate_hz: int
    samples: Float32[np.ndarray, "n"]
    last: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.samples)

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate_hz


def parse(content: Mapping[str, Any], buffers: Sequence[Any]) -> Chunk:
    """The block that a widget's message carries. Raises `CaptureError`."""
    recording, sequence, start, rate = (
        _whole(content, key) for key in ("recording", "sequence", "start", "rate_hz")
    )
    if not SLOWEST <= rate <= FASTEST:
        raise CaptureError(f"rate_hz is {rate}; microphones have {SLOWEST} to {FASTEST}")
    if content.get("last"):
        return Chunk(recording, sequence, start, rate, np.zeros(0, np.float32), last=True)
    if len(buffers) != 1:
        raise CaptureError(f"a block carries one buffer of samples, got {len(buffers)}")
    data = bytes(buffers[0])  # a copy: the buffer belongs to the message
    if not data or len(data) % BYTES:
        raise CaptureError(f"a block is whole float32 samples, got {len(data)} bytes")
    samples = np.frombuffer(data, dtype="<f4").astype(np.float32, copy=False)
    return Chunk(recording, sequence, start, rate, samples)


def cut(samples: Float32[np.ndarray, "n"], rate_hz: int, recording: int = 1) -> list[Chunk]:
    """A recording as a browser would send it, with the message that ends it."""
    size = rate_hz * BLOCK_MS // 1000
    starts = range(0, len(samples), size)
    blocks = [
        Chunk(recording, number, at, rate_hz, samples[at : at + size])
        for number, at in enumerate(starts)
    ]
    end = Chunk(recording, len(blocks), len(samples), rate_hz, samples[:0], last=True)
    return [*blocks, end]


def _whole(content: Mapping[str, Any], key: str) -> int:
    value = content.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise CaptureError(f"{key} must be a whole number from 0 on, got {value!r}")
    return value
