"""The golden format's formula for toy scores: integer arithmetic modulo 2^64, exact in fp32.

V classes with blank, b utterance, t encoder frame. Two ports that follow it get the same numbers
without a file of weights.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, UInt64

MASK = (1 << 64) - 1


def mix(x: int) -> int:
    """One round of splitmix64."""
    return absorb(x, (-1,))


def absorb(x: int, words: Iterable[int]) -> int:
    """`x = mix(x ^ (word + 1))` for each word in turn."""
    for word in words:
        x = ((x ^ (word + 1)) + 0x9E3779B97F4A7C15) & MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        x ^= x >> 31
    return x


def mix_all(x: UInt64[np.ndarray, "n"]) -> UInt64[np.ndarray, "n"]:
    """`mix` of each element; uint64 arrays wrap."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclass(frozen=True)
class Formula:
    """Parameters as the golden format names them."""

    seed: int
    ctx: int  # labels of the prefix that count: -1 all, 0 none
    bits: int
    shift: int
    tdiv: int = 1  # frames that share a base value
    quant: float | None = None
    peak_add: float = 0.0  # to one label of each row
    blank_add: float = 0.0

    def context(self, prefix: tuple[int, ...]) -> tuple[int, ...]:
        if self.ctx < 0:
            return prefix
        return prefix[max(0, len(prefix) - self.ctx) :]

    def row(self, b: int, t: int, context: tuple[int, ...], vocab: int) -> Float64[np.ndarray, "V"]:
        """Scores of all classes after `context` (see `context`), blank last."""
        x = absorb(self.seed & MASK, (b, t // self.tdiv, len(context), *context))
        labels = np.arange(1, vocab + 1, dtype=np.uint64)
        y = mix_all(np.uint64(x) ^ (labels << np.uint64(32)))
        units = (y >> np.uint64(64 - self.bits)).astype(np.float64) - 2.0 ** (self.bits - 1)
        row = units / 2.0**self.shift
        if self.quant is not None:
            row = np.floor(row / self.quant) * self.quant
        row[mix(x ^ 0xABCDEF) % (vocab - 1)] += self.peak_add
        if self.tdiv > 1:
            jitter = mix(self.seed ^ mix(b + 1) ^ mix(1000003 * (t + 1)))
            row += (mix_all(np.uint64(jitter) ^ labels) >> np.uint64(48)) / 2.0**17
        row[vocab - 1] += self.blank_add
        return row


def ngram_scores(seed: int, state: int, labels: int) -> Float64[np.ndarray, "labels"]:
    """The toy language model: log-scores of all labels in a state, 0 down to -4."""
    x = np.uint64(mix((seed & MASK) ^ (state + 1)))
    y = mix_all(x ^ (np.arange(1, labels + 1, dtype=np.uint64) << np.uint64(32)))
    return -((y >> np.uint64(48)) / 2.0**14)
