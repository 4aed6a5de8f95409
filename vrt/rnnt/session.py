"""One live stream through a beam search: begin, feed, finalize, reset.

    session = BeamSession(scorer, BeamConfig(beam_size=8))
    session.begin()
    for frames in encoder:                # [T, J], any number of encoder frames
        update = session.feed(frames)     # update.committed never changes, update.tentative may
    nbest = session.finalize()            # that of the whole utterance searched at once

T encoder frames of one feed, J frame width, K beam slots.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from vrt.rnnt.agreed import absorb, common, settle
from vrt.rnnt.beam import Beam, begin, refuse_config
from vrt.rnnt.config import BeamConfig, BeamError
from vrt.rnnt.frames import Frames
from vrt.rnnt.limits import goes_on
from vrt.rnnt.malsd import Observer, step
from vrt.rnnt.nbest import NBest, Prefix, nbest
from vrt.rnnt.scorer import Scorer

UNKNOWN = 2**62  # last frame of a stream that goes on


class BeamSessionError(RuntimeError):
    """A call in the wrong order, or on a session that an earlier failure has ended."""


@dataclass(frozen=True)
class BeamUpdate:
    """After a feed. `committed` are the labels that it made certain, with their encoder frames:
    all living hypotheses agree on them. `tentative` is the rest of the best one."""

    committed: tuple[int, ...]
    timestamps: tuple[int, ...]
    tentative: tuple[int, ...]
    frames: int  # encoder frames fed since begin
    waiting: int  # of those, frames that some living hypothesis has not read yet


class BeamSession:
    """All that one stream remembers; the scorer is only read, so many sessions may share it.

    The search stops before an iteration in which a living hypothesis needs a frame not yet fed,
    and the whole beam waits there: so any cutting into feeds gives the result of the whole.
    Kept are frames that may still be read, pointers since the newest hypothesis from which all
    living ones come, and the labels up to there.

    An early doubt that is closer than all later ones keeps all that follows it in doubt, and in
    memory, to the end. `commit_after` settles it: hypotheses that part from the best one more than
    so many frames ago are given up. Memory is bounded then, and the result may differ from that of
    the whole. None, the default, never does that.
    """

    def __init__(
        self,
        scorer: Scorer,
        config: BeamConfig | None = None,
        *,
        commit_after: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        observer: Observer | None = None,
    ):
        self.scorer, self.config = scorer, config or BeamConfig()
        refuse_config(scorer, self.config)
        if commit_after is not None and commit_after < 0:
            raise BeamError(f"commit_after must be 0 frames or more, or None, got {commit_after}")
        self.commit_after = commit_after
        self.dtype, self.device, self.observer = dtype, torch.device(device), observer
        self._phase = "idle"

    @torch.no_grad()
    def begin(self) -> None:
        """Open a stream."""
        self._require("begin", "idle", "finished")
        self._beam = self._started()
        self._frames: Tensor | None = None
        self._first = self._seen = self._committed = 0
        self._prefix = Prefix()
        self._phase = "open"

    @torch.no_grad()
    def feed(self, frames: Float[Tensor, "T J"]) -> BeamUpdate:
        """Take the next encoder frames, none or any number, and search as far as they reach.

        Raises:
            BeamError: frames of another dtype or width (the session stays as it was), or scores
                that are NaN (the session is over).
        """
        self._require("feed", "open")
        self._refuse(frames)
        self._take(frames)
        self._guarded_search(UNKNOWN)
        if self.commit_after is not None:
            self._settle(self._seen - self.commit_after)
        self._forget()
        return self._update()

    @torch.no_grad()
    def finalize(self) -> NBest:
        """End the stream: the n-best list of all that was fed."""
        self._require("finalize", "open")
        if self._seen:
            self._let_read(self._seen)
            self._guarded_search(self._seen - 1)
        found = self._found()
        self._phase = "finished"
        return found

    def hypotheses(self) -> NBest:
        """All living hypotheses as they stand, best first; asking changes nothing."""
        self._require("hypotheses", "open", "finished")
        return self._found()

    def reset(self) -> None:
        """Give up whatever is under way; `begin` may follow."""
        self._phase = "idle"

    @property
    def state_bytes(self) -> dict[str, int]:
        """What is remembered, in bytes: constant in the length of the stream but for the labels
        (16 bytes each), as long as the hypotheses come to agree. The scorer's state is not in."""
        self._require("state_bytes", "open", "finished")
        history = self._beam.hyps.history
        columns = (*history.tokens, *history.parents, *history.stamps, *(history.log_probs or ()))
        return {
            "frames": 0 if self._frames is None else self._frames.nbytes,
            "history": sum(column.nbytes for column in columns),
            "labels": 16 * len(self._prefix.tokens),
        }

    def require_open(self, call: str) -> None:
        """Raise `BeamSessionError` naming `call` unless a stream is open."""
        self._require(call, "open")

    def _take(self, frames: Float[Tensor, "T J"]) -> None:
        kept = frames[None] if self._frames is None else torch.cat([self._frames, frames[None]], 1)
        # Kept frames are copies: a caller may write into what it has fed.
        self._frames = kept.clone() if self._frames is None else kept
        self._seen += len(frames)

    def _guarded_search(self, last: int) -> None:
        try:
            self._search(last)
        except BaseException:
            self._phase = "failed"
            raise

    def _started(self) -> Beam:
        return begin(self.scorer, 1, self.config, self.dtype, self.device)

    def _let_read(self, end: int) -> None:
        """The stream ends before frame `end`."""
        self._beam.active = self._beam.hyps.times < end

    def _settle(self, frame: int) -> None:
        settle(self._beam.hyps, frame, self.config)

    def _found(self) -> NBest:
        hyps, config = self._beam.hyps, self.config
        (found,) = nbest(hyps, config.score_norm, config.ties, self._prefix)
        return found

    def _search(self, last: int) -> None:
        beam, config = self._beam, self.config
        ends = torch.full((1, 1), last, device=self.device)
        frames = Frames(self._frames, ends, ends >= 0, self._first)
        while self._has_frames(beam, last) and goes_on(beam, config, self._seen):
            step(self.scorer, frames, beam, config, self.observer)

    def _has_frames(self, beam: Beam, last: int) -> bool:
        """Whether every living slot that needs a frame finds it; where none lives, not before the
        end."""
        if last != UNKNOWN:
            return True
        times = beam.hyps.times[beam.hyps.alive]
        return len(times) > 0 and int(times.max()) < self._seen

    def _forget(self) -> None:
        """Frames that all living slots have left, and pointers that are common to them."""
        hyps = self._beam.hyps
        if not hyps.alive.any():
            return
        # The last frame is kept: dead slots read some frame too.
        oldest = min(int(hyps.times[hyps.alive].min()), self._seen - 1)
        if oldest > self._first:
            self._frames = self._frames[:, oldest - self._first :].clone()
            self._first = oldest
        absorb(hyps, self._prefix)

    def _update(self) -> BeamUpdate:
        """Of the hypotheses since the last cut, what they share is as certain as what was cut."""
        (pairs, oldest), prefix = self._tails(), self._prefix
        shared, told = common(pairs), self._committed
        cut = zip(prefix.tokens[told:], prefix.timestamps[told:], strict=True)
        fresh = [*cut, *shared[max(0, told - len(prefix.tokens)) :]]
        self._committed += len(fresh)
        return BeamUpdate(
            tuple(token for token, _ in fresh),
            tuple(frame for _, frame in fresh),
            tuple(token for token, _ in pairs[0][len(shared) :]) if pairs else (),
            self._seen,
            self._seen - oldest,
        )

    def _tails(self) -> tuple[list[list[tuple[int, int]]], int]:
        """Labels and frames of each living hypothesis since the last cut, best first; and the
        oldest frame that one of them is to read."""
        hyps = self._beam.hyps
        (tails,) = nbest(hyps, self.config.score_norm, self.config.ties)
        pairs = [list(zip(h.tokens, h.timestamps, strict=True)) for h in tails]
        return pairs, int(hyps.times[hyps.alive].min()) if pairs else self._seen

    def _require(self, call: str, *phases: str) -> None:
        if self._phase in phases:
            return
        if self._phase == "failed":
            raise BeamSessionError(f"{call}: an error ended this stream; call reset, then begin")
        way = {"idle": "call begin first", "open": "call finalize or reset first"}
        way["finished"] = "call begin for a new stream"
        raise BeamSessionError(f"{call}: the session is {self._phase}; {way[self._phase]}")

    def _refuse(self, frames: Float[Tensor, "T J"]) -> None:
        if frames.ndim != 2:
            raise BeamError(f"frames must be [T, J], got shape {list(frames.shape)}")
        if frames.dtype != self.dtype:
            raise BeamError(
                f"frames are {frames.dtype}, the session takes {self.dtype}: convert them, or open"
                f" it with dtype={frames.dtype}"
            )
        if self._frames is not None and frames.shape[1] != self._frames.shape[2]:
            width = self._frames.shape[2]
            raise BeamError(f"frames are {frames.shape[1]} wide, those before were {width}")
