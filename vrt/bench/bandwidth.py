"""How fast this machine reads memory, with as many threads as a step has: the floor of a step.

A step reads every weight once, and they fit in no cache, so bytes over this speed is a time that
no arrangement of the same bytes goes below.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from vrt.bench.timing import now, since

BUFFER_BYTES = 1280 << 20  # many times any cache
TRIES = 4


@dataclass(frozen=True)
class Bandwidth:
    """Bytes a second of wall time, and a second of CPU time summed over threads."""

    wall: float
    cpu: float

    def best(self, other: "Bandwidth") -> "Bandwidth":
        return Bandwidth(max(self.wall, other.wall), max(self.cpu, other.cpu))

    def floor_ms(self, nbytes: int) -> tuple[float, float]:
        """Milliseconds of CPU and of wall time that reading `nbytes` takes at least."""
        return 1000 * nbytes / self.cpu, 1000 * nbytes / self.wall


def written_buffer(nbytes: int = BUFFER_BYTES) -> Tensor:
    """Memory with a value written to every word: pages never written read as one cached page."""
    return torch.arange(nbytes // 8, dtype=torch.int64)


def read_bandwidth(buffer: Tensor, tries: int = TRIES) -> Bandwidth:
    """The best of `tries` reductions of each of two kinds over `buffer`, at torch's threads."""
    floats = buffer.view(torch.float32)
    best = Bandwidth(0.0, 0.0)
    for _ in range(tries):
        for reduction in (buffer.sum, floats.amax):
            start = now()
            reduction()
            cpu, wall = since(start)
            best = best.best(Bandwidth(buffer.nbytes / wall, buffer.nbytes / cpu))
    return best
