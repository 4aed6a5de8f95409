"""Operations over whole axes: sums, extrema, softmax, norms, top-K, running sums."""

import numpy as np

from vrt.coreml.errors import CoreMLError
from vrt.coreml.types import Array

INDEX_TYPES = {"int32": np.int32, "uint16": np.uint16}


def _axes(axes: Array | None) -> tuple[int, ...] | None:
    """None is all of them."""
    return None if axes is None else tuple(axes.reshape(-1).tolist())


def reduce_max(x: Array, axes: Array | None = None, keep_dims: Array | bool = False) -> Array:
    return x.max(axis=_axes(axes), keepdims=bool(keep_dims))


def reduce_min(x: Array, axes: Array | None = None, keep_dims: Array | bool = False) -> Array:
    return x.min(axis=_axes(axes), keepdims=bool(keep_dims))


def reduce_sum(x: Array, axes: Array | None = None, keep_dims: Array | bool = False) -> Array:
    return x.sum(axis=_axes(axes), keepdims=bool(keep_dims), dtype=x.dtype)


def reduce_mean(x: Array, axes: Array | None = None, keep_dims: Array | bool = False) -> Array:
    return x.mean(axis=_axes(axes), keepdims=bool(keep_dims), dtype=x.dtype)


def reduce_prod(x: Array, axes: Array | None = None, keep_dims: Array | bool = False) -> Array:
    return x.prod(axis=_axes(axes), keepdims=bool(keep_dims), dtype=x.dtype)


def reduce_sum_square(
    x: Array, axes: Array | None = None, keep_dims: Array | bool = False
) -> Array:
    return reduce_sum(x * x, axes, keep_dims)


def reduce_l2_norm(x: Array, axes: Array | None = None, keep_dims: Array | bool = False) -> Array:
    return np.sqrt(reduce_sum(x * x, axes, keep_dims))


def reduce_log_sum_exp(
    x: Array, axes: Array | None = None, keep_dims: Array | bool = False
) -> Array:
    """With the maximum taken off first; a slice of -inf alone gives -inf."""
    top = reduce_max(x, axes, True)
    finite = np.where(np.isfinite(top), top, x.dtype.type(0))
    total = np.log(reduce_sum(np.exp(x - finite), axes, True)) + finite
    return total if keep_dims else total.reshape(reduce_max(x, axes, False).shape)


def reduce_argmax(
    x: Array,
    axis: Array | int = -1,
    keep_dims: Array | bool = False,
    output_dtype: str = "int32",
) -> Array:
    """The lowest index among equals."""
    return _index(np.argmax(x, axis=int(axis), keepdims=bool(keep_dims)), output_dtype)


def reduce_argmin(
    x: Array,
    axis: Array | int = -1,
    keep_dims: Array | bool = False,
    output_dtype: str = "int32",
) -> Array:
    """The lowest index among equals."""
    return _index(np.argmin(x, axis=int(axis), keepdims=bool(keep_dims)), output_dtype)


def softmax(x: Array, axis: Array | int = -1) -> Array:
    shifted = np.exp(x - x.max(axis=int(axis), keepdims=True))
    return shifted / shifted.sum(axis=int(axis), keepdims=True)


def topk(
    x: Array,
    k: Array | int = 1,
    axis: Array | int = -1,
    ascending: Array | bool = False,
    sort: Array | bool = True,
    return_indices: Array | bool = True,
    output_indices_dtype: str = "int32",
) -> tuple[Array, ...]:
    """Sorted; the lowest index first among equals, which Core ML leaves open.

    k -1 is all. Without `sort` any order is right, so this one is.
    """
    along = int(axis)
    ordered = x if ascending else -x if x.dtype.kind == "f" else -x.astype(np.int64)
    order = np.argsort(ordered, axis=along, kind="stable")
    count = x.shape[along] if int(k) == -1 else int(k)
    best = np.take(order, range(count), axis=along)
    values = np.take_along_axis(x, best, axis=along)
    return (values, _index(best, output_indices_dtype)) if return_indices else (values,)


def cumsum(
    x: Array,
    axis: Array | int = 0,
    exclusive: Array | bool = False,
    reverse: Array | bool = False,
) -> Array:
    along = int(axis)
    x = np.flip(x, along) if reverse else x
    y = np.cumsum(x, axis=along, dtype=x.dtype)
    if exclusive:
        first = np.zeros_like(np.take(y, [0], along))
        y = np.concatenate([first, np.take(y, range(y.shape[along] - 1), along)], axis=along)
    return np.flip(y, along) if reverse else y


def layer_norm(
    x: Array,
    axes: Array,
    gamma: Array | None = None,
    beta: Array | None = None,
    epsilon: Array | float = 1e-5,
) -> Array:
    over = tuple(axis % x.ndim for axis in axes.reshape(-1).tolist())
    centred = x - x.mean(axis=over, keepdims=True)
    y = centred / np.sqrt((centred * centred).mean(axis=over, keepdims=True) + epsilon)
    shape = [length if i in over else 1 for i, length in enumerate(x.shape)]
    y = y if gamma is None else y * gamma.reshape(shape)
    return y if beta is None else y + beta.reshape(shape)


def batch_norm(
    x: Array,
    mean: Array,
    variance: Array,
    gamma: Array | None = None,
    beta: Array | None = None,
    epsilon: Array | float = 1e-5,
) -> Array:
    """x [N, C, *spatial], with the statistics of training."""
    shape = (-1, *[1] * (x.ndim - 2))
    y = (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + epsilon)
    y = y if gamma is None else y * gamma.reshape(shape)
    return y if beta is None else y + beta.reshape(shape)


def _index(index: Array, dtype: str) -> Array:
    if dtype not in INDEX_TYPES:
        raise CoreMLError(f"indices of an unknown dtype {dtype!r}")
    return index.astype(INDEX_TYPES[dtype])


REDUCTIONS = {
    "batch_norm": batch_norm,
    "cumsum": cumsum,
    "layer_norm": layer_norm,
    "reduce_argmax": reduce_argmax,
    "reduce_argmin": reduce_argmin,
    "reduce_l2_norm": reduce_l2_norm,
    "reduce_log_sum_exp": reduce_log_sum_exp,
    "reduce_max": reduce_max,
    "reduce_mean": reduce_mean,
    "reduce_min": reduce_min,
    "reduce_prod": reduce_prod,
    "reduce_sum": reduce_sum,
    "reduce_sum_square": reduce_sum_square,
    "softmax": softmax,
    "topk": topk,
}
