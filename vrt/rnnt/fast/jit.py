"""numba where it is installed; where it is not, the same functions as plain Python.

Compiled code is kept in memory only: nothing is written to disk, and the first search of a process
waits some seconds for it.
"""

import inspect
from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable)

try:
    import numba
except ImportError:
    numba = None

COMPILED = numba is not None


def jit(function: Function) -> Function:
    """Types in the signature tell the reader; no one checks them, at either speed.

    Sums of products may be rounded once instead of twice (fused multiply-add); nothing else is
    left to the compiler: NaN, infinities and the order of sums stay as written.
    """
    function = inspect.unwrap(function)
    if numba is None:
        return function
    return numba.njit(fastmath={"contract"}, error_model="numpy")(function)
