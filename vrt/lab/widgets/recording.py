"""One recording on its way to text: blocks come in on any thread, one thread of its own hears them.

n samples at the microphone's rate; a piece is 80 ms at 16 kHz.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from jaxtyping import Float32

from vrt.audio import AudioError, StreamingResampler
from vrt.lab.widgets.capture import BLOCK_MS, Chunk
from vrt.lab.widgets.latency import Cutter, Pieces
from vrt.lab.widgets.order import END, Counts, End, Gap, Reorder
from vrt.lab.widgets.sessions import Heard, LiveSession

Phase = Literal["listening", "finishing", "finished", "failed", "given up"]
OVER = ("finished", "failed", "given up")


@dataclass(frozen=True)
class Limits:
    """When patience ends, in seconds.

    `queue_s`: audio that may wait for the model; a recording that has more is ended, and what
    waits is still heard. `gap_s`: how long a block that others overtook is waited for; then silence
    stands for it. `quiet_s`: how long no block may come before the microphone counts as gone.
    """

    queue_s: int | float = 8.0
    gap_s: int | float = 1.0
    quiet_s: int | float = 30.0

    def __post_init__(self) -> None:
        for name, least in (("queue_s", 2 * BLOCK_MS / 1000), ("gap_s", 0.0), ("quiet_s", 0.01)):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not least <= value < math.inf:
                raise ValueError(f"{name} is {value!r}; seconds, a number of at least {least}")


@dataclass
class Progress:
    """What a recording has come to; a copy of it is what others see."""

    phase: Phase = "listening"
    message: str = ""  # for the user; empty while all is well
    heard: Heard = field(default_factory=Heard)
    received_s: float = 0.0
    queued_s: float = 0.0
    newest: int = -1  # sequence of the block that came last, and when
    newest_at: float = 0.0
    counts: Counts = field(default_factory=Counts)


class Recording:
    """Over when `phase` says so. `take`, `stop` and `give_up` may be called from any thread, and
    return at once: the session is opened, fed and ended by this recording's own thread.
    """

    def __init__(
        self,
        number: int,
        rate_hz: int,
        open_session: Callable[[], LiveSession],
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.number, self.rate_hz, self.limits = number, rate_hz, limits
        self._open_session, self._clock = open_session, clock
        self._order = Reorder(limits.gap_s, limits.queue_s, clock)
        self._progress, self._pieces = Progress(), Pieces()
        self._resampler, self._cutter = StreamingResampler(rate_hz), Cutter()
        self._changed = threading.Condition()
        self._given_up = False
        self._last_block = clock()
        self._thread = threading.Thread(target=self._work, name="vrt live", daemon=True)
        self._thread.start()

    def take(self, chunk: Chunk) -> None:
        """Queue a block. A block that the queue has no room for ends the recording before it."""
        with self._changed:
            progress = self._progress
            if progress.phase in OVER:
                self._order.counts.late += not chunk.last
                return
            if chunk.rate_hz != self.rate_hz:
                self.malformed(f"a block of {chunk.rate_hz} Hz in a recording of {self.rate_hz} Hz")
                return
            missing_s = (chunk.start - self._order.received_samples) / self.rate_hz
            self._last_block = self._clock()
            progress.newest, progress.newest_at = chunk.sequence, self._last_block
            if not self._order.put(chunk):
                progress.phase = "finishing"
                progress.message = self._why_full(missing_s)
            elif chunk.last:
                progress.phase = "finishing"
            self._changed.notify_all()

    def _why_full(self, missing_s: float) -> str:
        rest = "All that came before is transcribed, nothing in between is left out."
        if missing_s > self.limits.queue_s / 2:
            return f"Stopped: {missing_s:.1f} s of audio are missing at once. {rest}"
        waited = f"{self.limits.queue_s:g} s of audio were waiting"
        return f"Stopped: {waited}, the model is slower than speech. {rest}"

    def malformed(self, reason: str) -> None:
        """Count a message that was no block; the recording goes on, its gap will show."""
        with self._changed:
            self._order.counts.malformed += 1
            self._progress.message = f"A message from the browser was refused: {reason}"

    def stop(self) -> None:
        """No more audio; what was received is still heard."""
        with self._changed:
            if self._progress.phase == "listening":
                self._order.end()
                self._progress.phase = "finishing"
            self._changed.notify_all()

    def give_up(self) -> None:
        """End without the rest of the text."""
        with self._changed:
            self._given_up = True
            self._changed.notify_all()

    def wait(self, timeout: int | float | None = None) -> bool:
        """Until the recording is over; False where `timeout` seconds were not enough."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def wait_for_room(self, seconds: int | float, timeout: int | float = 60.0) -> bool:
        """Until `seconds` of audio fit the queue, or the recording is over."""
        most = (self.limits.queue_s - seconds) * self.rate_hz
        with self._changed:
            return self._changed.wait_for(
                lambda: self._progress.phase in OVER or self._order.queued_samples <= most, timeout
            )

    @property
    def progress(self) -> Progress:
        with self._changed:
            order = self._order
            return replace(
                self._progress,
                counts=replace(order.counts),
                received_s=order.received_samples / self.rate_hz,
                queued_s=order.queued_samples / self.rate_hz,
            )

    @property
    def pieces(self) -> Pieces:
        with self._changed:
            return self._pieces.copy()

    def _work(self) -> None:
        try:
            session = self._open_session()
            session.begin()
            while not isinstance(item := self._next(), End):
                for piece in self._cutter.feed(self._resampler.feed(self._samples(item))):
                    self._feed(session, piece)
            self._finish(session)
            self._over("given up" if self._given_up else "finished")
        except AudioError as error:
            self._over("failed", f"The audio cannot be used: {error}")
        except Exception as error:  # the thread's end: what went wrong is for the user to see
            self._over("failed", f"The session ended with {type(error).__name__}: {error}")

    def _next(self) -> Chunk | Gap | End:
        """The next block or gap; the end also where no block came for too long."""
        with self._changed:
            while not self._given_up:
                if (item := self._order.pop()) is not None:
                    self._changed.notify_all()
                    return item
                patience = self._order.patience()
                if self._progress.phase == "listening":
                    quiet = self._last_block + self.limits.quiet_s - self._clock()
                    if quiet <= 0:
                        self._end_quietly()
                        continue
                    patience = quiet if patience is None else min(quiet, patience)
                self._changed.wait(patience)
        return END

    def _end_quietly(self) -> None:
        self._order.end()
        self._progress.phase = "finishing"
        self._progress.message = (
            f"No audio came for {self.limits.quiet_s:g} s: the browser, the microphone or the"
            " connection is gone."
        )

    def _samples(self, item: Chunk | Gap) -> Float32[np.ndarray, "n"]:
        """Silence stands for what was lost, so that times stay right."""
        return np.zeros(item.samples, np.float32) if isinstance(item, Gap) else item.samples

    def _feed(self, session: LiveSession, piece: Float32[np.ndarray, "n"]) -> None:
        if self._given_up:
            return
        start = time.perf_counter()
        heard = session.feed(piece)
        seconds = time.perf_counter() - start
        with self._changed:
            self._pieces.add(piece, seconds)
            self._progress.heard = heard

    def _finish(self, session: LiveSession) -> None:
        for piece in [*self._cutter.feed(self._resampler.finish()), *self._cutter.finish()]:
            self._feed(session, piece)
        if self._given_up:
            return
        heard = session.finalize()
        with self._changed:
            self._progress.heard = heard

    def _over(self, phase: Phase, message: str = "") -> None:
        with self._changed:
            self._progress.phase = phase
            self._progress.message = message or self._progress.message
            self._changed.notify_all()
