"""Which prefix's predictor lies in which row: each is computed once, and forgotten when room is
needed.

C rows kept, R rows asked for, N prefixes.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

from vrt.rnnt.fast.jit import jit
from vrt.rnnt.fast.scored import Rows
from vrt.rnnt.fast.trees import NONE, ROOT, Prefixes

SPARE = 64  # rows for prefixes that no slot holds at the moment


class Missing(NamedTuple):
    """Rows to be computed: `row` is the predictor in row `parent`, fed `label`."""

    row: Int64[np.ndarray, "n"]
    parent: Int64[np.ndarray, "n"]
    label: Int64[np.ndarray, "n"]


class Memory:
    """Rows of prefixes. What slots hold, and what they were made from, is never given up: two rows
    a slot are room enough for that."""

    def __init__(self, rows: Rows, slots: int):
        self.rows = rows
        self.owner = np.full(2 * slots + SPARE, NONE)  # prefix in each row
        self.owner[ROOT] = ROOT
        self._missing = Missing(*(np.zeros(slots, dtype=np.int64) for _ in range(3)))
        self.calls = self.computed = 0
        rows.start(len(self.owner))

    def rows_of(self, needed: Int64[np.ndarray, "R"], prefixes: Prefixes) -> Int64[np.ndarray, "R"]:
        """Where the predictor after each prefix lies; computed now where it is not known."""
        count = allot(needed, prefixes, self.owner, self._missing)
        if count == NONE:
            self.keep(np.concatenate([needed, prefixes.parent[needed]]), prefixes)
            count = allot(needed, prefixes, self.owner, self._missing)
        if count:
            self.rows.compute(*(column[:count] for column in self._missing))
            self.calls += 1
            self.computed += count
        return prefixes.row[needed]

    def keep(self, held: Int64[np.ndarray, "n"], prefixes: Prefixes) -> None:
        """Forget all but these."""
        rows = np.flatnonzero((self.owner != NONE) & ~np.isin(self.owner, held))
        prefixes.row[self.owner[rows]] = NONE
        self.owner[rows] = NONE

    def renumber(self, new: Int64[np.ndarray, "N"]) -> None:
        """After prefixes got other numbers, NONE where they are no more."""
        known = self.owner != NONE
        self.owner[known] = new[self.owner[known]]


@jit
def allot(
    needed: Int64[np.ndarray, "R"],
    prefixes: Prefixes,
    owner: Int64[np.ndarray, "C"],
    missing: Missing,
) -> int:
    """Give a row to each prefix that has none; how many, NONE if there are too few free ones."""
    unknown, free = 0, 0
    for prefix in needed:
        unknown += prefixes.row[prefix] == NONE
    if unknown == 0:
        return 0
    for prefix in owner:
        free += prefix == NONE
    if free < unknown:
        return NONE
    count, row = 0, 0
    for prefix in needed:
        if prefixes.row[prefix] != NONE:  # known, or met before in this list
            continue
        while owner[row] != NONE:
            row += 1
        owner[row], prefixes.row[prefix] = prefix, row
        missing.row[count] = row
        missing.parent[count] = prefixes.row[prefixes.parent[prefix]]
        missing.label[count] = prefixes.label[prefix]
        count += 1
    return count
