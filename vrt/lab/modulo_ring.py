"""A ring as many ports build it, slot = frame modulo size, and the first frame that it gets wrong.

H heads, n new frames, K head width, T encoder frames (20 ms), D width.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from vrt.voxtral.cache import KVRing
from vrt.voxtral.encoder import Encoder


class ModuloRing(KVRing):
    """Frame f lies in slot f % slots, and is overwritten `slots` frames later.

    It takes any size, which `KVRing` does not, and looks right at every size: nothing tells that a
    slot by now holds a later frame than the one that was asked for.
    """

    def __init__(self, like: KVRing, slots: int):
        """Empty, for the heads, window and chunks of `like`."""
        self.window, self.max_chunk, self.capacity = like.window, like.max_chunk, slots
        self.keys = like.keys.new_zeros(like.keys.shape[0], slots, like.keys.shape[2])
        self.values = torch.zeros_like(self.keys)
        self.seen = 0

    def append(self, keys: Float[Tensor, "H n K"], values: Float[Tensor, "H n K"]) -> None:
        self.seen += keys.shape[1]
        newest = min(keys.shape[1], self.capacity)  # a chunk may be longer than the ring
        slots = torch.arange(self.seen - newest, self.seen) % self.capacity
        self.keys[:, slots], self.values[:, slots] = keys[:, -newest:], values[:, -newest:]

    def last(self, count: int) -> tuple[Float[Tensor, "H n K"], Float[Tensor, "H n K"]]:
        """What stands where the newest `count` frames should; before the stream zeros."""
        frames = torch.arange(self.seen - count, self.seen)
        slots, there = frames % self.capacity, (frames >= 0)[None, :, None]
        return self.keys[:, slots].where(there, 0.0), self.values[:, slots].where(there, 0.0)


@torch.no_grad()
def first_wrong_frame(
    encoder: Encoder, x: Float[Tensor, "T D"], slots: int, chunk: int
) -> int | None:
    """The first frame of `x` that chunks of `chunk` frames (a multiple of 4) over rings of `slots`
    slots give other bits than one offline call; None: all are equal."""
    state = encoder.state()
    state.rings = [ModuloRing(ring, slots) for ring in state.rings]
    pieces = [encoder(piece, state) for piece in x.split(chunk)]
    wrong = (torch.cat(pieces) != encoder(x)).any(-1).nonzero()
    return int(wrong[0]) if len(wrong) else None
