"""Which absolute frames the slots of a KVRing hold while a stream runs, read from a real ring."""

from typing import Any

import torch

from vrt.voxtral.cache import KVRing

EMPTY = 0.0  # a key of zeros: a frame before the stream


def ring_trace(
    window: int, capacity: int, chunk: int, chunks: int, moments: int = 80, blocks: int = 64
) -> dict[str, Any]:
    """Feed `chunks` chunks of `chunk` frames to a ring whose keys are frame numbers, and look.

    At about `moments` moments, for about `blocks` blocks of slots, `held` tells which frame a
    block's first slot holds and whether the next query's window reaches it; `cursors` tells, then
    and around each compaction, where writing goes on. Frames count from 0. Raises ValueError where
    the ring cannot be built.
    """
    ring = KVRing(1, 1, window, chunk, torch.float32, torch.device("cpu"), capacity)
    every, height = max(1, chunks // moments), max(1, capacity // blocks)
    held, cursors = [], []
    for number in range(chunks):
        before = _cursor(ring)
        frames = torch.arange(number * chunk, (number + 1) * chunk, dtype=torch.float32)
        keys = (frames + 1).reshape(1, chunk, 1)  # from 1: zero means empty
        ring.append(keys, keys)
        after = _cursor(ring)
        if after["compactions"] > before["compactions"]:
            cursors += [before, after]
        elif number % every == 0:
            cursors.append(after)
        if number % every == 0:
            held += _held(ring, every * chunk, height)
    return {
        "window": window,
        "capacity": capacity,
        "compactions": ring.compactions,
        "held": held,
        "cursors": cursors,
    }


def _cursor(ring: KVRing) -> dict[str, int]:
    return {"seen": ring.seen, "cursor": ring.cursor, "compactions": ring.compactions}


def _held(ring: KVRing, width: int, height: int) -> list[dict[str, Any]]:
    """`width` frames until the next look, `height` slots a block."""
    slots = ring.keys[0, :, 0].tolist()
    oldest = ring.cursor - ring.window + 1  # the first slot that the next query sees
    return [
        {
            "seen": ring.seen,
            "until": ring.seen + width,
            "slot": slot,
            "above": min(slot + height, ring.capacity),
            "frame": int(slots[slot]) - 1,
            "in_window": oldest <= slot < ring.cursor,
        }
        for slot in range(0, ring.capacity, height)
        if slots[slot] != EMPTY
    ]
