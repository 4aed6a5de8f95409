"""What is known to go wrong with packages like this one, found by reading it.

An `error` makes wrong numbers, a `warning` did so on some devices or versions, a `note` is worth
knowing. Issue numbers are those of apple/coremltools unless said.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from vrt.coreml.contract import FunctionContract, Port
from vrt.coreml.errors import CoreMLError
from vrt.coreml.package import Package
from vrt.coreml.program import Function, Name, Operation
from vrt.coreml.types import TensorType

Level = Literal["error", "warning", "note"]
# Operations through which a value is still the same value, moved or held in another type.
PASSING = {"cast", "reshape", "squeeze", "expand_dims", "transpose", "identity", "slice_by_index"}
SHIFTING = PASSING | {"add", "select"}  # and those around the ids of an embedding
STATE_WIDTH = 32  # numbers: the ANE refuses states of another width (2631)


@dataclass(frozen=True)
class Finding:
    """`where` names the function and the operation or port."""

    level: Level
    rule: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.level}: {self.rule}: {self.where}: {self.text}"


def lint(package: Package) -> list[Finding]:
    """All findings, in the order of functions and operations."""
    found = list(_metadata(package))
    for function in package.functions.values():
        for rule in (
            _softmax_then_log,
            _log_sum_exp,
            _half_ports,
            _half_ids,
            _flexible,
            _state_width,
            _lstm,
        ):
            found += rule(function)
    return found


def _at(function: Function, name: str) -> str:
    return f"{function.name}, {name}"


def _sources(
    function: Function, op: Operation, key: str, through: set[str]
) -> Iterator[Operation | str]:
    """What computes the argument `key`, seen through operations that only pass it on."""
    argument = op.inputs.get(key)
    waiting = [argument.text] if isinstance(argument, Name) else []
    while waiting:
        name = waiting.pop()
        producer = function.producer(name)
        if producer is None:
            yield name
        elif producer.type in through:
            yield producer
            waiting += [n for n in producer.reads()]
        else:
            yield producer


def _softmax_then_log(function: Function) -> Iterator[Finding]:
    for op in function.operations:
        if op.type != "log":
            continue
        for source in _sources(function, op, "x", PASSING):
            if isinstance(source, Operation) and source.type == "softmax":
                half = source.outputs[0][1].dtype == "float16"
                yield Finding(
                    "error" if half else "warning",
                    "softmax then log",
                    _at(function, op.name),
                    "every probability below 6e-8 is lost in float16, and log(0) follows; take"
                    " the maximum off the logits and subtract log(sum(exp)) in float32 (2728)",
                )


def _log_sum_exp(function: Function) -> Iterator[Finding]:
    for op in function.operations:
        if op.type == "reduce_log_sum_exp":
            yield Finding(
                "warning",
                "reduce_log_sum_exp",
                _at(function, op.name),
                "reported not to take the maximum off first on the ANE (2690); spell it out",
            )


def _half_ports(function: Function) -> Iterator[Finding]:
    for name, type in (function.inputs | function.outputs).items():
        if type.dtype == "float16" and not type.state:
            yield Finding(
                "error",
                "float16 port",
                _at(function, name),
                "the type was left to coremltools, or hosts must read float16; say dtype float32"
                " (int32 for ids) for every input and output",
            )


def _half_ids(function: Function) -> Iterator[Finding]:
    for op in function.operations:
        if not op.type.startswith("gather"):
            continue
        halves = {s if isinstance(s, str) else s.name for s in _half(function, op)}
        if halves:
            yield Finding(
                "error",
                "float16 ids",
                _at(function, op.name),
                f"its indices pass through float16 ({', '.join(sorted(halves))}), which holds"
                " whole numbers only up to 2048; give ids as int32",
            )


def _half(function: Function, op: Operation) -> Iterator[Operation | str]:
    for source in _sources(function, op, "indices", SHIFTING):
        type = function.inputs[source] if isinstance(source, str) else source.outputs[0][1]
        if type.dtype == "float16":
            yield source


def _flexible(function: Function) -> Iterator[Finding]:
    for name, type in function.inputs.items():
        if None in type.shape:
            yield Finding(
                "warning",
                "flexible shape",
                _at(function, name),
                f"{type}: crashes and idle accelerators are reported (1909, 2370); export one"
                " package, or one function, for each shape",
            )


def _state_width(function: Function) -> Iterator[Finding]:
    for name, type in function.inputs.items():
        if type.state and type.shape and (type.shape[-1] or 0) % STATE_WIDTH:
            yield Finding(
                "warning",
                "state width",
                _at(function, name),
                f"{type}: the ANE is reported to refuse a last axis that is no multiple of"
                f" {STATE_WIDTH} (2631); keep the cache explicit, or pad it",
            )


def _lstm(function: Function) -> Iterator[Finding]:
    names = [op.name for op in function.operations if op.type == "lstm"]
    if names:
        yield Finding(
            "note",
            "lstm",
            _at(function, names[0]),
            "no public measurement has it on the ANE: expect the CPU, or export it unrolled",
        )


def _metadata(package: Package) -> Iterator[Finding]:
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
        yield from _ports(said, package.function(said.name), contract.sizes)


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
                yield Finding("error", "metadata", _at(function, port.name), why)


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
