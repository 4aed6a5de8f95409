"""The causal front end: two convolutions over mel frames, 8 mel frames -> 4 encoder frames.

T mel frames (10 ms), C channels in, D width, n frames of one piece.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from vrt.voxtral.cache import ConvCache
from vrt.voxtral.config import MEL_PER_TOKEN, VoxtralConfig


class CausalConv1d(nn.Module):
    """A convolution that sees `left_pad` earlier frames and no later one.

    Computed as a linear layer over unfolded rows: `torch.conv1d` gives a frame other last bits in
    another batch (3e-6 in fp32), a linear layer does not.
    """

    def __init__(self, channels: int, width: int, kernel: int, stride: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, channels, kernel))
        self.bias = nn.Parameter(torch.zeros(width))
        self.channels, self.kernel, self.stride = channels, kernel, stride

    @property
    def left_pad(self) -> int:
        """Frames before the first: kernel - stride, so that a piece of n gives n / stride."""
        return self.kernel - self.stride

    def forward(self, x: Float[Tensor, "n C"], cache: ConvCache | None) -> Float[Tensor, "m D"]:
        """`cache` None: offline, zeros before the first frame. n is a multiple of the stride."""
        padded = F.pad(x, (0, 0, self.left_pad, 0)) if cache is None else cache.prepend(x)
        rows = padded.unfold(0, self.kernel, self.stride).flatten(1)  # [m, C * kernel]
        return F.linear(rows, self.weight.flatten(1), self.bias)


class StemState:
    """What the two convolutions remember: 2 mel frames and 1 frame after the first GELU."""

    def __init__(self, stem: "ConvStem"):
        weight = stem.conv1.weight
        self.caches = [
            ConvCache(conv.left_pad, conv.channels, weight.dtype, weight.device)
            for conv in (stem.conv1, stem.conv2)
        ]

    def reset(self) -> None:
        for cache in self.caches:
            cache.reset()

    @property
    def nbytes(self) -> int:
        return sum(cache.tail.nbytes for cache in self.caches)


class ConvStem(nn.Module):
    """kernel 3 stride 1 (left pad 2), GELU, kernel 3 stride 2 (left pad 1), GELU; both exact."""

    def __init__(self, config: VoxtralConfig):
        super().__init__()
        width = config.encoder.width
        self.conv1 = CausalConv1d(config.mel_bins, width, kernel=3, stride=1)
        self.conv2 = CausalConv1d(width, width, kernel=3, stride=2)

    def forward(
        self, mel: Float[Tensor, "T C"], state: StemState | None = None
    ) -> Float[Tensor, "half D"]:
        """Whole tokens only: T a multiple of 8. The fp32 mel is cast to the model's dtype here."""
        if len(mel) % MEL_PER_TOKEN:
            raise ValueError(
                f"ConvStem takes a multiple of {MEL_PER_TOKEN} mel frames, got {len(mel)}"
            )
        first, second = (None, None) if state is None else state.caches
        x = F.gelu(self.conv1(mel.to(self.conv1.weight), first))
        return F.gelu(self.conv2(x, second))
