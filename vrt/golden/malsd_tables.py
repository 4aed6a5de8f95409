"""Parts of malsd recipes: configurations, tables and formulas as the files say them.

V classes with blank last, K beam slots, M labels at one frame at most, T encoder frames.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

Row = Sequence[float | str]
Prefix = tuple[int, ...]
NEVER = "-inf"

# Two lists of 15 labels with one 64-bit hash, last label and length: their differences are a short
# vector of the lattice of x with sum(x[i] * 6364136223846793005^(14 - i)) = 0 modulo 2^64.
DIFFERENCE = (8, 3, 4, -1, 7, 13, 11, -1, -7, 5, 2, -6, -8, -2, 0)
COLLIDING = tuple(max(x, 0) for x in DIFFERENCE), tuple(max(-x, 0) for x in DIFFERENCE)


def config(
    vocab: int, beam: int, symbols: int | None, *lengths: int, time: int | None = None
) -> dict[str, Any]:
    return {
        "vocab_with_blank": vocab,
        "beam_size": beam,
        "max_symbols": symbols,
        "lengths": list(lengths),
        "max_time": max(lengths) if time is None else time,
    }


def table(rows: Mapping[tuple[int, Prefix], Row], default: Row) -> dict[str, Any]:
    """Log-probabilities by (encoder frame, labels so far)."""
    entries = [{"t": t, "prefix": list(p), "row": list(row)} for (t, p), row in rows.items()]
    return {"mode": "logprob", "default_row": list(default), "table": entries}


def formula(
    seed: int,
    *,
    ctx: int = -1,
    bits: int = 20,
    shift: int = 17,
    tdiv: int = 1,
    quant: float | None = None,
    peak_add: float = 2.0,
    blank_add: float = 2.0,
) -> dict[str, Any]:
    found: dict[str, Any] = {"seed": seed, "ctx": ctx, "bits": bits, "shift": shift}
    found |= {"peak_add": peak_add, "blank_add": blank_add}
    if tdiv != 1:
        found["tdiv"] = tdiv
    if quant is not None:
        found["quant"] = quant
    return {"mode": "logits", "formula": found}


def prefixes(labels: int, longest: int) -> list[Prefix]:
    """Every list of up to `longest` labels out of `labels`."""
    return [p for n in range(longest + 1) for p in product(range(labels), repeat=n)]


def scattered(
    seed: int, vocab: int, time: int, longest: int
) -> dict[tuple[int, Prefix], list[float]]:
    """Random rows for every frame and every list of up to `longest` labels."""
    random = np.random.default_rng(seed)
    return {
        (t, prefix): np.round(-4 * random.random(vocab) - 0.05, 4).tolist()
        for t in range(time)
        for prefix in prefixes(vocab - 1, longest)
    }


def at_most(labels: int, vocab: int, time: int, seed: int) -> dict[str, Any]:
    """Random rows; after `labels` labels blank alone is possible."""
    final = [NEVER] * (vocab - 1) + [-0.3]
    return table(scattered(seed, vocab, time, labels - 1), final)


def colliding() -> dict[str, Any]:
    """One frame at which the labels of `COLLIDING` are likely, in their order, then blank."""
    labels = max(map(max, COLLIDING)) + 1
    other = [-9.0 - 0.1 * v for v in range(labels)]
    rows: dict[tuple[int, Prefix], list[float]] = {(0, ()): [*other, -7.0]}
    for tokens, first in zip(COLLIDING, (-0.5, -1.0), strict=True):
        rows[0, ()][tokens[0]] = first
        for n in range(1, len(tokens)):
            rows[0, tokens[:n]] = [*other, -7.0]
            rows[0, tokens[:n]][tokens[n]] = -0.1
        rows[0, tokens] = [*other, -0.1]
    return table(rows, [*other, -8.0])
