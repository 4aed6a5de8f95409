"""Whether what a package says of itself is what its program is."""

from collections.abc import Iterator

from numpy import ndarray

from vrt.coreml.contract import FunctionContract, Port
from vrt.coreml.errors import CoreMLError
from vrt.coreml.findings import Finding
from vrt.coreml.lints import sources
from vrt.coreml.package import Package
from vrt.coreml.program import Argument, Function, Name, Operation
from vrt.coreml.types import TensorType


def about_metadata(package: Package) -> Iterator[Finding]:
    try:
        contract = package.contract
    except CoreMLError as error:
        yield Finding("error", "metadata", "package", str(error))
        return
    if contract is None:
        yield Finding(
            "warning",
            "no metadata",
            "package",
            "it does not say which class is blank, nor its layouts; a host has to guess",
        )
        return
    if {f.name for f in contract.functions} != package.functions.keys():
        said = ", ".join(f.name for f in contract.functions)
        there = ", ".join(package.functions)
        yield Finding("error", "metadata", "package", f"it names functions {said}; it has {there}")
        return
    for said in contract.functions:
        function = package.function(said.name)
        yield from _ports(said, function, contract.sizes)
        yield from _blank(function, contract.blank)


def _ports(said: FunctionContract, function: Function, sizes: dict[str, int]) -> Iterator[Finding]:
    given = {n: t for n, t in function.inputs.items() if not t.state}
    states = {n: t for n, t in function.inputs.items() if t.state}
    for role, ports, types in (
        ("input", said.inputs, given),
        ("output", said.outputs, function.outputs),
        ("state", said.states, states),
    ):
        if {p.name for p in ports} != types.keys():
            yield Finding(
                "error",
                "metadata",
                function.name,
                f"it names {role}s {_names(p.name for p in ports)}; there are {_names(types)}",
            )
            continue
        for port in ports:
            why = _misfit(port, types[port.name], sizes)
            if why:
                yield Finding("error", "metadata", f"{function.name}, {port.name}", why)


def _blank(function: Function, blank: int | None) -> Iterator[Finding]:
    """The class that the program itself reads as blank's score."""
    chain = sources(function, ["blank_score"], {"cast", "squeeze", "reshape", "identity"})
    for op in chain:
        if isinstance(op, Operation) and op.type == "slice_by_index":
            read = _constant(function, op.inputs.get("begin"))
            if read is not None and int(read[-1]) != blank:
                text = f"it reads blank's score from class {read[-1]}, the metadata say {blank}"
                yield Finding("error", "metadata", f"{function.name}, {op.name}", text)


def _constant(function: Function, argument: Argument | None) -> ndarray | None:
    """Of a small constant, its value."""
    if isinstance(argument, Name):
        op = function.producer(argument.text)
        argument = op.inputs.get("val") if op is not None else None
    return argument if isinstance(argument, ndarray) else None


def _misfit(port: Port, type: TensorType, sizes: dict[str, int]) -> str | None:
    if port.dtype != type.dtype or not type.fits(port.shape):
        return f"it says {port.dtype}{list(port.shape)}, the program {type}"
    letters = port.axes.split()
    if len(letters) != len(port.shape):
        return f"its axes are {port.axes!r}, of a shape {list(port.shape)}"
    for letter, length in zip(letters, port.shape, strict=True):
        wanted = int(letter) if letter.isdecimal() else sizes.get(letter, length)
        if wanted != length:
            return f"its axis {letter} is {length}, where the metadata say {wanted}"
    return None


def _names(names: object) -> str:
    return ", ".join(names) or "none"
