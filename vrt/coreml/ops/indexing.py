"""Operations that read or write at places held in a tensor: gather, scatter, one-hot.

Since iOS17 an index below 0 or beyond the end has no defined answer, so it is an error here.
"""

import numpy as np

from vrt.coreml.errors import CoreMLError
from vrt.coreml.types import Array


def _inside(indices: Array, length: int, operation: str) -> Array:
    wrong = (indices < 0) | (indices >= length)
    if wrong.any():
        raise CoreMLError(
            f"{operation} reads index {indices[wrong][0]} of 0..{length - 1}: what Core ML answers"
            " is not defined"
        )
    return indices.astype(np.int64)


def gather(
    x: Array,
    indices: Array,
    axis: Array | int = 0,
    batch_dims: Array | int = 0,
    validate_indices: Array | bool = False,
) -> Array:
    along, batch = int(axis) % x.ndim, int(batch_dims)
    indices = _inside(indices, x.shape[along], "gather")
    if batch == 0:
        return np.take(x, indices, axis=along)
    rows = np.ndindex(*x.shape[:batch])
    parts = [np.take(x[row], indices[row], axis=along - batch) for row in rows]
    return np.stack(parts).reshape(*x.shape[:batch], *parts[0].shape)


def gather_along_axis(
    x: Array,
    indices: Array,
    axis: Array | int = 0,
    validate_indices: Array | bool = False,
) -> Array:
    indices = _inside(indices, x.shape[int(axis)], "gather_along_axis")
    return np.take_along_axis(x, indices, axis=int(axis))


def gather_nd(
    x: Array,
    indices: Array,
    batch_dims: Array | int = 0,
    validate_indices: Array | bool = False,
) -> Array:
    if int(batch_dims):
        raise CoreMLError("gather_nd has batch_dims: the interpreter knows it without")
    return x[_places(indices, x.shape, "gather_nd")]


def scatter(
    data: Array,
    indices: Array,
    updates: Array,
    mode: str,
    axis: Array | int = 0,
    validate_indices: Array | bool = False,
) -> Array:
    indices = _inside(indices, data.shape[int(axis)], "scatter")
    place = (slice(None),) * (int(axis) % data.ndim) + (indices,)
    return _written(data, place, updates, mode, "scatter")


def scatter_along_axis(
    data: Array,
    indices: Array,
    updates: Array,
    mode: str,
    axis: Array | int = 0,
    validate_indices: Array | bool = False,
) -> Array:
    along = int(axis) % data.ndim
    places = list(np.indices(indices.shape))
    places[along] = _inside(indices, data.shape[along], "scatter_along_axis")
    return _written(data, tuple(places), updates, mode, "scatter_along_axis")


def scatter_nd(
    data: Array,
    indices: Array,
    updates: Array,
    mode: str,
    validate_indices: Array | bool = False,
) -> Array:
    place = _places(indices, data.shape, "scatter_nd")
    return _written(data, place, updates, mode, "scatter_nd")


def _places(indices: Array, shape: tuple[int, ...], operation: str) -> tuple[Array, ...]:
    """The last axis of `indices` names a place by its first coordinates."""
    count = indices.shape[-1]
    return tuple(_inside(indices[..., i], shape[i], operation) for i in range(count))


def _written(data: Array, place: tuple, updates: Array, mode: str, operation: str) -> Array:
    """`mode` says what becomes of what was there; repeated places all count, but for update."""
    result = data.copy()
    combine = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "max": np.maximum,
        "min": np.minimum,
    }
    if mode == "update":
        result[place] = updates
    elif mode in combine:
        combine[mode].at(result, place, updates)
    else:
        raise CoreMLError(f"{operation} has an unknown mode {mode!r}")
    return result


def one_hot(
    indices: Array,
    one_hot_vector_size: Array,
    axis: Array | int = -1,
    on_value: Array | int = 1,
    off_value: Array | int = 0,
) -> Array:
    """An index outside has no hot place."""
    on, off = np.asarray(on_value), np.asarray(off_value)
    hot = indices[..., None] == np.arange(int(one_hot_vector_size))
    return np.moveaxis(np.where(hot, on, off), -1, int(axis))


INDEXING = {
    "gather": gather,
    "gather_along_axis": gather_along_axis,
    "gather_nd": gather_nd,
    "one_hot": one_hot,
    "scatter": scatter,
    "scatter_along_axis": scatter_along_axis,
    "scatter_nd": scatter_nd,
}
