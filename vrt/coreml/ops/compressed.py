"""Operations that make a constant of a smaller one: palettes, scales and offsets."""

import math

import numpy as np

from vrt.coreml.blobs import unpack
from vrt.coreml.errors import CoreMLError
from vrt.coreml.types import Array


def lut_to_dense(
    indices: Array,
    lut: Array,
    shape: Array | None = None,
    vector_axis: Array | None = None,
) -> Array:
    """iOS16: one table [P], indices packed into bytes and `shape`. iOS18: tables [..., P, 1]."""
    if shape is not None:
        count = math.prod(shape.tolist())
        bits = lut.size.bit_length() - 1
        return lut[unpack(indices, bits, count)].reshape(shape.tolist())
    if lut.shape[-1] != 1:
        raise CoreMLError(
            f"constexpr_lut_to_dense has vectors of {lut.shape[-1]}: known are single numbers"
        )
    tables = _repeated(lut[..., 0], indices.shape)
    return np.take_along_axis(tables, indices[..., None].astype(np.int64), axis=-1)[..., 0]


def affine_dequantize(quantized_data: Array, zero_point: Array, scale: Array, axis: Array) -> Array:
    """scale * (data - zero_point), of which each is one number or one for each place of `axis`."""
    shape = [1] * quantized_data.ndim
    shape[int(axis)] = -1
    zero, scale = (v.reshape(shape) if v.ndim else v for v in (zero_point, scale))
    return scale * (quantized_data.astype(scale.dtype) - zero.astype(scale.dtype))


def blockwise_shift_scale(data: Array, scale: Array, offset: Array | None = None) -> Array:
    """scale * (data - offset), one of each for a block."""
    values = data.astype(scale.dtype)
    if offset is not None:
        values = values - _repeated(offset[..., None], data.shape)[..., 0].astype(scale.dtype)
    return _repeated(scale[..., None], data.shape)[..., 0] * values


def constexpr_cast(source_val: Array, output_dtype: str) -> Array:
    if output_dtype != "fp32":
        raise CoreMLError(f"constexpr_cast to {output_dtype!r}: known is fp32")
    return source_val.astype(np.float32)


def sparse_to_dense(nonzero_data: Array, mask: Array, shape: Array) -> Array:
    """iOS16: one bit for each number, packed into bytes."""
    dense = np.zeros(math.prod(shape.tolist()), nonzero_data.dtype)
    dense[unpack(mask, 1, dense.size) == 1] = nonzero_data
    return dense.reshape(shape.tolist())


def _repeated(blocks: Array, shape: tuple[int, ...]) -> Array:
    """One entry for each number of `shape`, of one for each block; the last axis is the entry's."""
    for axis, length in enumerate(shape):
        if length % blocks.shape[axis]:
            raise CoreMLError(f"{blocks.shape[axis]} blocks do not divide a length of {length}")
        blocks = np.repeat(blocks, length // blocks.shape[axis], axis=axis)
    return blocks


COMPRESSED = {
    "constexpr_affine_dequantize": affine_dequantize,
    "constexpr_blockwise_shift_scale": blockwise_shift_scale,
    "constexpr_cast": constexpr_cast,
    "constexpr_lut_to_dense": lut_to_dense,
    "constexpr_sparse_to_dense": sparse_to_dense,
}
