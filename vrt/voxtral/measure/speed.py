"""How fast this machine reads weights, in about half a second: plainly, and as a step does.

A step of 80 ms reads every weight of the model once and no cache holds them, so reading is what a
step costs at least, and multiplying four rows by each matrix is what it costs in practice.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor
from torch.nn import functional as F

from vrt.voxtral.layers import ROW_UNIT

BUFFER_BYTES = 512 << 20  # larger than the caches of the machines that this is for
TRIES = 2  # the best counts: another process may take the memory for a while
MATRIX = (9216, 3072)  # the released decoder's largest


@dataclass(frozen=True)
class Speed:
    """Bytes a second of wall time with so many threads."""

    threads: int
    read: float  # plain reading: the floor
    linear: float  # by linear layers over four rows: what to expect


def measure_speed(dtype: torch.dtype, threads: int = 1, buffer_bytes: int = BUFFER_BYTES) -> Speed:
    """Read `buffer_bytes` of memory a few times over with `threads` of torch's threads.

    `dtype` is the weights', which decides how fast a linear layer gets through them.
    """
    # Written with ones: pages never written are one page of zeros, which a cache holds. Seen as
    # 16-bit numbers they are 0 and about 1, and neither is slow to multiply.
    buffer = torch.ones(buffer_bytes // 4)
    with torch_threads(threads):
        read = _best(buffer.nbytes, buffer.amax, buffer.sum)
        matrices = _matrices(buffer.view(dtype))
        rows = torch.ones(ROW_UNIT, matrices.shape[-1], dtype=dtype)
        linear = _best(matrices.nbytes, lambda: [F.linear(rows, matrix) for matrix in matrices])
    return Speed(threads, read, linear)


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """So many threads inside a `with` block, as many as before behind it."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _matrices(numbers: Tensor) -> Tensor:
    """As many matrices [out, in] as fit; smaller ones where not even one does."""
    out, width = MATRIX
    while out * width > numbers.numel():
        out, width = out // 2, width // 2
    count = numbers.numel() // (out * width)
    return numbers[: count * out * width].view(count, out, width)


def _best(nbytes: int, *passes: Callable[[], object]) -> float:
    best = 0.0
    for _ in range(TRIES):
        for once in passes:
            start = perf_counter()
            once()
            best = max(best, nbytes / (perf_counter() - start))
    return best
