"""Blocks of one recording in the order of their numbers, whatever order they arrive in.

A block that is missing is waited for; then its gap is given out instead, with its length. What is
queued has a limit, and a block beyond it is refused: what happens then is for the caller to say.
"""

from collections.abc import Callable
from dataclasses import dataclass

from vrt.lab.widgets.capture import Chunk


@dataclass(frozen=True)
class Gap:
    """Samples that never arrived, before the block that comes next."""

    samples: int
    blocks: int


@dataclass
class Counts:
    """What became of the blocks; samples are the microphone's."""

    received: int = 0  # blocks
    reordered: int = 0  # of those, blocks that a later one had overtaken
    lost_blocks: int = 0
    lost_samples: int = 0  # of lost blocks, and those that the browser itself lost in between
    late: int = 0  # blocks that came after their gap had been given up
    twice: int = 0
    refused: int = 0  # blocks behind the recording's end: a full queue or a stop set it
    malformed: int = 0


class End:
    """All blocks have been given out."""


END = End()


class Reorder:
    """Not thread-safe: its owner holds a lock around each call.

    `gap_s`: how long a missing block is waited for, since one behind it is here. `limit_s`: the
    most audio that waits, gaps included.
    """

    def __init__(
        self, gap_s: int | float, limit_s: int | float, clock: Callable[[], float]
    ) -> None:
        self.gap_s, self.limit_s = gap_s, limit_s
        self.counts = Counts()
        self.received_samples = 0  # where the newest block ends, in the microphone's samples
        self.expected_sample = 0  # where what was given out ends
        self._clock = clock
        self._pending: dict[int, Chunk] = {}
        self._next = 0
        self._newest = -1
        self._missing_since: float | None = None
        self._end: int | None = None  # the number behind the last block
        self._end_sample = 0

    @property
    def queued_samples(self) -> int:
        """Received and not given out, what is missing between included."""
        return max(0, self.received_samples - self.expected_sample)

    def put(self, chunk: Chunk) -> bool:
        """Take a block in; False where it ends the recording, because the queue has no room."""
        counts, number = self.counts, chunk.sequence
        counts.received += not chunk.last
        if self._end is not None and number >= self._end:
            counts.refused += not chunk.last
        elif number < self._next:
            counts.late += not chunk.last
        elif number in self._pending:
            counts.twice += 1
        elif chunk.end - self.expected_sample > self.limit_s * chunk.rate_hz:
            counts.refused += not chunk.last
            self.end()
            return False
        elif chunk.last:
            self.received_samples = max(self.received_samples, chunk.start)
            self._end, self._end_sample = number, chunk.start
        else:
            self._queue(chunk)
        return True

    def end(self) -> None:
        """The recording ends behind the newest block, whatever comes after."""
        if self._end is None:
            self._end = max(self._newest + 1, self._next)
            self._end_sample = self.received_samples

    def pop(self) -> Chunk | Gap | End | None:
        """What comes next; None where it is to be waited for."""
        number = self._first()
        if number is None or (number > self._next and not self._overdue()):
            return None
        chunk = self._pending.get(number)
        start = self._end_sample if chunk is None else chunk.start
        gap = Gap(max(0, start - self.expected_sample), number - self._next)
        self._missing_since = None
        self._next = number
        if gap.samples or gap.blocks:
            self.counts.lost_samples += gap.samples
            self.counts.lost_blocks += gap.blocks
            self.expected_sample += gap.samples
            return gap
        if chunk is None:
            return END
        del self._pending[number]
        self._next = number + 1
        self.expected_sample = max(self.expected_sample, chunk.end)
        return chunk

    def patience(self) -> float | None:
        """Seconds until the block that is missing now is given up; None where none is."""
        if self._first() in (None, self._next):
            return None
        since = self._clock() if self._missing_since is None else self._missing_since
        return max(0.0, since + self.gap_s - self._clock())

    def _queue(self, chunk: Chunk) -> None:
        number = chunk.sequence
        self.counts.reordered += number < self._newest
        self._newest = max(self._newest, number)
        self._pending[number] = chunk
        self.received_samples = max(self.received_samples, chunk.end)

    def _first(self) -> int | None:
        """The lowest number that waits, the end's included."""
        if self._next in self._pending:
            return self._next
        waiting = [*self._pending, *([] if self._end is None else [self._end])]
        return min(waiting, default=None)

    def _overdue(self) -> bool:
        now = self._clock()
        if self._missing_since is None:
            self._missing_since = now
        return now - self._missing_since >= self.gap_s
