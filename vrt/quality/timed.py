"""Test strings with the moment at which each word's sound ends.

n samples (16 kHz).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vrt.quality.clips import SETS
from vrt.train.corpus import Corpus, Digit
from vrt.train.rnnt_report import SEED
from vrt.train.strings import Example, test_strings
from vrt.train.voxtral_streams import audible_end

FAINT_DB = 200.0  # noise so far below the clicks that nothing of it is above CLICK
CLICK = 0.5


@dataclass(frozen=True, eq=False)
class Timed:
    """`ends` are samples since the string began: the last 10 ms of each word within 32 dB of its
    loudest."""

    example: Example
    ends: tuple[int, ...]


def timed_strings(corpus: Corpus, name: str, count: int) -> list[Timed]:
    """The strings of one set, the very ones that `clips.strings_of` gives."""
    pool, snr_db = SETS[name]
    return timed(pool(corpus), count, SEED, snr_db)


def timed(pool: Sequence[Digit], count: int, seed: int, snr_db: float) -> list[Timed]:
    """The strings are drawn twice, the second time with a click at each digit's end for its sound:
    the generator then draws the same digits, gaps and amounts of noise."""
    strings = test_strings(pool, count, seed, snr_db)
    clicks = test_strings([_click(digit) for digit in pool], count, seed, FAINT_DB)
    return [
        Timed(string, tuple((np.flatnonzero(click.samples > CLICK) + 1).tolist()))
        for string, click in zip(strings, clicks, strict=True)
    ]


def _click(digit: Digit) -> Digit:
    samples = np.zeros_like(digit.samples)
    samples[audible_end(digit.samples) - 1] = 1
    return replace(digit, samples=samples)


def latencies(
    strings: Sequence[Timed], found: Sequence[str], said_at: Sequence[Sequence[float]]
) -> list[float]:
    """Seconds from the end of a word's sound to its text, of strings without any error.

    `said_at` are the seconds of audio after which each word of `found` was whole.
    """
    late = []
    for string, text, times in zip(strings, found, said_at, strict=True):
        if text == string.example.text and len(times) == len(string.ends):
            ends = (end / 16_000 for end in string.ends)
            late += [time - end for time, end in zip(times, ends, strict=True)]
    return late


def spread_ms(seconds: Sequence[float]) -> dict[str, float | int | None]:
    """Median and the two outer tenths, in ms; None where there is no word."""
    names = {"p10_ms": 10, "p50_ms": 50, "p90_ms": 90}
    values = {
        name: round(1000 * float(np.percentile(seconds, share)), 3) if len(seconds) else None
        for name, share in names.items()
    }
    return {"timed": len(seconds), **values}
