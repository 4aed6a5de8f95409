"""Types of a program's values, by MIL's names in lower case (`float32`, `uint6`, `bool`)."""

import math
import re
from dataclasses import dataclass

import numpy as np

from vrt.coreml.errors import CoreMLError

FLOATS = {"float16", "float32"}

Array = np.ndarray | np.generic  # numpy makes a scalar of what has no axes


@dataclass(frozen=True)
class TensorType:
    """`shape` has None for a length that is not fixed; `state`: the runtime keeps it."""

    dtype: str
    shape: tuple[int | None, ...]
    state: bool = False

    def __str__(self) -> str:
        sizes = ", ".join("?" if n is None else str(n) for n in self.shape)
        return f"{self.dtype}[{sizes}]"

    @property
    def size(self) -> int:
        """Numbers in it; every length must be fixed."""
        return math.prod(self.shape)

    @property
    def bits(self) -> int:
        """Of one number as stored."""
        digits = re.search(r"\d+$", self.dtype)
        return int(digits[0]) if digits else 8

    @property
    def numpy(self) -> np.dtype:
        """What holds it here: a type of less than a byte is held in one."""
        if self.bits < 8:
            return np.dtype(np.uint8 if self.dtype.startswith("u") else np.int8)
        if self.dtype in ("bfloat16", "string") or self.dtype.startswith("float8"):
            raise CoreMLError(f"the number type {self.dtype} is unknown to the interpreter")
        return np.dtype(self.dtype)

    def fits(self, shape: tuple[int, ...]) -> bool:
        pairs = zip(self.shape, shape, strict=False)
        return len(shape) == len(self.shape) and all(d in (None, n) for d, n in pairs)
