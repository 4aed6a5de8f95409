"""Attention of a step over a cache of fixed size, and the two ways to keep that cache.

n new positions, P cached ones, L layers, G key-value heads, K head width, slots = P + n.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# Added to the scores of slots that are not seen: far below any score, and inside FP16's range.
MASKED = -3e4


def heads_first(x: Float[Tensor, "n width"], heads: int) -> Float[Tensor, "heads n K"]:
    return x.reshape(x.shape[0], heads, x.shape[1] // heads).transpose(0, 1)


def turn(
    x: Float[Tensor, "heads n K"], cos: Float[Tensor, "n half"], sin: Float[Tensor, "n half"]
) -> Float[Tensor, "heads n K"]:
    """Rotary position embedding, half-split: pair i is (x[i], x[i + K/2])."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def seen_slots(n: int, window: int) -> Bool[Tensor, "n slots"]:
    """Query r sees slots r .. r + window - 1, itself the last."""
    slot, query = torch.arange(window - 1 + n), torch.arange(n)[:, None]
    return (slot >= query) & (slot < query + window)


def attend(
    q: Float[Tensor, "G rows K"],
    keys: Float[Tensor, "G slots K"],
    values: Float[Tensor, "G slots K"],
    bias: Float[Tensor, "one_or_rows slots"],
) -> Float[Tensor, "G rows K"]:
    scores = q @ keys.transpose(1, 2) * q.shape[-1] ** -0.5 + bias
    return torch.softmax(scores, dim=-1) @ values


class HostKV:
    """The host keeps the cache: the past comes in, the new keys and values go out."""

    def __init__(self, keys: Float[Tensor, "L G P K"], values: Float[Tensor, "L G P K"]):
        self.past = (keys, values)
        self.added: list[tuple[Tensor, Tensor]] = []

    def extend(
        self, layer: int, k: Float[Tensor, "G n K"], v: Float[Tensor, "G n K"]
    ) -> tuple[Float[Tensor, "G slots K"], Float[Tensor, "G slots K"]]:
        """Keys and values that the layer's queries may see."""
        self.added.append((k, v))
        keys, values = (past[layer] for past in self.past)
        return torch.cat([keys, k], dim=1), torch.cat([values, v], dim=1)

    def new(self) -> tuple[Float[Tensor, "L G n K"], Float[Tensor, "L G n K"]]:
        keys, values = zip(*self.added, strict=True)
        return torch.stack(keys), torch.stack(values)


class StateKV:
    """Core ML keeps the cache, in FP16, the only type that its states have."""

    def __init__(self, shape: tuple[int, int, int, int]):
        self.keys = torch.zeros(shape, dtype=torch.float16)
        self.values = torch.zeros(shape, dtype=torch.float16)

    def extend(
        self, layer: int, k: Float[Tensor, "G n K"], v: Float[Tensor, "G n K"]
    ) -> tuple[Float[Tensor, "G slots K"], Float[Tensor, "G slots K"]]:
        """As `HostKV`; afterwards the oldest n are forgotten."""
        both = []
        for kept, new in ((self.keys, k), (self.values, v)):
            slots = torch.cat([kept[layer].float(), new], dim=1)
            kept[layer] = slots[:, k.shape[1] :].half()
            both.append(slots)
        return both[0], both[1]

    def new(self) -> tuple[()]:
        """Nothing for the host."""
        return ()
