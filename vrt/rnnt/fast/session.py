"""One live stream through the fast beam search: as `BeamSession`, call for call and to the bit.

T encoder frames of one feed, J frame width.
"""

import numpy as np
import torch

from vrt.rnnt.config import BeamConfig, BeamError
from vrt.rnnt.counters import Work
from vrt.rnnt.fast.agreed import absorb, living, settle
from vrt.rnnt.fast.beam import FastBeam
from vrt.rnnt.fast.results import nbest_of, path
from vrt.rnnt.fast.search import DTYPES, rows_of
from vrt.rnnt.limits import refuse_endless
from vrt.rnnt.nbest import NBest
from vrt.rnnt.scorer import Scorer
from vrt.rnnt.session import UNKNOWN, BeamSession


class FastSession(BeamSession):
    """A `BeamSession` that searches as `fast_malsd`; for a network give it a `PackedScorer`.

    Raises:
        BeamError: `ties="torch"`, or frames that are not fp32 or fp64: those are for `BeamSession`.
    """

    def __init__(
        self,
        scorer: Scorer,
        config: BeamConfig | None = None,
        *,
        commit_after: int | None = None,
        dtype: torch.dtype = torch.float32,
    ):
        super().__init__(scorer, config, commit_after=commit_after, dtype=dtype)
        if self.config.ties != "lowest" or dtype not in DTYPES:
            raise BeamError(
                f"FastSession has ties='lowest' and fp32 or fp64 frames, got"
                f" ties={self.config.ties!r} and {dtype}; use BeamSession"
            )
        self._rows = rows_of(scorer, self.config, dtype)

    def _started(self) -> FastBeam:
        blank, dtype = self.scorer.blank, DTYPES[self.dtype]
        return FastBeam(self._rows, blank, 1, self.config, dtype)

    def _search(self, last: int) -> None:
        beam, ends = self._beam, np.array([last])
        while True:
            newest = beam.newest()
            if newest < 0 or (last == UNKNOWN and newest >= self._seen):
                return
            refuse_endless(beam.iterations, self.config, self._seen)
            beam.step(self._frames, ends, self._first)

    def _let_read(self, end: int) -> None:
        self._beam.slots.active[:] = self._beam.slots.time < end

    def _settle(self, frame: int) -> None:
        settle(self._beam, frame, self._prefix)

    def _found(self) -> NBest:
        return nbest_of(self._beam, self._prefix)[0]

    def _forget(self) -> None:
        """Frames that all living slots have left, and emissions that are common to them."""
        beam = self._beam
        if not beam.alive.any():
            return
        oldest = min(int(beam.slots.time[beam.alive].min()), self._seen)
        if oldest > self._first:
            self._frames = self._frames[:, oldest - self._first :].clone()
            self._first = oldest
        absorb(beam, self._prefix)

    def _tails(self) -> tuple[list[list[tuple[int, int]]], int]:
        beam, blank = self._beam, self.scorer.blank
        paths = [path(beam, int(emission)) for emission in living(beam)]
        pairs = [[(s.label, s.frame) for s in steps if s.label != blank] for steps in paths]
        return pairs, int(beam.slots.time[beam.alive].min()) if pairs else self._seen

    @property
    def state_bytes(self) -> dict[str, int]:
        """As `BeamSession.state_bytes`; the trees grow in powers of two and never shrink."""
        self._require("state_bytes", "open", "finished")
        trees = (*self._beam.prefixes, *self._beam.emissions)
        return {
            "frames": 0 if self._frames is None else self._frames.nbytes,
            "history": sum(column.nbytes for column in trees),
            "labels": 16 * len(self._prefix.tokens),
        }

    @property
    def work(self) -> Work:
        """What was done since `begin`."""
        self._require("work", "open", "finished")
        return self._beam.work()
