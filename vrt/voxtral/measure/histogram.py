"""Durations in logarithmic bins: percentiles of a stream that runs for days, in constant memory."""

import math

import numpy as np

SHORTEST, LONGEST = 1e-7, 1e3  # seconds; what lies outside is counted at the end it is nearest to
BIN_RATIO = 1.02  # each bin's upper edge over its lower one
BINS = math.ceil(math.log(LONGEST / SHORTEST) / math.log(BIN_RATIO))


class DurationHistogram:
    """Counts durations in 1163 bins of 2 % width (9.3 kB).

    A percentile is the middle of the bin that holds it, so it is within 1 % of the exact one
    (`MAX_ERROR`) between 100 ns and 1000 s. `count` and `total` are exact.
    """

    MAX_ERROR = math.sqrt(BIN_RATIO) - 1  # relative

    def __init__(self) -> None:
        self.bins = np.zeros(BINS, dtype=np.int64)
        self.count = 0
        self.total = 0.0  # seconds

    def add(self, seconds: float) -> None:
        ratio = max(seconds, SHORTEST) / SHORTEST
        self.bins[min(int(math.log(ratio) / math.log(BIN_RATIO)), BINS - 1)] += 1
        self.count += 1
        self.total += seconds

    def percentile(self, percent: int | float) -> float | None:
        """Seconds that `percent` of the durations do not exceed (nearest rank); None of none."""
        if not 0 <= percent <= 100:
            raise ValueError(f"a percentile lies in 0..100, got {percent}")
        if not self.count:
            return None
        rank = max(1, math.ceil(percent / 100 * self.count))
        index = int(np.searchsorted(np.cumsum(self.bins), rank))
        return SHORTEST * BIN_RATIO ** (index + 0.5)
