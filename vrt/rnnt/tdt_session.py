"""One live stream through a TDT beam search: begin, feed, finalize, reset, as `BeamSession`.

T encoder frames of one feed, J frame width, K beam slots.
"""

import torch

from vrt.rnnt.frames import Frames
from vrt.rnnt.limits import goes_on
from vrt.rnnt.malsd import Observer
from vrt.rnnt.nbest import NBest
from vrt.rnnt.paths import steps
from vrt.rnnt.session import BeamSession
from vrt.rnnt.tdt import Spelled, begin, same_place, step
from vrt.rnnt.tdt_config import TdtConfig
from vrt.rnnt.tdt_nbest import nbest_with_durations, token_durations
from vrt.rnnt.tdt_scorer import DurationScorer


class TdtSession(BeamSession):
    """A `BeamSession` whose hypotheses may have jumped beyond what was fed: the search stops before
    an iteration in which a living one needs a frame not yet fed, and any cutting into feeds gives
    the result of `tdt_malsd` on the whole.

    Which hypotheses have left the last frame is known at `finalize` only, so the merge of the
    newest iteration is made once more there. There is no `commit_after`, and `beam_size` is at
    most V.
    """

    def __init__(
        self,
        scorer: DurationScorer,
        config: TdtConfig | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        observer: Observer | None = None,
    ):
        self.tdt = config or TdtConfig()
        super().__init__(scorer, self.tdt.beam, dtype=dtype, device=device, observer=observer)

    @torch.no_grad()
    def begin(self) -> None:
        """Open a stream."""
        super().begin()
        self._beam = begin(self.scorer, 1, self.tdt, self.dtype, self.device)
        self._durations: list[int] = []  # of the labels in the prefix
        self._newest: Spelled | None = None

    @torch.no_grad()
    def finalize(self) -> NBest:
        """End the stream: the n-best list of all that was fed."""
        self._require("finalize", "open")
        if self._seen:
            self._merge_at_the_end()
            self._guarded_search(self._seen - 1)
        durations = tuple(self._durations)
        (found,) = nbest_with_durations(self._beam.hyps, self.tdt.beam, self._prefix, durations)
        self._phase = "finished"
        return found

    def _merge_at_the_end(self) -> None:
        hyps = self._beam.hyps
        if self._newest is not None:
            hyps.scores = self._newest.score
            at_the_end = same_place(hyps.times, self._there(self._seen - 1), self.tdt)
            hyps.merge(self._newest.same & at_the_end)
        self._beam.active = hyps.times < self._seen

    def _search(self, last: int) -> None:
        beam, frames = self._beam, self._there(last)
        while self._has_frames(beam, last) and goes_on(beam, self.tdt.beam, self._seen):
            self._newest = step(self.scorer, frames, beam, self.tdt, self.observer)

    def _there(self, last: int) -> Frames:
        ends = torch.full((1, 1), last, device=self.device)
        return Frames(self._frames, ends, ends >= 0, self._first)

    def _forget(self) -> None:
        """What all living slots have behind them, with the durations of its labels."""
        hyps, told = self._beam.hyps, len(self._prefix.tokens)
        living = hyps.alive[0].nonzero().flatten().tolist()
        if living and len(hyps.history):
            path = steps(hyps.history, hyps.blank)[0][living[0]]
            durations = token_durations(path, int(hyps.times[0, living[0]]), hyps.blank)
            super()._forget()
            self._durations += durations[: len(self._prefix.tokens) - told]
