"""What is known to go wrong with programs like this one, found by reading it.

Numbers in brackets are issues of apple/coremltools.
"""

from collections.abc import Iterable, Iterator

from vrt.coreml.findings import Finding
from vrt.coreml.package import Package
from vrt.coreml.program import Function, Name, Operation

# Operations through which a value is still the same value, moved or held in another type.
PASSING = {"cast", "reshape", "squeeze", "expand_dims", "transpose", "identity", "slice_by_index"}
SHIFTING = PASSING | {"add", "select"}  # and those around the ids of an embedding
STATE_WIDTH = 32  # numbers: the ANE refuses states of another width (2631)


def lint(package: Package) -> list[Finding]:
    """All findings, in the order of functions and operations."""
    found: list[Finding] = []
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


def sources(
    function: Function, names: Iterable[str], through: set[str]
) -> Iterator[Operation | str]:
    """What computes these values, and what that passes on; an input is its name."""
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        op = function.producer(name)
        yield name if op is None else op
        if op is not None and op.type in through:
            waiting += op.reads()


def _named(op: Operation, key: str) -> list[str]:
    argument = op.inputs.get(key)
    return [argument.text] if isinstance(argument, Name) else []


def _softmax_then_log(function: Function) -> Iterator[Finding]:
    for op in function.operations:
        if op.type != "log":
            continue
        for source in sources(function, _named(op, "x"), PASSING):
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
    for source in sources(function, _named(op, "indices"), SHIFTING):
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
