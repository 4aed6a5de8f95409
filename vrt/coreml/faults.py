"""A fault put into a saved package on purpose: what a check must then find, and name."""

import struct
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from vrt.coreml.blobs import RECORD
from vrt.coreml.errors import CoreMLError
from vrt.coreml.package import open_package
from vrt.coreml.program import Blob, Function, Name


def add_to_weight(
    package: str | PathLike[str],
    operation: str,
    parameter: str,
    place: Sequence[int],
    by: float,
    function: str = "main",
) -> str:
    """Add `by` to one float32 number on the disk, and return the name of its constant.

    The number is at `place` of what the first operation of the type `operation` reads as
    `parameter`, such as the `weight_ih` of an `lstm`.

    Raises:
        CoreMLError: no such operation, or it does not read float32 of the weight file there.
    """
    name, blob = _weight(open_package(package).function(function), operation, parameter)
    values = blob.read()
    changed = np.float32(values[tuple(place)] + np.float32(by))
    with Path(blob.path).open("r+b") as file:
        file.seek(blob.offset)
        start = RECORD.unpack(file.read(RECORD.size))[3]
        file.seek(start + 4 * int(np.ravel_multi_index(tuple(place), values.shape)))
        file.write(struct.pack("<f", changed))
    return name


def _weight(function: Function, operation: str, parameter: str) -> tuple[str, Blob]:
    found = [op for op in function.operations if op.type == operation]
    if not found:
        known = ", ".join(sorted({op.type for op in function.operations} - {"const"}))
        raise CoreMLError(f"no operation {operation!r} in {function.name}; there are {known}")
    argument = found[0].inputs.get(parameter)
    maker = function.producer(argument.text) if isinstance(argument, Name) else None
    blob = maker.inputs.get("val") if maker is not None else None
    if not isinstance(blob, Blob) or blob.type.dtype != "float32":
        raise CoreMLError(
            f"{parameter!r} of {found[0].name} ({operation}) is no float32 of the weight file; it"
            f" has {', '.join(found[0].inputs)}"
        )
    return argument.text, blob
