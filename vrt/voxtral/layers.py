"""The parts both transformers are made of, written so that a row never depends on its company.

R rows (a multiple of 4), T frames, D width, H heads, K head width.

Bit-exact streaming on a CPU rests on measured facts (torch 2.13, fp32 and bf16, 1 to 12 threads): a
linear layer computes a row the same way in every batch whose row count is a multiple of 4,
attention does so when the key axis always has the same length, and so do the other operations but
torch's SiLU, which is spelt out below.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

ROW_UNIT = 4


def pad_rows(x: Float[Tensor, "n D"], unit: int = ROW_UNIT) -> Float[Tensor, "R D"]:
    """`x` with zero rows up to a multiple of `unit`."""
    missing = -len(x) % unit
    return F.pad(x, (0, 0, 0, missing)) if missing else x


class RMSNorm(nn.Module):
    """Mean square in fp32, cast back to the input's dtype, then the weight."""

    def __init__(self, width: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Float[Tensor, "T D"]) -> Float[Tensor, "T D"]:
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * (wide * scale).to(x.dtype)


class Rotary:
    """Rotary position embedding, half-split layout: pair i is (x[i], x[i + K/2]).

    Frequencies are the fp32 ones that the released weights were trained with. The angle is their
    product with an absolute position in float64, so a stream may run for days: in fp32, as the
    reference has it, an angle at hour three (frame 540,000) is off by up to 0.016 rad.
    """

    def __init__(self, theta: float, head_dim: int):
        exponents = torch.arange(0, head_dim, 2, dtype=torch.float32, device="cpu") / head_dim
        self.inv_freq: Float[Tensor, "half"] = 1.0 / (theta**exponents)

    def table(
        self, start: int, count: int, like: Tensor
    ) -> tuple[Float[Tensor, "T half"], Float[Tensor, "T half"]]:
        """Cosines and sines of `count` positions from `start` on, as dtype and device of `like`.

        Always computed on the CPU (some devices have no float64), rounded to fp32 first.
        """
        positions = torch.arange(start, start + count, dtype=torch.float64, device="cpu")
        angles = positions[:, None] * self.inv_freq.double()
        return angles.cos().float().to(like), angles.sin().float().to(like)


def rotate(
    x: Float[Tensor, "T H K"], cos: Float[Tensor, "T half"], sin: Float[Tensor, "T half"]
) -> Float[Tensor, "T H K"]:
    """Turn each pair by its position's angle."""
    cos, sin = cos[:, None], sin[:, None]
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def silu(x: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
    """x * sigmoid(x), an element's bits independent of its place.

    torch's own SiLU computes the last elements of each thread's share by another exponential, so
    they depend on the batch and on the number of threads. exp, + and / do not. Computed in fp32
    and rounded once, as torch does it for bf16.
    """
    wide = x.float()
    return (wide / (1 + torch.exp(-wide))).to(x.dtype)


class SwiGLU(nn.Module):
    def __init__(self, width: int, ff: int, bias: bool):
        super().__init__()
        self.gate = nn.Linear(width, ff, bias=False)
        self.up = nn.Linear(width, ff, bias=False)
        self.down = nn.Linear(ff, width, bias=bias)

    def forward(self, x: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
        return self.down(silu(self.gate(x)) * self.up(x))
