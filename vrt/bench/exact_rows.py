"""Does a row of an operation depend on its company? Largest differences, operation by operation.

R rows, D width in, E width out, H heads, W window. Each number is the largest absolute difference
between a row computed in one batch and the same row computed in another, where values have a
standard deviation of about 1; 0.0 says that the bits are the same.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from vrt.voxtral.config import SAMPLES_PER_TOKEN, EncoderConfig
from vrt.voxtral.encoder import group_mask
from vrt.voxtral.layers import Rotary, silu
from vrt.voxtral.mel import LogMel, LogMelStream

# Inputs and outputs: those of the released sizes, then widths that fill no vector register.
SHAPES = (
    *((384, 1280), (3840, 1280), (1280, 2048), (2048, 1280), (1280, 5120), (5120, 1280)),
    *((5120, 3072), (3072, 3072), (3072, 4096), (3072, 1024), (4096, 3072), (3072, 9216)),
    *((9216, 3072), (36, 44), (48, 96), (33, 7), (1032, 40)),
)
ROWS = 64
FRAMES_PER_SECOND = 50

Rows = Float[Tensor, "R D"]


def linear_differences(
    dtype: torch.dtype, shapes: tuple[tuple[int, int], ...] = SHAPES
) -> dict[str, float]:
    """A linear layer over 64 rows against the same in pieces, by how many rows a piece has."""
    pieces = {"multiples_of_4": (4, 8, 12, 32), "one_row": (1,), "other_counts": (2, 3, 5, 6, 7)}
    worst = dict.fromkeys(pieces, 0.0)
    for fan_in, fan_out in shapes:
        x, weight, bias = _random(0, ROWS, fan_in), _random(1, fan_out, fan_in), _random(2, fan_out)
        weight, bias, x = (w.to(dtype) for w in (weight / fan_in**0.5, bias, x))
        whole = F.linear(x, weight, bias)
        for name, sizes in pieces.items():
            for size in sizes:
                some = x[: 4 * size]  # four pieces: each reads all weights
                parts = torch.cat([F.linear(piece, weight, bias) for piece in some.split(size)])
                worst[name] = max(worst[name], _apart(parts, whole[: len(parts)]))
    return worst


def conv1d_difference() -> float:
    """torch's convolution of 64 mel frames against pieces of 8 that see the 2 frames before."""
    x, weight = _random(0, 1, 128, ROWS + 2), _random(1, 1280, 128, 3) / 384**0.5
    whole = F.conv1d(x, weight)
    pieces = [F.conv1d(x[..., at : at + 10], weight) for at in range(0, ROWS, 8)]
    return _apart(torch.cat(pieces, dim=-1), whole)


def mel_difference(tokens: int = 20) -> float:
    """The log-mel of a clip against the same fed in pieces of 333 samples."""
    samples = 0.1 * _random(0, tokens * SAMPLES_PER_TOKEN)
    whole, stream = LogMel()(samples), LogMelStream(LogMel())
    streamed = torch.cat([stream.feed(piece) for piece in samples.split(333)])
    return _apart(streamed, whole[: len(streamed)])


def attention_differences(groups: int = 8) -> dict[str, float]:
    """Groups of 4 queries over W + 3 keys: one group a call, and with a longer axis of keys."""
    config = EncoderConfig()
    keys = config.window + 3
    q = _random(0, groups, config.heads, 4, config.head_dim)
    k, v = _random(1, 2, groups, config.heads, keys, config.head_dim)
    mask = group_mask(config.window, config.window, groups, q.dtype, q.device)
    together = F.scaled_dot_product_attention(q, k, v, mask)
    each = zip(q.split(1), k.split(1), v.split(1), strict=True)
    alone = [F.scaled_dot_product_attention(*one, mask) for one in each]
    longer = F.scaled_dot_product_attention(
        q, F.pad(k, (0, 0, 0, 9)), F.pad(v, (0, 0, 0, 9)), F.pad(mask, (0, 9), value=-torch.inf)
    )
    return {
        "groups_a_call": _apart(torch.cat(alone), together),
        "nine_masked_keys_more": _apart(longer, together),
    }


def silu_differences(count: int = 1001) -> dict[str, float]:
    """Elements of a vector that fills no whole registers against each alone."""
    x = 4 * _random(0, count)
    functions: dict[str, Callable[[Tensor], Tensor]] = {"torch": F.silu, "spelt_out": _spelt_out}
    return {
        name: _apart(torch.cat([function(one) for one in x.split(1)]), function(x))
        for name, function in functions.items()
    }


def rotary_errors(theta: float = 1e6, head_dim: int = 64) -> dict[str, dict[str, float]]:
    """Cosines and sines of fp32 angles, and of the engine's, against float64; a second each."""
    rotary, times = Rotary(theta, head_dim), {"10_s": 10, "60_s": 60, "3_h": 3 * 3600}
    found: dict[str, dict[str, float]] = {"fp32_angles": {}, "engine": {}}
    for name, seconds in times.items():
        first = seconds * FRAMES_PER_SECOND
        positions = torch.arange(first, first + FRAMES_PER_SECOND)[:, None]
        exact = positions * rotary.inv_freq.double()
        rounded = positions.float() * rotary.inv_freq
        table = rotary.table(first, FRAMES_PER_SECOND, like=rounded)
        for arm, (cos, sin) in {
            "fp32_angles": (rounded.cos(), rounded.sin()),
            "engine": table,
        }.items():
            found[arm][name] = max(_apart(cos, exact.cos()), _apart(sin, exact.sin()))
    return found


def _spelt_out(x: Tensor) -> Tensor:
    return silu(x[None])[0]


def _apart(got: Tensor, want: Tensor) -> float:
    return float((got.double() - want.double()).abs().max())


def _random(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
