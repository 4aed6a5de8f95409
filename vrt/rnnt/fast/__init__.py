"""The searches of this wing with less work and the same results: numba makes them fast where it is
installed."""

from vrt.rnnt.fast.greedy import fast_greedy
from vrt.rnnt.fast.packed import PackedScorer
from vrt.rnnt.fast.search import fast_malsd
from vrt.rnnt.fast.session import FastSession

__all__ = ["FastSession", "PackedScorer", "fast_greedy", "fast_malsd"]
