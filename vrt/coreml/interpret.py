"""Runs a function of a saved package in numpy, by the documented semantics of MIL's operations.

Floats are float32 while they are computed with; after each operation a value is settled: held to
the shape and type that the program declares, and rounded where that is float16. It says what the
program and the weights on disk compute. It says nothing of Apple's kernels, placement or speed.
"""

import inspect
from collections.abc import Callable, Mapping

import numpy as np
from numpy import ndarray

from vrt.coreml.errors import CoreMLError
from vrt.coreml.ops import OPS
from vrt.coreml.package import Package
from vrt.coreml.program import Argument, Blob, Name, Operation
from vrt.coreml.types import FLOATS, Array, TensorType

Value = ndarray | str
Arguments = Mapping[str, Value | tuple[Value, ...] | None]  # None: a state, which is no value
Given = Value | tuple[Value, ...] | None  # an argument: None is a state, which is no value
State = dict[str, ndarray]
Observer = Callable[[Operation, Mapping[str, Given], tuple[ndarray, ...]], None]
Rounding = Callable[[ndarray, TensorType], ndarray]

# A result of these has a float type of its own; all others have that of their first float input.
OWN_TYPE = {"cast", "const", "read_state", "one_hot", "range_1d", "fill"}
STATE_OPS = {"read_state", "write_state"}


def as_declared(value: ndarray, type: TensorType) -> ndarray:
    """float32 numbers that `type` can hold; beyond its range they are infinite."""
    if type.dtype != "float16":
        return value.astype(np.float32, copy=False)
    with np.errstate(over="ignore"):
        return value.astype(np.float16).astype(np.float32)


