"""Which prefix's predictor lies in which row: each is computed once, and forgotten when room is
needed.

C rows kept, R rows asked for.
"""

import numpy as np
from jaxtyping import Int64

from vrt.rnnt.fast.scored import Rows
from vrt.rnnt.fast.trees import NONE, ROOT, Prefixes

SPARE = 64  # rows for prefixes that no slot holds at the moment


class Memory:
    """Rows of prefixes. What slots hold, and what they were made from, is never given up: two rows
    a slot are room enough for that."""

    def __init__(self, rows: Rows, slots: int):
        self.rows = rows
        self.owner = np.full(2 * slots + SPARE, NONE)  # prefix in each row
        self.owner[ROOT] = ROOT
        self.calls = self.computed = 0
        rows.start(len(self.owner))

    def rows_of(self, needed: Int64[np.ndarray, "R"], prefixes: Prefixes) -> Int64[np.ndarray, "R"]:
        """Where the predictor after each prefix lies; computed now where it is not known."""
        rows = prefixes.row[needed]
        missing = needed[rows == NONE]
        if len(missing):
            self._compute(np.unique(missing), needed, prefixes)
            rows = prefixes.row[needed]
        return rows

    def _compute(
        self,
        missing: Int64[np.ndarray, "n"],
        needed: Int64[np.ndarray, "R"],
        prefixes: Prefixes,
    ) -> None:
        parents = prefixes.parent[missing]
        rows = self._room(len(missing), np.concatenate([needed, parents]), prefixes)
        self.rows.compute(rows, prefixes.row[parents], prefixes.label[missing])
        prefixes.row[missing] = rows
        self.owner[rows] = missing
        self.calls += 1
        self.computed += len(missing)

    def _room(
        self, count: int, held: Int64[np.ndarray, "n"], prefixes: Prefixes
    ) -> Int64[np.ndarray, "count"]:
        free = np.flatnonzero(self.owner == NONE)
        if len(free) < count:
            self.keep(held, prefixes)
            free = np.flatnonzero(self.owner == NONE)
        return free[:count]

    def keep(self, held: Int64[np.ndarray, "n"], prefixes: Prefixes) -> None:
        """Forget all but these."""
        rows = np.flatnonzero((self.owner != NONE) & ~np.isin(self.owner, held))
        prefixes.row[self.owner[rows]] = NONE
        self.owner[rows] = NONE

    def renumber(self, new: Int64[np.ndarray, "N"]) -> None:
        """After prefixes got other numbers, NONE where they are no more."""
        known = self.owner != NONE
        self.owner[known] = new[self.owner[known]]
