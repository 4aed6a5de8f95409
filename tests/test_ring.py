"""The key-value ring: what it holds, when it compacts, what it refuses."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vrt.voxtral.cache import ConvCache, KVRing
from vrt.voxtral.config import EncoderConfig
from vrt.voxtral.encoder import EncoderState


def ring(window: int, max_chunk: int, capacity: int | None = None) -> KVRing:
    return KVRing(2, 4, window, max_chunk, torch.float32, torch.device("cpu"), capacity)


def numbered(first: int, count: int) -> torch.Tensor:
    """Keys that say which frame they are: 1, 2, 3, ... (0 stands for before the stream)."""
    return torch.arange(first, first + count).float()[None, :, None].expand(2, count, 4)


@given(
    window=st.integers(1, 12),
    max_chunk=st.integers(1, 9),
    spare=st.integers(0, 20),
    chunks=st.lists(st.integers(1, 9), max_size=40),
)
def test_holds_what_a_plain_list_would(
    window: int, max_chunk: int, spare: int, chunks: list[int]
) -> None:
    """The newest window - 1 + n frames, in order, whatever the chunks and wherever it compacts."""
    slots = ring(window, max_chunk, window + max_chunk - 1 + spare)
    history = [0] * (window - 1)
    for chunk in chunks:
        n = min(chunk, max_chunk)
        keys = numbered(slots.seen + 1, n)
        history += range(slots.seen + 1, slots.seen + 1 + n)
        slots.append(keys, -keys)
        keys, values = slots.last(window - 1 + n)
        assert keys[1, :, 3].tolist() == history[-(window - 1 + n) :]
        assert torch.equal(values, -keys)
    assert slots.seen == sum(min(chunk, max_chunk) for chunk in chunks)


def test_the_default_ring_compacts_exactly_at_its_edge() -> None:
    """1536 slots, window 750, chunks of 4: slots 749..1532 take 196 chunks, the 197th compacts."""
    state = EncoderState(
        EncoderConfig(layers=1, heads=1, head_dim=2), torch.float32, torch.device("cpu")
    )
    slots = state.rings[0]
    assert (slots.capacity, slots.window, slots.max_chunk) == (1536, 750, 512)
    for _ in range(196):
        slots.append(torch.ones(1, 4, 2), torch.ones(1, 4, 2))
    assert (slots.cursor, slots.compactions) == (1533, 0)
    slots.append(torch.ones(1, 4, 2), torch.ones(1, 4, 2))
    assert (slots.cursor, slots.compactions, slots.seen) == (753, 1, 788)


def test_a_chunk_that_lands_on_the_edge_does_not_compact() -> None:
    slots = ring(window=5, max_chunk=4, capacity=12)
    slots.append(numbered(1, 4), numbered(1, 4))
    slots.append(numbered(5, 4), numbered(5, 4))
    assert (slots.cursor, slots.compactions) == (12, 0)
    slots.append(numbered(9, 1), numbered(9, 1))
    assert (slots.cursor, slots.compactions) == (5, 1)
    assert slots.last(5)[0][0, :, 0].tolist() == [5, 6, 7, 8, 9]


def test_capacity_below_window_plus_chunk_is_refused() -> None:
    """A ring of `window` slots loses keys: the chunk's first query needs window - 1 older ones."""
    with pytest.raises(ValueError, match=r"capacity 10 is below window \+ max_chunk - 1 = 13"):
        ring(window=10, max_chunk=4, capacity=10)


@pytest.mark.parametrize("count", [0, 6])
def test_a_chunk_it_cannot_take_is_refused(count: int) -> None:
    slots = ring(window=3, max_chunk=5)
    with pytest.raises(ValueError, match=rf"takes 1..5 frames at once, got {count}"):
        slots.append(numbered(1, count), numbered(1, count))
    assert slots.seen == 0


def test_reset_zeroes_every_slot_and_keeps_the_allocation() -> None:
    slots = ring(window=4, max_chunk=3)
    memory = slots.keys.data_ptr()
    for first in range(1, 30, 3):
        slots.append(torch.full((2, 3, 4), float("nan")), numbered(first, 3))
    slots.reset()
    assert slots.keys.data_ptr() == memory
    assert not slots.keys.any() and not slots.values.any()
    assert (slots.cursor, slots.seen) == (3, 0)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 20, 50])
def test_a_reset_ring_is_a_fresh_one(count: int) -> None:
    """Before, at and after a compaction (the ninth frame makes the first)."""
    slots, fresh = ring(window=5, max_chunk=4, capacity=12), ring(5, 4, 12)
    for first in range(1, count + 1):
        slots.append(torch.full((2, 1, 4), float("nan")), numbered(first, 1))
    assert slots.compactions == (0 if count < 9 else (count - 1) // 8)
    slots.reset()
    for first in range(1, 30, 3):
        for one in (slots, fresh):
            one.append(numbered(first, 3), numbered(first, 3))
        assert torch.equal(slots.last(4 + 3)[0], fresh.last(4 + 3)[0])


@pytest.mark.parametrize("sizes", [[1] * 9, [2, 1, 6], [9]])
def test_conv_cache_rolls_short_pieces(sizes: list[int]) -> None:
    """A piece shorter than the pad keeps the end of what was there."""
    cache = ConvCache(2, 1, torch.float32, torch.device("cpu"))
    frames = torch.arange(1.0, 10)[:, None]
    seen = [cache.prepend(piece)[:, 0].tolist() for piece in frames.split(sizes)]
    history = [0.0, 0.0, *frames[:, 0].tolist()]
    at = 0
    for size, got in zip(sizes, seen, strict=True):
        assert got == history[at : at + size + 2]
        at += size
    assert cache.tail[:, 0].tolist() == [8.0, 9.0]
