"""A sliding-window ring slot by slot, read from a real `KVRing` after each chunk it was fed."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch

from vrt.voxtral.cache import KVRing

MOST_SLOTS, MOST_CHUNKS = 512, 2000
# new: of this chunk; past: an earlier frame that a query of this chunk sees; before: the zeros that
# stand for frames before the stream; stale: no later query sees it; free: never written.
State = Literal["new", "past", "before", "stale", "free"]


@dataclass(frozen=True)
class RingStep:
    """The ring after a chunk. `frames` has what each slot holds, frames counted from 0; None where
    no frame is. `moved`: a compaction came before this chunk was written."""

    chunk: int
    seen: int
    cursor: int
    compactions: int
    moved: bool
    frames: tuple[int | None, ...]
    states: tuple[State, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        """Slots in a line: [new], past, ~before~, (stale), and a dot for a free one."""
        shown = {"new": "[{}]", "past": "{}", "before": "~", "stale": "({})", "free": "·"}
        cells = (shown[s].format(frame) for s, frame in zip(self.states, self.frames, strict=True))
        return f"chunk {self.chunk}: " + " ".join(cells)


def ring_rows(
    window: int, chunk: int, capacity: int | None = None, chunks: int = 16
) -> list[RingStep]:
    """Feed `chunks` chunks of `chunk` frames and look after each.

    `capacity` None: twice the window and a chunk. Raises ValueError for a ring that cannot be, and
    for one too large to be looked at slot by slot.
    """
    capacity = 2 * window + chunk if capacity is None else capacity
    for name, value, most in (
        ("window", window, MOST_SLOTS),
        ("chunk", chunk, MOST_SLOTS),
        ("capacity", capacity, MOST_SLOTS),
        ("chunks", chunks, MOST_CHUNKS),
    ):
        if not 1 <= value <= most:
            raise ValueError(f"{name} must be 1..{most} to be looked at slot by slot, got {value}")
    ring = KVRing(1, 1, window, chunk, torch.float32, torch.device("cpu"), capacity)
    return [_step(ring, number, chunk) for number in range(chunks)]


def _step(ring: KVRing, number: int, chunk: int) -> RingStep:
    compactions = ring.compactions
    frames = torch.arange(number * chunk, (number + 1) * chunk, dtype=torch.float32)
    keys = (frames + 1).reshape(1, chunk, 1)  # from 1: zero means that no frame is there
    ring.append(keys, keys)
    held = [int(key) - 1 for key in ring.keys[0, :, 0].tolist()]
    first = ring.cursor - chunk - (ring.window - 1)  # of the slots that this chunk's queries see
    states = tuple(_state(ring, slot, frame, first, chunk) for slot, frame in enumerate(held))
    return RingStep(
        number,
        ring.seen,
        ring.cursor,
        ring.compactions,
        ring.compactions > compactions,
        tuple(None if frame < 0 else frame for frame in held),
        states,
    )


def _state(ring: KVRing, slot: int, frame: int, first: int, chunk: int) -> State:
    if first <= slot < ring.cursor:
        if frame < 0:
            return "before"
        return "new" if slot >= ring.cursor - chunk else "past"
    return "free" if frame < 0 else "stale"
