"""A beam as the fast search keeps it: slots, the trees they point into, rows of the predictor.

B utterances, K beam slots, T encoder frames at hand.
"""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from vrt.rnnt.config import BeamConfig, BeamError
from vrt.rnnt.counters import Work
from vrt.rnnt.fast.memory import Memory
from vrt.rnnt.fast.room import has_room, meeting, trimmed
from vrt.rnnt.fast.scored import Rows, Undefined
from vrt.rnnt.fast.slots import (
    BLANKS,
    CARRIED,
    COUNTS,
    FORCED,
    KNOWN,
    LABELS,
    MERGED,
    READS,
    Best,
    Chosen,
    Reads,
    Rules,
    Slots,
    gather,
    iterate,
)
from vrt.rnnt.fast.trees import NONE, Emissions, Prefixes
from vrt.rnnt.limits import undefined

ROOM = 512  # nodes of each tree at first


class FastBeam:
    """All that a search carries from one iteration to the next. `step` is one iteration.

    `remember`: predictor rows of prefixes that no slot holds are kept, for when they are met again.
    """

    def __init__(
        self,
        rows: Rows,
        blank: int,
        batch: int,
        config: BeamConfig,
        dtype: np.dtype,
        remember: bool = True,
    ):
        size, capped = config.beam_size, config.max_symbols is not None
        self.config, self.remember, self.iterations = config, remember, 0
        self.rules = Rules(
            blank,
            config.max_symbols if capped else NONE,
            config.preserve_alignments,
            config.collisions == "nemo",
        )
        self.slots, self._after = (Slots.start(batch, size, dtype) for _ in range(2))
        self.prefixes, self.emissions = Prefixes.start(ROOM), Emissions.start(ROOM, dtype)
        self.memory = Memory(rows, batch * size)
        self._chosen = Chosen.room(size, dtype)
        self._reads = Reads.room(batch * size)
        self._rows, self._winner = (np.zeros((batch, size), dtype=np.int64) for _ in range(2))
        self.counts = np.zeros(COUNTS, dtype=np.int64)

    @property
    def alive(self) -> Bool[np.ndarray, "B K"]:
        return self.slots.score > -np.inf

    def newest(self) -> int:
        """The newest frame that a living slot is to read; -1: none reads any more."""
        self._reading, newest = gather(self.slots, self._reads, self._rows)
        return newest

    def step(
        self, frames: Float[Tensor, "B T J"], last: Int64[np.ndarray, "B"], first: int = 0
    ) -> None:
        """One iteration, after `newest` was asked. Frame t lies at `frames[b, t - first]`; `last`
        is an utterance's last, -1 where it has none.

        Raises:
            BeamError: scores that are no log-probabilities.
        """
        self._make_room()
        best = self._best(frames, first)
        self.counts[READS] += self._reading
        with np.errstate(over="ignore"):  # hashes wrap; numpy would say so where numba is missing
            merges = iterate(
                self.slots,
                self._after,
                best,
                self._rows,
                (self.prefixes, self.emissions),
                last,
                self._chosen,
                self._winner,
                self.rules,
                self.counts,
            )
        self.slots, self._after = self._after, self.slots
        if merges:
            add_merged(self.slots.score, self._winner)
        self.iterations += 1
        if not self.remember:
            self.memory.keep(self._held(), self.prefixes)

    def work(self) -> Work:
        """What was done so far."""
        counted = self.counts.tolist()
        return Work(
            iterations=self.iterations,
            joint_calls=self.iterations,
            joint_rows=counted[READS],
            predictor_calls=self.memory.calls,
            predictor_rows=self.memory.computed,
            blanks=counted[BLANKS],
            labels=counted[LABELS],
            carried=counted[CARRIED],
            known_prefixes=counted[KNOWN],
            forced_blanks=counted[FORCED],
            recombinations=counted[MERGED],
            living_slots=counted[BLANKS] + counted[LABELS] + counted[CARRIED] - counted[MERGED],
        )

    def _best(self, frames: Float[Tensor, "B T J"], first: int) -> Best:
        utterance, slot, frame, prefix = (column[: self._reading] for column in self._reads)
        rows = self.memory.rows_of(prefix, self.prefixes)
        try:
            return self.memory.rows.best(rows, frames, utterance, frame - first)
        except Undefined as error:
            where = int(frame[error.row]), int(utterance[error.row]), int(slot[error.row])
            raise BeamError(undefined(error.value, error.label, *where)) from None

    def _held(self) -> Int64[np.ndarray, "n"]:
        """Prefixes of living slots, and those that they were made from."""
        held = self.slots.prefix[self.alive]
        parents = self.prefixes.parent[held]
        return np.concatenate([held, parents[parents != NONE]])

    def _make_room(self) -> None:
        """Each slot may add a node to each tree."""
        slots, more = self.slots, self.slots.score.size
        if not has_room(self.prefixes, more):
            held = self._held()
            top = meeting(self.prefixes.parent, held)  # nothing above it can be met again
            self.prefixes, new = trimmed(self.prefixes, held, more, top)
            slots.prefix[self.alive] = new[slots.prefix[self.alive]]
            gather(slots, self._reads, self._rows)
            self.memory.renumber(new)
        if not has_room(self.emissions, more):
            self.trim_emissions()

    def trim_emissions(self) -> None:
        held = self.slots.emission[self.alive]
        self.emissions, new = trimmed(self.emissions, held[held != NONE], self.slots.score.size)
        moved = self.alive & (self.slots.emission != NONE)
        self.slots.emission[moved] = new[self.slots.emission[moved]]


def add_merged(score: Float[np.ndarray, "B K"], winner: Int64[np.ndarray, "B K"]) -> None:
    """The best of equal slots takes the sum of their probabilities; the others die.

    torch's own sum, so that scores are those of the clear search to the bit.
    """
    size = score.shape[1]
    lost = (winner != NONE) & (winner != np.arange(size))
    groups = np.unique(np.argwhere(lost)[:, 0] * size + winner[lost])  # utterance and winner
    row, best = np.divmod(groups, size)
    shares = np.where(winner[row] == best[:, None], score[row], score.dtype.type(-np.inf))
    score[row, best] = torch.from_numpy(shares).logsumexp(-1).numpy()
    score[lost] = -np.inf
