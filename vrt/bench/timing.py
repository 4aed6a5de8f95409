"""Timing arms turn about, so that whatever else the machine does weighs on each alike.

CPU time is the process's, over all of its threads; wall time also holds what other processes took.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Arm = Callable[[], object]
Instant = tuple[float, float]  # CPU seconds, wall seconds


@dataclass(frozen=True)
class Spread:
    """Milliseconds."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Spread":
        values = [1000 * value for value in seconds]
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Timing:
    cpu_ms: Spread
    wall_ms: Spread

    @classmethod
    def of(cls, lengths: Sequence[Instant]) -> "Timing":
        cpu, wall = zip(*lengths, strict=True)
        return cls(Spread.of(cpu), Spread.of(wall))


def now() -> Instant:
    return time.process_time(), time.perf_counter()


def since(start: Instant, clock: Callable[[], Instant] = now) -> Instant:
    """CPU and wall seconds from `start` to now."""
    cpu, wall = clock()
    return cpu - start[0], wall - start[1]


def interleaved(
    arms: Mapping[str, Arm],
    repeats: int,
    warm_up: int = 1,
    clock: Callable[[], Instant] = now,
) -> dict[str, Timing]:
    """Each arm's timing over `repeats` calls in the order A B A B; `warm_up` rounds come first."""
    lengths: dict[str, list[Instant]] = {name: [] for name in arms}
    for turn in range(warm_up + repeats):
        for name, arm in arms.items():
            start = clock()
            arm()
            length = since(start, clock)
            if turn >= warm_up:
                lengths[name].append(length)
    return {name: Timing.of(taken) for name, taken in lengths.items()}
