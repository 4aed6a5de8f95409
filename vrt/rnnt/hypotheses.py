"""The beam's bookkeeping: scores, hashes, counters and the pointer history of B x K hypotheses.

B utterances, K beam slots, S iterations.
"""

from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from vrt.rnnt.history import History

DEAD = -torch.inf
CARRIED = -1  # the label of a final hypothesis that an iteration carries over
HASH_MULTIPLIER = 6364136223846793005  # modulo 2^64: int64 arithmetic wraps


@dataclass
class BeamHypotheses:
    """K hypotheses an utterance, in the order of their scores before the last merge."""

    blank: int
    scores: Float[Tensor, "B K"]  # total log-probability; -inf: a dead slot
    last_label: Int64[Tensor, "B K"]  # last label that is not blank, -1: none yet
    hashes: Int64[Tensor, "B K"]  # of all labels so far
    lengths: Int64[Tensor, "B K"]  # labels so far, blanks not counted
    symbols: Int64[Tensor, "B K"]  # labels at the current encoder frame
    times: Int64[Tensor, "B K"]  # encoder frame to be read next
    history: History = field(default_factory=History)

    @classmethod
    def start(
        cls, batch: int, beam: int, blank: int, dtype: torch.dtype, device: torch.device
    ) -> "BeamHypotheses":
        """One empty hypothesis in slot 0 of each utterance; the other slots are dead."""
        zeros = torch.zeros(batch, beam, dtype=torch.int64, device=device)
        scores = torch.full((batch, beam), DEAD, dtype=dtype, device=device)
        scores[:, 0] = 0.0
        return cls(blank, scores, zeros - 1, zeros, zeros, zeros, zeros)

    @property
    def alive(self) -> Bool[Tensor, "B K"]:
        return self.scores > DEAD

    def extend(
        self,
        parent: Int64[Tensor, "B K"],
        label: Int64[Tensor, "B K"],
        score: Float[Tensor, "B K"],
    ) -> None:
        """Slot k becomes slot `parent[k]` with `label[k]` appended, and its counters with it."""
        is_blank = label == self.blank
        is_label = (label >= 0) & ~is_blank
        self.times = self.times.gather(-1, parent) + is_blank
        self.symbols = (self.symbols.gather(-1, parent) + is_label).where(~is_blank, 0)
        self.lengths = self.lengths.gather(-1, parent) + is_label
        hashes = self.hashes.gather(-1, parent)
        self.hashes = (hashes * HASH_MULTIPLIER + 1 + label).where(is_label, hashes)
        self.last_label = label.where(is_label, self.last_label.gather(-1, parent))
        self.scores = score
        # A label's stamp is the frame it was emitted at, a blank's the frame after it.
        self.history.tokens.append(label)
        self.history.parents.append(parent)
        self.history.stamps.append(self.times)

    def equal(self, collisions: Literal["verify", "nemo"]) -> Bool[Tensor, "B K K"]:
        """Which slots spell the same labels: by hash, last label and length, as NeMo has it, or
        with the tokens of living slots compared as well."""
        same = _pairs_equal(self.hashes) & _pairs_equal(self.last_label)
        same &= _pairs_equal(self.lengths)
        if collisions == "verify":
            alive = self.alive
            living = same & alive.unsqueeze(-1) & alive.unsqueeze(-2)
            for row, left, right in living.triu(diagonal=1).nonzero().tolist():
                if not self.history.same_tokens(row, left, right, self.blank):
                    same[row, left, right] = same[row, right, left] = False
        return same

    def merge(self, same: Bool[Tensor, "B K K"]) -> None:
        """The best of equal slots takes the sum of their probabilities; the others die.

        The winner keeps its own counters and pointers. Freed slots wait for the next pruning.
        """
        rows = self.scores.unsqueeze(-2).where(same, DEAD)
        slots = torch.arange(self.scores.shape[-1], device=self.scores.device)
        winner = rows.argmax(-1) == slots  # the first of equal scores
        self.scores = rows.logsumexp(-1).where(winner, DEAD)


def _pairs_equal(values: Int64[Tensor, "B K"]) -> Bool[Tensor, "B K K"]:
    return values.unsqueeze(-1) == values.unsqueeze(-2)
