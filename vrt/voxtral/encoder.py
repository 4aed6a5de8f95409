"""The causal sliding-window audio encoder: groups of 4 frames over exactly window + 3 keys.

T encoder frames (20 ms), G = T / 4 groups, D width, H heads, K head width, W window.

A query at frame i sees frames i - W + 1 .. i. The unit of work is one group of 4 queries and the
W + 3 keys they see between them. Offline runs all groups in one batched call, a stream runs one or
more groups a call, over the same keys in the same order: so the two agree bit for bit, and a whole
clip costs O(T W) and not O(T^2).
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from vrt.voxtral.cache import KVRing
from vrt.voxtral.config import FRAMES_PER_TOKEN, EncoderConfig
from vrt.voxtral.layers import RMSNorm, Rotary, SwiGLU, rotate

RING_SLOTS = 1536  # for the released window of 750: compaction every 196 chunks of 4
MAX_CHUNK = 512  # frames a call: bounds a huge feed's memory


class EncoderState:
    """One KVRing a layer, and the absolute position of the next frame.

    `position` counts from the first left-pad frame; starting elsewhere only turns the rotary
    angles, which are relative, so the frames come out the same up to rounding.
    """

    def __init__(
        self,
        config: EncoderConfig,
        dtype: torch.dtype,
        device: torch.device,
        max_chunk: int = MAX_CHUNK,
        capacity: int | None = None,
    ):
        if capacity is None:
            capacity = max(RING_SLOTS, config.window + max_chunk - 1)
        self.rings = [
            KVRing(config.heads, config.head_dim, config.window, max_chunk, dtype, device, capacity)
            for _ in range(config.layers)
        ]
        self.max_chunk = max_chunk
        self.position = 0

    def reset(self, position: int = 0) -> None:
        for ring in self.rings:
            ring.reset()
        self.position = position

    @property
    def nbytes(self) -> int:
        return sum(ring.nbytes for ring in self.rings)


def group_mask(
    window: int,
    first: int,
    groups: int,
    dtype: torch.dtype,
    device: torch.device,
    size: int = FRAMES_PER_TOKEN,
) -> Float[Tensor, "G 1 size keys"]:
    """Additive mask of groups of `size` queries that start at frame `first` since the stream began.

    Key slot j of a group holds frame first - W + 1 + j. Query r sees slots r .. r + W - 1, and
    no frame before the stream. Once W - 1 frames are behind, one mask serves all groups.
    """
    slot = torch.arange(window + size - 1, device=device)
    query = torch.arange(size, device=device)[:, None]
    seen = (slot >= query) & (slot < query + window)  # [size, W + size - 1]
    if first < window - 1:
        starts = first + size * torch.arange(groups, device=device)
        seen = seen & (starts[:, None, None] - window + 1 + slot >= 0)
    mask = torch.zeros(seen.shape, dtype=dtype, device=device).masked_fill_(~seen, float("-inf"))
    return mask.view(-1, 1, *mask.shape[-2:])


class EncoderAttention(nn.Module):
    def __init__(self, config: EncoderConfig):
        super().__init__()
        inner = config.heads * config.head_dim
        self.heads, self.head_dim, self.window = config.heads, config.head_dim, config.window
        self.q = nn.Linear(config.width, inner)
        self.k = nn.Linear(config.width, inner, bias=False)
        self.v = nn.Linear(config.width, inner)
        self.o = nn.Linear(inner, config.width)

    def forward(
        self,
        x: Float[Tensor, "T D"],
        table: tuple[Float[Tensor, "T half"], Float[Tensor, "T half"]],
        mask: Float[Tensor, "G 1 size keys"],
        ring: KVRing | None,
    ) -> Float[Tensor, "T D"]:
        """Group by group, as many queries in each as `mask` has rows."""
        size = mask.shape[-2]
        split = (len(x), self.heads, self.head_dim)
        q = rotate(self.q(x).view(split), *table)
        k = rotate(self.k(x).view(split), *table).transpose(0, 1)
        v = self.v(x).view(split).transpose(0, 1)
        keys, values = self._with_past(k, v, ring)
        q = q.view(-1, size, *split[1:]).transpose(1, 2)  # [G, H, size, K]
        keys, values = self._groups(keys, size), self._groups(values, size)
        mixed = F.scaled_dot_product_attention(q, keys, values, mask)
        return self.o(mixed.transpose(1, 2).reshape(len(x), -1))

    def _with_past(
        self, k: Float[Tensor, "H T K"], v: Float[Tensor, "H T K"], ring: KVRing | None
    ) -> tuple[Float[Tensor, "H slots K"], Float[Tensor, "H slots K"]]:
        """The new keys and values behind the W - 1 before them; offline those are zeros."""
        past = self.window - 1
        if ring is None:
            return F.pad(k, (0, 0, past, 0)), F.pad(v, (0, 0, past, 0))
        ring.append(k, v)
        return ring.last(past + k.shape[1])

    def _groups(self, slots: Float[Tensor, "H slots K"], size: int) -> Float[Tensor, "G H keys K"]:
        """Overlapping views of W + size - 1 slots, one a group; nothing is copied."""
        spans = slots.unfold(1, self.window + size - 1, size)
        return spans.permute(1, 0, 3, 2)


class EncoderLayer(nn.Module):
    def __init__(self, config: EncoderConfig):
        super().__init__()
        self.attention_norm = RMSNorm(config.width, config.eps)
        self.attention = EncoderAttention(config)
        self.mlp_norm = RMSNorm(config.width, config.eps)
        self.mlp = SwiGLU(config.width, config.ff, bias=True)

    def forward(
        self,
        x: Float[Tensor, "T D"],
        table: tuple[Float[Tensor, "T half"], Float[Tensor, "T half"]],
        mask: Float[Tensor, "G 1 size keys"],
        ring: KVRing | None,
    ) -> Float[Tensor, "T D"]:
        x = x + self.attention(self.attention_norm(x), table, mask, ring)
        return x + self.mlp(self.mlp_norm(x))


class Encoder(nn.Module):
    def __init__(self, config: EncoderConfig):
        super().__init__()
        self.config = config
        self.rotary = Rotary(config.theta, config.head_dim)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.width, config.eps)

    def state(self) -> EncoderState:
        """Fresh state of a stream: nothing seen."""
        weight = self.norm.weight
        return EncoderState(self.config, weight.dtype, weight.device)

    def forward(
        self, x: Float[Tensor, "T D"], state: EncoderState | None = None, start: int = 0
    ) -> Float[Tensor, "T D"]:
        """The next T frames (a multiple of 4) of a stream.

        `state` None: nothing came before `x`, whose first frame has absolute position `start`.
        """
        if not len(x) or len(x) % FRAMES_PER_TOKEN:
            raise ValueError(
                f"Encoder takes a positive multiple of {FRAMES_PER_TOKEN} frames, got {len(x)}"
            )
        start = start if state is None else state.position
        seen = 0 if state is None else state.rings[0].seen
        table = self.rotary.table(start, len(x), like=x)
        mask = group_mask(self.config.window, seen, len(x) // FRAMES_PER_TOKEN, x.dtype, x.device)
        rings = [None] * len(self.layers) if state is None else state.rings
        for layer, ring in zip(self.layers, rings, strict=True):
            x = layer(x, table, mask, ring)
        if state is not None:
            state.position += len(x)
        return self.norm(x)
