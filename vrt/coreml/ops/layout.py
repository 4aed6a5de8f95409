"""Operations that move numbers and change none: shapes, slices, joins, repeats."""

import numpy as np

from vrt.coreml.errors import CoreMLError
from vrt.coreml.types import Array


def reshape(x: Array, shape: Array) -> Array:
    """-1 is what is left; 0 is the length that x has there, where the ranks are equal."""
    wanted = shape.tolist()
    if 0 in wanted and len(wanted) == x.ndim and x.size:
        wanted = [n or m for n, m in zip(wanted, x.shape, strict=True)]
    return x.reshape(wanted)


def transpose(x: Array, perm: Array) -> Array:
    return x.transpose(perm.tolist())


def squeeze(x: Array, axes: Array | None = None) -> Array:
    return np.squeeze(x, None if axes is None else tuple(axes.reshape(-1).tolist()))


def expand_dims(x: Array, axes: Array) -> Array:
    return np.expand_dims(x, tuple(axes.reshape(-1).tolist()))


def concat(values: tuple[Array, ...], axis: Array, interleave: Array | bool = False) -> Array:
    if interleave:
        raise CoreMLError("concat interleaves: the interpreter knows it one after the other")
    return np.concatenate(values, axis=int(axis))


def stack(values: tuple[Array, ...], axis: Array) -> Array:
    return np.stack(values, axis=int(axis))


def split(
    x: Array,
    axis: Array,
    num_splits: Array | None = None,
    split_sizes: Array | None = None,
) -> tuple[Array, ...]:
    if split_sizes is None:
        if num_splits is None:
            raise CoreMLError("split says neither how many parts nor of which sizes")
        return tuple(np.split(x, int(num_splits), axis=int(axis)))
    if split_sizes.sum() != x.shape[int(axis)]:
        raise CoreMLError(f"split of {x.shape[int(axis)]} into {split_sizes.tolist()}")
    return tuple(np.split(x, np.cumsum(split_sizes)[:-1].tolist(), axis=int(axis)))


def slice_by_index(
    x: Array,
    begin: Array,
    end: Array,
    stride: Array | None = None,
    begin_mask: Array | None = None,
    end_mask: Array | None = None,
    squeeze_mask: Array | None = None,
) -> Array:
    return x[_index(x.ndim, begin, end, stride, begin_mask, end_mask, squeeze_mask)]


def slice_update(
    x: Array,
    update: Array,
    begin: Array,
    end: Array,
    stride: Array | None = None,
    begin_mask: Array | None = None,
    end_mask: Array | None = None,
    squeeze_mask: Array | None = None,
) -> Array:
    y = x.copy()
    place = _index(x.ndim, begin, end, stride, begin_mask, end_mask, squeeze_mask)
    if y[place].shape != update.shape:
        raise CoreMLError(f"slice_update puts {update.shape} where there is {y[place].shape}")
    y[place] = update
    return y


def _index(
    rank: int,
    begin: Array,
    end: Array,
    stride: Array | None,
    begin_mask: Array | None,
    end_mask: Array | None,
    squeeze_mask: Array | None,
) -> tuple[slice | int, ...]:
    """What numpy takes; a mask says that the number is not read."""
    steps = np.ones(rank, int) if stride is None else stride
    off = np.zeros(rank, bool)
    no_begin = off if begin_mask is None else begin_mask
    no_end = off if end_mask is None else end_mask
    single = off if squeeze_mask is None else squeeze_mask
    return tuple(
        (0 if no_begin[i] else int(begin[i]))
        if single[i]
        else slice(
            None if no_begin[i] else int(begin[i]),
            None if no_end[i] else int(end[i]),
            int(steps[i]),
        )
        for i in range(rank)
    )


def slice_by_size(x: Array, begin: Array, size: Array) -> Array:
    """A size of -1 is all that is left."""
    ends = [None if n == -1 else b + n for b, n in zip(begin.tolist(), size.tolist(), strict=True)]
    return x[tuple(slice(b, e) for b, e in zip(begin.tolist(), ends, strict=True))]


def tile(x: Array, reps: Array) -> Array:
    return np.tile(x, reps.tolist())


def pad(x: Array, pad: Array, mode: str = "constant", constant_val: Array | float = 0.0) -> Array:
    """`pad` is before and after each of the last axes."""
    pairs = pad.reshape(-1, 2).tolist()
    widths = [[0, 0]] * (x.ndim - len(pairs)) + pairs
    match mode:
        case "constant":
            return np.pad(x, widths, constant_values=constant_val)
        case "reflect":
            return np.pad(x, widths, mode="reflect")
        case "replicate":
            return np.pad(x, widths, mode="edge")
    raise CoreMLError(f"pad has an unknown mode {mode!r}")


def shape(x: Array) -> Array:
    return np.array(x.shape, dtype=np.int32)


def reverse(x: Array, axes: Array | None = None) -> Array:
    return np.flip(x, None if axes is None else tuple(axes.reshape(-1).tolist()))


def fill(shape: Array, value: Array) -> Array:
    return np.full(shape.tolist(), value)


def range_1d(start: Array, end: Array, step: Array) -> Array:
    return np.arange(start, end, step, dtype=start.dtype)


def band_part(x: Array, lower: Array | int = -1, upper: Array | int = -1) -> Array:
    """Zeros outside a band; a negative width keeps that side whole."""
    rows, columns = np.indices(x.shape[-2:])
    kept = (lower < 0) | (rows - columns <= lower)
    kept &= (upper < 0) | (columns - rows <= upper)
    return np.where(kept, x, x.dtype.type(0))


LAYOUT = {
    "band_part": band_part,
    "concat": concat,
    "expand_dims": expand_dims,
    "fill": fill,
    "pad": pad,
    "range_1d": range_1d,
    "reshape": reshape,
    "reverse": reverse,
    "shape": shape,
    "slice_by_index": slice_by_index,
    "slice_by_size": slice_by_size,
    "slice_update": slice_update,
    "split": split,
    "squeeze": squeeze,
    "stack": stack,
    "tile": tile,
    "transpose": transpose,
}
