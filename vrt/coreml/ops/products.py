"""Operations that multiply and sum over an axis: linear, matmul, convolution, attention.

N batch, I input channels, O output channels, G groups.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from vrt.coreml.errors import CoreMLError
from vrt.coreml.ops.reductions import softmax
from vrt.coreml.types import Array


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    y = x @ weight.T
    return y if bias is None else y + bias


def matmul(
    x: Array, y: Array, transpose_x: Array | bool = False, transpose_y: Array | bool = False
) -> Array:
    x = np.swapaxes(x, -1, -2) if transpose_x else x
    return x @ (np.swapaxes(y, -1, -2) if transpose_y else y)


def einsum(values: tuple[Array, ...], equation: str) -> Array:
    return np.einsum(equation, *values)


def attention(query: Array, key: Array, value: Array, attn_mask: Array | None = None) -> Array:
    """Scaled by 1 / sqrt(width of a query); a mask of booleans says who is attended to."""
    scores = query @ np.swapaxes(key, -1, -2) / query.dtype.type(np.sqrt(query.shape[-1]))
    if attn_mask is not None and attn_mask.dtype == np.bool_:
        scores = np.where(attn_mask, scores, query.dtype.type(-np.inf))
    elif attn_mask is not None:
        scores = scores + attn_mask
    return softmax(scores) @ value


def conv(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    strides: Array | None = None,
    pad_type: str = "valid",
    pad: Array | None = None,
    dilations: Array | None = None,
    groups: Array | int = 1,
) -> Array:
    """x [N, I, *spatial], weight [O, I / G, *kernel]; `pad` is before and after each axis."""
    spatial = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *_padding(pad_type, pad, spatial)])
    strides = [1] * spatial if strides is None else strides.tolist()
    dilations = [1] * spatial if dilations is None else dilations.tolist()
    kernel = weight.shape[2:]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    axes = tuple(range(2, x.ndim))
    windows = sliding_window_view(x, spans, axis=axes)  # [N, I, *out, *span]
    steps = [slice(None, None, s) for s in strides] + [slice(None, None, d) for d in dilations]
    windows = windows[(slice(None), slice(None), *steps)]
    inputs, outputs = weight.shape[1], weight.shape[0] // int(groups)
    parts = [
        _correlate(
            windows[:, g * inputs : (g + 1) * inputs], weight[g * outputs : (g + 1) * outputs]
        )
        for g in range(int(groups))
    ]
    y = np.concatenate(parts, axis=1)
    return y if bias is None else y + bias.reshape(-1, *[1] * spatial)


def _correlate(windows: Array, weight: Array) -> Array:
    """windows [N, I, *out, *kernel] with weight [O, I, *kernel]."""
    spatial = weight.ndim - 2
    kernel_axes = list(range(2 + spatial, 2 + 2 * spatial))
    y = np.tensordot(windows, weight, axes=([1, *kernel_axes], [1, *range(2, weight.ndim)]))
    return np.moveaxis(y, -1, 1)


def _padding(pad_type: str, pad: Array | None, spatial: int) -> list[tuple[int, int]]:
    if pad_type == "valid":
        return [(0, 0)] * spatial
    if pad_type == "custom" and pad is not None:
        return [(before, after) for before, after in pad.reshape(spatial, 2).tolist()]
    raise CoreMLError(
        f"conv pads by {pad_type!r}: the interpreter knows 'valid' and 'custom'; pad by numbers"
    )


PRODUCTS = {
    "conv": conv,
    "einsum": einsum,
    "linear": linear,
    "matmul": matmul,
    "scaled_dot_product_attention": attention,
}
