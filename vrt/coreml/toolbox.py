"""The door to coremltools: imported quietly, where it can work, and nowhere else.

On Linux its import prints eight lines about a missing Apple library, and its conversions draw
progress bars; neither says anything to a user.
"""

import contextlib
import importlib
import io
import logging
import warnings
from collections.abc import Iterator
from types import ModuleType

import numpy as np

from vrt.coreml.errors import CoreMLError

INSTALL = "pip install 'vrt[coreml]'"
NUMPY_LIMIT = (2, 4)  # coremltools 9.0 reads shapes by a conversion that numpy 2.4 took away


def toolbox() -> ModuleType:
    """The module `coremltools`.

    Raises:
        CoreMLError: it is not installed, or cannot work with this numpy.
    """
    logging.getLogger("coremltools").setLevel(logging.ERROR)
    try:
        found = importlib.import_module("coremltools")
    except ModuleNotFoundError as error:
        if error.name != "coremltools":
            raise
        raise CoreMLError(f"Core ML packages need coremltools: {INSTALL}") from None
    refuse_numpy(found.__version__, np.__version__)
    return found


def refuse_numpy(coremltools: str, numpy: str) -> None:
    """Versions as text. Raises `CoreMLError` where conversions would fail half way."""
    if _version(coremltools) < (9, 1) and _version(numpy) >= NUMPY_LIMIT:
        raise CoreMLError(
            f"coremltools {coremltools} cannot convert with numpy {numpy}"
            " (apple/coremltools issue 2633): pip install 'numpy<2.4'"
        )


def _version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No progress bars, and no warning that torch will drop `torch.jit.trace` some day."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
