"""Two trees that hypotheses point into: what was said, and when.

N prefixes, M emissions. Equal transcripts are one prefix, so that a comparison of two numbers
tells whether hypotheses are to be merged, and what the predictor says after a prefix is computed
once. An emission is a label at a frame: hypotheses of one prefix may differ in theirs. A blank
touches neither tree.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int64

from vrt.rnnt.fast.jit import jit
from vrt.rnnt.hypotheses import HASH_MULTIPLIER

NONE = -1  # no prefix, emission, row or label
ROOT = 0  # the empty prefix, or the longest that all hypotheses of a stream share


class Prefixes(NamedTuple):
    """A trie; a parent has a smaller number than its children. `row` is where the scorer keeps the
    predictor after this prefix."""

    parent: Int64[np.ndarray, "N"]
    label: Int64[np.ndarray, "N"]
    child: Int64[np.ndarray, "N"]  # one of the children
    sibling: Int64[np.ndarray, "N"]  # the parent's next child
    length: Int64[np.ndarray, "N"]  # labels
    hash: Int64[np.ndarray, "N"]  # as NeMo has it
    row: Int64[np.ndarray, "N"]
    count: Int64[np.ndarray, "1"]  # of N, those in use

    @classmethod
    def start(cls, size: int) -> "Prefixes":
        """The empty prefix, in row 0."""
        nothing = [np.full(size, NONE) for _ in range(4)]
        numbers = [np.zeros(size, dtype=np.int64) for _ in range(3)]
        return cls(*nothing, *numbers, np.ones(1, dtype=np.int64))


class Emissions(NamedTuple):
    """`previous` has a smaller number, NONE at the first. Blanks are kept for alignments alone."""

    previous: Int64[np.ndarray, "M"]
    label: Int64[np.ndarray, "M"]
    frame: Int64[np.ndarray, "M"]
    log_prob: Float[np.ndarray, "M"]  # acoustic
    count: Int64[np.ndarray, "1"]

    @classmethod
    def start(cls, size: int, dtype: np.dtype) -> "Emissions":
        numbers = [np.full(size, NONE) for _ in range(3)]
        return cls(*numbers, np.zeros(size, dtype=dtype), np.zeros(1, dtype=np.int64))


@jit
def longer(prefixes: Prefixes, parent: int, label: int) -> int:
    """The prefix `parent` with `label` after it: the one known, or a new one."""
    prefix = prefixes.child[parent]
    while prefix != NONE:
        if prefixes.label[prefix] == label:
            return prefix
        prefix = prefixes.sibling[prefix]
    prefix = prefixes.count[0]
    prefixes.count[0] += 1
    prefixes.parent[prefix] = parent
    prefixes.label[prefix] = label
    prefixes.child[prefix] = NONE
    prefixes.sibling[prefix] = prefixes.child[parent]
    prefixes.child[parent] = prefix
    prefixes.length[prefix] = prefixes.length[parent] + 1
    prefixes.hash[prefix] = prefixes.hash[parent] * np.int64(HASH_MULTIPLIER) + 1 + label
    prefixes.row[prefix] = NONE
    return prefix


@jit
def emitted(emissions: Emissions, previous: int, label: int, frame: int, log_prob: float) -> int:
    """A new emission after `previous`."""
    emission = emissions.count[0]
    emissions.count[0] += 1
    emissions.previous[emission] = previous
    emissions.label[emission] = label
    emissions.frame[emission] = frame
    emissions.log_prob[emission] = log_prob
    return emission
