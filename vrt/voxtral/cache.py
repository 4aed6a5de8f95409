"""What a stream remembers between pieces: convolution tails and sliding-window keys and values.

H heads, n new frames, W window, C channels, K head width.
"""

import torch
from jaxtyping import Float
from torch import Tensor


class ConvCache:
    """The last `left_pad` input frames of a causal convolution, zeros at the start."""

    def __init__(self, left_pad: int, channels: int, dtype: torch.dtype, device: torch.device):
        self.tail = torch.zeros(left_pad, channels, dtype=dtype, device=device)

    def reset(self) -> None:
        self.tail.zero_()

    def prepend(self, x: Float[Tensor, "n C"]) -> Float[Tensor, "n_plus_pad C"]:
        """`x` with what came before it; remembers the end of both (short pieces roll the old)."""
        joined = torch.cat([self.tail, x])
        self.tail.copy_(joined[len(joined) - len(self.tail) :])
        return joined


class KVRing:
    """Keys and values of the last `window` frames: contiguous writes, periodic compaction.

    A query sees itself and window - 1 earlier frames, so a chunk of n queries needs
    window - 1 + n slots side by side. With capacity 1536 and window 750, chunks of 4 are written
    from slots 749, 753, ... 1529 on; then the last 749 frames move to the front and writing goes
    on behind them.

    The first window - 1 slots start as zeros and stand for frames before the stream: a masked
    slot must hold finite numbers, since 0 * NaN is NaN.
    """

    def __init__(
        self,
        heads: int,
        head_dim: int,
        window: int,
        max_chunk: int,
        dtype: torch.dtype,
        device: torch.device,
        capacity: int | None = None,
    ):
        need = window + max_chunk - 1
        self.capacity = need if capacity is None else capacity
        if self.capacity < need:
            raise ValueError(
                f"KVRing capacity {capacity} is below window + max_chunk - 1 = {need};"
                " raise the capacity or feed smaller chunks"
            )
        self.window, self.max_chunk = window, max_chunk
        self.keys = torch.zeros(heads, self.capacity, head_dim, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.cursor = window - 1  # slot of the next frame
        self.seen = 0  # frames since the stream began
        self.compactions = 0

    def reset(self) -> None:
        """Forget everything; the allocation stays.

        Slots before the stream are zeros still, unless a compaction wrote there: a fresh ring costs
        nothing (0.87 GB of the released decoder's would be touched for a stream of seconds).
        """
        written = slice(0 if self.compactions else self.window - 1, self.cursor)
        self.keys[:, written] = 0
        self.values[:, written] = 0
        self.cursor, self.seen, self.compactions = self.window - 1, 0, 0

    def append(self, keys: Float[Tensor, "H n K"], values: Float[Tensor, "H n K"]) -> None:
        n = keys.shape[1]
        if not 1 <= n <= self.max_chunk:
            raise ValueError(
                f"KVRing takes 1..{self.max_chunk} frames at once, got {n};"
                " split the chunk or raise max_chunk"
            )
        if self.cursor + n > self.capacity:
            self._compact()
        end = self.cursor + n
        self.keys[:, self.cursor : end] = keys
        self.values[:, self.cursor : end] = values
        self.cursor, self.seen = end, self.seen + n

    def last(self, count: int) -> tuple[Float[Tensor, "H n K"], Float[Tensor, "H n K"]]:
        """Views of the newest `count` slots, oldest first; before the stream they are zeros."""
        span = slice(self.cursor - count, self.cursor)
        return self.keys[:, span], self.values[:, span]

    def _compact(self) -> None:
        keep = self.window - 1
        for slots in (self.keys, self.values):
            # clone: with capacity < 2 * window - 2 the two ranges overlap
            slots[:, :keep] = slots[:, self.cursor - keep : self.cursor].clone()
        self.cursor = keep
        self.compactions += 1

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes
