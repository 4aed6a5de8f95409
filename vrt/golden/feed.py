"""How a stream's audio is cut into feeds: pieces of one size, or of sizes drawn from a seed.

n samples (16 kHz).
"""

import math
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float32

from vrt.golden.errors import GoldenError
from vrt.voxtral.config import SAMPLES_PER_TOKEN

DEFAULT_FEED = SAMPLES_PER_TOKEN
RANDOM = "random:"
LONGEST = 8192  # samples, of a random feed; sizes are spread evenly over their logarithm


def feeds(
    samples: Float32[np.ndarray, "n"], feed: int | str = DEFAULT_FEED
) -> Iterator[Float32[np.ndarray, "m"]]:
    """Pieces of `samples` in order. `feed`: a number of samples, or `random:SEED`.

    Raises `GoldenError` for anything else, before the first piece.
    """
    sizes = _random(feed) if str(feed).startswith(RANDOM) else _equal(feed)
    return _pieces(samples, sizes)


def _pieces(
    samples: Float32[np.ndarray, "n"], sizes: Iterator[int]
) -> Iterator[Float32[np.ndarray, "m"]]:
    start = 0
    while start < len(samples):
        size = next(sizes)
        yield samples[start : start + size]
        start += size


def _equal(feed: int | str) -> Iterator[int]:
    size = int(feed) if str(feed).isdecimal() else 0
    if size < 1:
        raise GoldenError(f"feed {feed!r} is no number of samples from 1 on, nor random:SEED")
    return iter(lambda: size, None)


def _random(feed: int | str) -> Iterator[int]:
    seed = str(feed).removeprefix(RANDOM)
    if not seed.isdecimal():
        raise GoldenError(f"feed {feed!r}: the seed must be a whole number, as in random:1")
    generator = np.random.default_rng(int(seed))
    return iter(lambda: int(math.exp(generator.uniform(0, math.log(LONGEST)))), None)
