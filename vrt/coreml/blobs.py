"""Weights of a package: arrays in a blob file, and numbers packed into less than a byte each.

Layout (blob format 2, little-endian): a header of 64 bytes (array count, version), then for each
array a record of 64 bytes (sentinel, number type, bytes, offset of the data), all at multiples of
64. A program names an array by the offset of its record.
"""

import struct
from functools import lru_cache
from pathlib import Path

import numpy as np

from vrt.coreml.errors import CoreMLError
from vrt.coreml.types import TensorType

VERSION = 2
HEADER = struct.Struct("<II")
RECORD = struct.Struct("<IIQQ")
SENTINEL = 0xDEADBEEF
# The file's numbers for the types; their names as in MIL.
TYPES = {
    1: "float16",
    2: "float32",
    3: "uint8",
    4: "int8",
    5: "bfloat16",
    6: "int16",
    7: "uint16",
    8: "int4",
    9: "uint1",
    10: "uint2",
    11: "uint4",
    12: "uint3",
    13: "uint6",
    14: "int32",
    15: "uint32",
}


def read_blob(path: Path, offset: int, type: TensorType) -> np.ndarray:
    """The array whose record is at `offset`, which must hold what `type` says."""
    data = _mapped(path)
    if len(data) < HEADER.size:
        raise CoreMLError(f"{path} is cut short: {len(data)} bytes; copy the package again")
    _, version = HEADER.unpack_from(data)
    if version != VERSION:
        raise CoreMLError(f"{path} has blob version {version}, known is {VERSION}; export again")
    if offset + RECORD.size > len(data):
        raise CoreMLError(
            f"{path} is cut short: {len(data)} bytes, and a record at {offset}; copy it again"
        )
    sentinel, number, size, start = RECORD.unpack_from(data, offset)
    if sentinel != SENTINEL:
        raise CoreMLError(f"{path} has no array at {offset}; the package is damaged: export again")
    found = TYPES.get(number, f"number type {number}")
    wanted = -(-type.size * type.bits // 8)
    if found != type.dtype or size != wanted:
        raise CoreMLError(
            f"{path} holds {size} bytes of {found} at {offset}, the program says {wanted} of"
            f" {type.dtype}; the package is damaged: export again"
        )
    if start + size > len(data):
        raise CoreMLError(
            f"{path} is cut short: {len(data)} bytes, and {size} at {start}; copy the package again"
        )
    return decode(bytes(data[start : start + size]), type)


def decode(raw: bytes, type: TensorType) -> np.ndarray:
    """Numbers in row-major order; those of less than a byte begin at the lowest bit."""
    if type.bits >= 8:
        return np.frombuffer(raw, type.numpy).reshape(type.shape)
    values = unpack(np.frombuffer(raw, np.uint8), type.bits, type.size)
    if type.dtype.startswith("int"):  # two's complement
        values = values.astype(np.int8)
        values -= (values >> (type.bits - 1)) << type.bits
    return values.reshape(type.shape)


def unpack(packed: np.ndarray, bits: int, count: int) -> np.ndarray:
    """`count` numbers of `bits` bits each; one may lie across two bytes."""
    stream = np.unpackbits(packed, bitorder="little")[: bits * count].reshape(count, bits)
    weights = (1 << np.arange(bits)).astype(np.uint8)
    return (stream * weights).sum(axis=1, dtype=np.uint8)


def _mapped(path: Path) -> np.ndarray:
    try:
        return _map(path, path.stat().st_mtime_ns)
    except (OSError, ValueError) as error:
        raise CoreMLError(f"{path}: the weights cannot be read ({error})") from None


@lru_cache(maxsize=8)
def _map(path: Path, changed: int) -> np.ndarray:
    return np.memmap(path, np.uint8, "r")
