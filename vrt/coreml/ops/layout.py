"""Operations that move numbers and change none: shapes, slices, joins, repeats."""

import numpy as np
from numpy import ndarray

from vrt.coreml.errors import CoreMLError


def reshape(x: ndarray, shape: ndarray) -> ndarray:
    """-1 is what is left; 0 is the length that x has there, where the ranks are equal."""
    wanted = shape.tolist()
    if 0 in wanted and len(wanted) == x.ndim and x.size:
        wanted = [n or m for n, m in zip(wanted, x.shape, strict=True)]
    return x.reshape(wanted)


def transpose(x: ndarray, perm: ndarray) -> ndarray:
    return x.transpose(perm.tolist())


def squeeze(x: ndarray, axes: ndarray | None = None) -> ndarray:
    return np.squeeze(x, None if axes is None else tuple(axes.reshape(-1).tolist()))


def expand_dims(x: ndarray, axes: ndarray) -> ndarray:
    return np.expand_dims(x, tuple(axes.reshape(-1).tolist()))


def concat(
    values: tuple[ndarray, ...], axis: ndarray, interleave: ndarray | bool = False
) -> ndarray:
    if interleave:
        raise CoreMLError("concat interleaves: the interpreter knows it one after the other")
    return np.concatenate(values, axis=int(axis))


def stack(values: tuple[ndarray, ...], axis: ndarray) -> ndarray:
    return np.stack(values, axis=int(axis))


def split(
    x: ndarray,
    axis: ndarray,
    num_splits: ndarray | None = None,
    split_sizes: ndarray | None = None,
) -> tuple[ndarray, ...]:
    if split_sizes is None:
        if num_splits is None:
            raise CoreMLError("split says neither how many parts nor of which sizes")
        return tuple(np.split(x, int(num_splits), axis=int(axis)))
    if split_sizes.sum() != x.shape[int(axis)]:
        raise CoreMLError(f"split of {x.shape[int(axis)]} into {split_sizes.tolist()}")
    return tuple(np.split(x, np.cumsum(split_sizes)[:-1].tolist(), axis=int(axis)))


def slice_by_index(
    x: ndarray,
    begin: ndarray,
    end: ndarray,
    stride: ndarray | None = None,
    begin_mask: ndarray | None = None,
    end_mask: ndarray | None = None,
    squeeze_mask: ndarray | None = None,
) -> ndarray:
    return x[_index(x.ndim, begin, end, stride, begin_mask, end_mask, squeeze_mask)]


def slice_update(
    x: ndarray,
    update: ndarray,
    begin: ndarray,
    end: ndarray,
    stride: ndarray | None = None,
    begin_mask: ndarray | None = None,
    end_mask: ndarray | None = None,
    squeeze_mask: ndarray | None = None,
) -> ndarray:
    y = x.copy()
    place = _index(x.ndim, begin, end, stride, begin_mask, end_mask, squeeze_mask)
    if y[place].shape != update.shape:
        raise CoreMLError(f"slice_update puts {update.shape} where there is {y[place].shape}")
    y[place] = update
    return y


def _index(
    rank: int,
    begin: ndarray,
    end: ndarray,
    stride: ndarray | None,
    begin_mask: ndarray | None,
    end_mask: ndarray | None,
    squeeze_mask: ndarray | None,
) -> tuple[slice | int, ...]:
    """What numpy takes; a mask says that the number is not read."""
    steps = np.ones(rank, int) if stride is None else stride
    off = np.zeros(rank, bool)
    no_begin = off if begin_mask is None else begin_mask
    no_end = off if end_mask is None else end_mask
    single = off if squeeze_mask is None else squeeze_mask
    return tuple(
        int(begin[i])
        if single[i]
        else slice(
            None if no_begin[i] else int(begin[i]),
            None if no_end[i] else int(end[i]),
            int(steps[i]),
        )
        for i in range(rank)
    )


def slice_by_size(x: ndarray, begin: ndarray, size: ndarray) -> ndarray:
    """A size of -1 is all that is left."""
    ends = [None if n == -1 else b + n for b, n in zip(begin.tolist(), size.tolist(), strict=True)]
    return x[tuple(slice(b, e) for b, e in zip(begin.tolist(), ends, strict=True))]


def tile(x: ndarray, reps: ndarray) -> ndarray:
    return np.tile(x, reps.tolist())


def pad(
    x: ndarray, pad: ndarray, mode: str = "constant", constant_val: ndarray | float = 0.0
) -> ndarray:
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


def shape(x: ndarray) -> ndarray:
    return np.array(x.shape, dtype=np.int32)


def reverse(x: ndarray, axes: ndarray | None = None) -> ndarray:
    return np.flip(x, None if axes is None else tuple(axes.reshape(-1).tolist()))


def fill(shape: ndarray, value: ndarray) -> ndarray:
    return np.full(shape.tolist(), value)


def range_1d(start: ndarray, end: ndarray, step: ndarray) -> ndarray:
    return np.arange(start, end, step, dtype=start.dtype)


def band_part(x: ndarray, lower: ndarray | int = -1, upper: ndarray | int = -1) -> ndarray:
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
