"""sha256 of what a run reads: bytes, files, arrays, tensors and named sets of tensors."""

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np


def digest(thing: object) -> str:
    """64 hex digits of sha256.

    Bytes and files (a `Path`) give what `sha256sum` gives. An array gives the digest of its dtype,
    shape and little-endian values; a tensor with the same ones gives the same digest, wherever it
    lies. A mapping (a state dict) gives that of its names and digests, in order of names.

    Raises `TypeError` for anything else; text is refused because it could be a path.
    """
    if isinstance(thing, bytes | bytearray | memoryview):
        return hashlib.sha256(thing).hexdigest()
    if isinstance(thing, os.PathLike):
        with Path(thing).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    if isinstance(thing, Mapping):
        lines = (f"{name} {digest(thing[name])}\n" for name in sorted(thing))
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    torch = sys.modules.get("torch")  # a tensor exists only where torch is loaded
    if torch is not None and isinstance(thing, torch.Tensor):
        flat = thing.detach().cpu().contiguous().reshape(-1)
        # numpy has no bfloat16, and an empty tensor has no view as bytes
        values = flat.view(torch.uint8).numpy() if len(flat) else np.zeros(0, np.uint8)
        return _array_digest(str(thing.dtype).removeprefix("torch."), thing.shape, values)
    if isinstance(thing, np.ndarray | np.generic) and thing.dtype != object:
        array = np.asarray(thing)
        ordered = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        return _array_digest(array.dtype.name, array.shape, ordered)
    kind = type(thing).__name__
    raise TypeError(f"digest takes bytes, a Path, an array, a tensor or a dict of them, got {kind}")


def _array_digest(dtype: str, shape: tuple[int, ...], values: np.ndarray) -> str:
    head = f"{dtype} {'x'.join(map(str, shape))}\n"
    total = hashlib.sha256(head.encode())
    total.update(values.reshape(-1).view(np.uint8))
    return total.hexdigest()