class Interpreter:
    """`predict` and `make_state` are called as those of coremltools' MLModel.

    `rounding` makes a float result what a runtime would keep of it.

    Raises:
        CoreMLError: an operation, parameter, mode or type that is not known, by its name; values
            that do not fit what the program declares.
    """

    def __init__(self, package: Package, function: str = "main", rounding: Rounding = as_declared):
        self.function = package.function(function)
        self.rounding = rounding
        self.types = dict(self.function.inputs)
        self._constant_names = {op.name for op in self.function.operations if _is_constant(op)}
        for op in self.function.operations:
            self._refuse(op)
            self.types |= dict(op.outputs)
        self._constants: dict[str, Value] | None = None

    @property
    def inputs(self) -> dict[str, TensorType]:
        return {name: type for name, type in self.function.inputs.items() if not type.state}

    @property
    def states(self) -> dict[str, TensorType]:
        return {name: type for name, type in self.function.inputs.items() if type.state}

    def make_state(self) -> State:
        """Zeros."""
        return {name: np.zeros(type.shape, np.float32) for name, type in self.states.items()}

    def predict(
        self,
        inputs: Mapping[str, ndarray],
        state: State | None = None,
        observer: Observer | None = None,
    ) -> dict[str, ndarray]:
        """Outputs by name, of the declared types. `state` is written to.

        `observer` is called with every operation but constants, its arguments and its results.
        """
        if self.states and state is None:
            raise CoreMLError(f"{self.function.name!r} has a state; make one with make_state()")
        values = self.constants() | {n: self._given(n, t, inputs) for n, t in self.inputs.items()}
        for name in inputs:
            if name not in self.inputs:
                known = ", ".join(self.inputs)
                raise CoreMLError(f"there is no input {name!r}; there are {known}")
        with np.errstate(all="ignore"):
            for op in self.function.operations:
                if op.name in self._constant_names:
                    continue
                arguments = _arguments(op, values)
                results = self._run(op, arguments, state or {})
                values |= {n: r for (n, _), r in zip(op.outputs, results, strict=True)}
                if observer is not None:
                    observer(op, arguments, results)
        outputs = self.function.outputs.items()
        return {name: values[name].astype(type.numpy) for name, type in outputs}

    def constants(self) -> dict[str, Value]:
        """Read, and decompressed where they are stored small, once."""
        if self._constants is None:
            self._constants = {}
            for op in self.function.operations:
                if _is_constant(op):
                    arguments = _arguments(op, self._constants)
                    (self._constants[op.name],) = self._run(op, arguments, {})
        return self._constants

    def _refuse(self, op: Operation) -> None:
        if op.type in STATE_OPS | {"const"}:
            return
        if op.type not in OPS:
            raise CoreMLError(f"operation {op.name!r} is a {op.type}, unknown to the interpreter")
        try:
            inspect.signature(OPS[op.type]).bind(**op.inputs)
        except TypeError as error:
            raise CoreMLError(
                f"operation {op.name!r} ({op.type}) is of a version unknown to the interpreter:"
                f" {error}"
            ) from None
        # Constants may be wider than the rest: log's epsilon is, in a float16 program.
        computed = [self.types[n].dtype for n in op.reads() if n not in self._constant_names]
        floats = [dtype for dtype in computed if dtype in FLOATS]
        for name, type in op.outputs:
            own = op.type in OWN_TYPE or op.type.startswith("constexpr_")
            if type.dtype in FLOATS and not own and floats and type.dtype not in floats:
                raise CoreMLError(
                    f"operation {op.name!r} ({op.type}) declares {name!r} {type.dtype}, of"
                    f" {floats[0]}; without a cast that is no program of MIL"
                )

    def _given(self, name: str, type: TensorType, inputs: Mapping[str, ndarray]) -> ndarray:
        if name not in inputs:
            raise CoreMLError(f"input {name!r}, {type}, is missing")
        array = np.asarray(inputs[name])
        if not type.fits(array.shape) or array.dtype != type.numpy:
            raise CoreMLError(
                f"input {name!r} is {array.dtype.name}{list(array.shape)}, the package takes {type}"
            )
        return self.rounding(array, type) if type.dtype in FLOATS else array

    def _run(self, op: Operation, found: Mapping[str, Given], state: State) -> tuple:
        if op.type == "write_state":
            name = op.inputs["input"].text
            state[name] = self._settled(op, name, self.types[name], found["data"])
            return ()
        if op.type == "read_state":
            results = state[op.inputs["input"].text]
        elif op.type == "const":
            results = found["val"]
        else:
            results = _called(op, found)
        results = results if isinstance(results, tuple) else (results,)
        if len(results) != len(op.outputs):
            raise CoreMLError(
                f"operation {op.name!r} ({op.type}) declares {len(op.outputs)} results; it has"
                f" {len(results)}"
            )
        pairs = zip(op.outputs, results, strict=True)
        return tuple(self._settled(op, name, type, result) for (name, type), result in pairs)

    def _settled(self, op: Operation, name: str, type: TensorType, result: Array | str) -> Value:
        if type.dtype == "string":
            return result
        result = np.asarray(result)
        if not type.fits(result.shape) or _kind(type.numpy) != _kind(result.dtype):
            raise CoreMLError(
                f"operation {op.name!r} ({op.type}) declares {name!r} {type}; it is"
                f" {result.dtype.name}{list(result.shape)}"
            )
        if type.dtype in FLOATS:
            return self.rounding(result, type)
        settled = result.astype(type.numpy, copy=False)
        if not np.array_equal(settled, result):
            raise CoreMLError(f"operation {op.name!r} ({op.type}) overflows {type.dtype}")
        return settled


def _is_constant(op: Operation) -> bool:
    return op.type == "const" or op.type.startswith("constexpr_")


def _arguments(op: Operation, values: Mapping[str, Value]) -> dict[str, Given]:
    return {key: _value(argument, values) for key, argument in op.inputs.items()}


def _value(argument: Argument, values: Mapping[str, Value]) -> Given:
    if isinstance(argument, tuple):
        return tuple(_value(one, values) for one in argument)
    if isinstance(argument, Name):
        return values.get(argument.text)
    array = argument.read() if isinstance(argument, Blob) else argument
    half = isinstance(array, ndarray) and array.dtype == np.float16
    return array.astype(np.float32) if half else array


def _called(op: Operation, arguments: Mapping[str, Given]) -> ndarray | tuple[ndarray, ...]:
    try:
        return OPS[op.type](**arguments)
    except CoreMLError as error:
        raise CoreMLError(f"operation {op.name!r} ({op.type}): {error}") from None
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise CoreMLError(
            f"operation {op.name!r} ({op.type}) cannot be computed: {error}"
        ) from error


def _kind(dtype: np.dtype) -> str:
    return "i" if dtype.kind in "iu" else dtype.kind
