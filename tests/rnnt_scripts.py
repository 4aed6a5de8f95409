"""A scorer that follows a script: which label is likely at which encoder frame, and after how many.

R rows, V classes with blank last. A frame holds (utterance, place).
"""

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Script:
    """`script` maps an encoder frame to its label; labels are taken in the order of their frames.

    At its frame (or later, if missed) the next label has probability `sure`; elsewhere blank has.
    The rest is shared by the other classes. A wrong label leaves the script: from there on all
    classes are as likely. The state is the number of labels taken, -1 off the script, per row.
    """

    vocab: int
    script: dict[int, int]
    sure: float = 0.9

    @property
    def blank(self):
        return self.vocab - 1

    def start(self, rows):
        return torch.zeros(rows, dtype=torch.int64)

    def log_probs(self, frames, state):
        due = sorted(self.script.items())
        rows = torch.full(
            (len(state), self.vocab), math.log((1 - self.sure) / (self.vocab - 1))
        ).to(frames.dtype)
        for row, (t, taken) in enumerate(zip(frames[:, 1].tolist(), state.tolist(), strict=True)):
            ready = 0 <= taken < len(due) and due[taken][0] <= t
            likely = due[taken][1] if ready else self.blank
            if taken >= 0:
                rows[row, likely] = math.log(self.sure)
        return rows.log_softmax(-1)

    def advance(self, state, parents, labels):
        due = [label for _, label in sorted(self.script.items())]
        moves = zip(state[parents].tolist(), labels.tolist(), strict=True)
        return torch.tensor(
            [
                taken
                if label < 0 or label == self.blank
                else taken + 1
                if 0 <= taken < len(due) and due[taken] == label
                else -1
                for taken, label in moves
            ]
        )
