"""The tree of hypotheses: for each iteration and slot a token, a pointer to its parent, a stamp.

B utterances, K beam slots, S columns kept (one per iteration).
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int64
from torch import Tensor


@dataclass
class History:
    """Columns in order of time. Blank and -1 (a final hypothesis carried over) are stored too.

    A column's `parents` are slots of the column before it; those of the first column are slots
    at the time when the history began, or was last cut.
    """

    tokens: list[Int64[Tensor, "B K"]] = field(default_factory=list)
    parents: list[Int64[Tensor, "B K"]] = field(default_factory=list)
    stamps: list[Int64[Tensor, "B K"]] = field(default_factory=list)
    # Acoustic log-probability of the token; None where nobody asked for it.
    log_probs: list[Float[Tensor, "B K"]] | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def paths(self) -> Int64[Tensor, "S B K"]:
        """For each slot of the newest column, the slot it came through in every column."""
        if not self.tokens:
            raise IndexError("a history of no columns has no paths")
        slot = torch.arange(self.tokens[-1].shape[1], device=self.tokens[-1].device)
        slot = slot.expand_as(self.tokens[-1])
        columns = []
        for parents in reversed(self.parents):
            columns.append(slot)
            slot = parents.gather(-1, slot)
        return torch.stack(columns[::-1])

    def meeting(self, row: int, slots: list[int]) -> tuple[int, int] | None:
        """Newest column, and slot there, that the paths of all these slots run through."""
        for column in range(len(self) - 1, -1, -1):
            if len(set(slots)) == 1:
                return column, slots[0]
            parents = self.parents[column][row].tolist()
            slots = list({parents[slot] for slot in slots})
        return None

    def until(self, column: int) -> "History":
        """The columns up to this one."""
        parts = (self.tokens, self.parents, self.stamps, self.log_probs)
        return History(*(part and part[: column + 1] for part in parts))

    def cut(self, columns: int) -> None:
        """Forget the oldest columns."""
        for part in (self.tokens, self.parents, self.stamps, self.log_probs or []):
            del part[:columns]

    def same_tokens(self, row: int, left: int, right: int, blank: int) -> bool:
        """Whether two slots of the newest column spell the same labels, walked from the end.

        Where both paths meet in one slot, all before it is shared.
        """
        spelled: tuple[list[int], list[int]] = ([], [])
        slots = [left, right]
        for tokens, parents in zip(reversed(self.tokens), reversed(self.parents), strict=True):
            if slots[0] == slots[1]:
                break
            for side in (0, 1):
                token = int(tokens[row, slots[side]])
                if token >= 0 and token != blank:
                    spelled[side].append(token)
                slots[side] = int(parents[row, slots[side]])
        return spelled[0] == spelled[1]
