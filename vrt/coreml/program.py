"""A package's program as plain values: functions of operations in order, read from the protobuf.

Nothing is computed here. What these graphs never hold (control flow, lists, dictionaries) is an
error by name.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vrt.coreml.blobs import decode, read_blob
from vrt.coreml.errors import CoreMLError
from vrt.coreml.types import TensorType

OPSETS = {"CoreML7": "iOS17", "CoreML8": "iOS18"}  # an older gather takes negative indices
MODEL_PATH = "@model_path/"


@dataclass(frozen=True)
class Blob:
    """A constant in the weight file."""

    path: Path
    offset: int
    type: TensorType

    def read(self) -> np.ndarray:
        return read_blob(self.path, self.offset, self.type)


Constant = np.ndarray | str | Blob


@dataclass(frozen=True)
class Name:
    """A reference to a value computed before, or to an input."""

    text: str


Argument = Constant | Name | tuple[Constant | Name, ...]


@dataclass(frozen=True)
class Operation:
    """`name` is the first output's; `inputs` has a tuple where a parameter takes several values."""

    type: str
    name: str
    inputs: dict[str, Argument]
    outputs: tuple[tuple[str, TensorType], ...]

    def reads(self) -> Iterator[str]:
        for argument in self.inputs.values():
            for one in argument if isinstance(argument, tuple) else (argument,):
                if isinstance(one, Name):
                    yield one.text


@dataclass(frozen=True)
class Function:
    """One function of a program."""

    name: str
    opset: str
    inputs: dict[str, TensorType]
    outputs: dict[str, TensorType]
    operations: tuple[Operation, ...]

    def producer(self, value: str) -> Operation | None:
        """The operation that computes a value; None for an input."""
        return next((op for op in self.operations if value in dict(op.outputs)), None)


class Reader:
    """Reads the functions of one program; `root` is the folder that `@model_path` stands for."""

    def __init__(self, proto: Any, root: Path):
        self.dtypes = {number: name.lower() for name, number in proto.DataType.items()}
        self.root = root

    def function(self, name: str, message: Any) -> Function:
        """Raises `CoreMLError` for what is unknown, and for what hangs together badly."""
        try:
            return self._function(name, message)
        except CoreMLError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise CoreMLError(
                f"function {name!r} is damaged ({type(error).__name__}: {error}); copy the package"
                " again, or export it again"
            ) from error

    def _function(self, name: str, message: Any) -> Function:
        opset = message.opset
        if opset not in OPSETS:
            known = ", ".join(f"{o} ({target})" for o, target in OPSETS.items())
            raise CoreMLError(
                f"function {name!r} uses the operations of {opset or 'no version'}; known are"
                f" {known}: export for one of these targets"
            )
        block = message.block_specializations[opset]
        inputs = {i.name: self.type(i.type, i.name) for i in message.inputs}
        operations = tuple(map(self.operation, block.operations))
        known = dict(inputs)
        for op in operations:
            for read in op.reads():
                if read not in known:
                    raise CoreMLError(
                        f"operation {op.name!r} ({op.type}) reads {read!r}, which nothing computes"
                        " before it; the package is damaged"
                    )
            known |= dict(op.outputs)
        for output in block.outputs:
            if output not in known:
                raise CoreMLError(f"function {name!r} returns {output!r}, which nothing computes")
        return Function(name, opset, inputs, {o: known[o] for o in block.outputs}, operations)

    def operation(self, message: Any) -> Operation:
        outputs = tuple((o.name, self.type(o.type, o.name)) for o in message.outputs)
        label = self.constant(message.attributes["name"]) if "name" in message.attributes else ""
        name = outputs[0][0] if outputs else str(label)
        if message.blocks:
            raise CoreMLError(
                f"operation {name!r} ({message.type}) has blocks of its own: the interpreter knows"
                " no control flow"
            )
        # Before iOS18 a constexpr keeps its constants as attributes.
        inputs = {k: self.constant(v) for k, v in message.attributes.items() if k != "name"}
        inputs |= {k: self.argument(k, v) for k, v in message.inputs.items()}
        if message.type == "const" and (len(outputs) != 1 or inputs.keys() != {"val"}):
            raise CoreMLError(f"constant {name!r} has no value; the package is damaged")
        return Operation(message.type, name, inputs, outputs)

    def argument(self, parameter: str, message: Any) -> Argument:
        bound = tuple(
            Name(b.name) if b.WhichOneof("binding") == "name" else self.constant(b.value)
            for b in message.arguments
        )
        return bound if parameter == "values" or len(bound) != 1 else bound[0]

    def type(self, message: Any, name: str) -> TensorType:
        match message.WhichOneof("type"):
            case "tensorType":
                tensor = message.tensorType
                lengths = [_length(d) for d in tensor.dimensions]
                return TensorType(self.dtypes[tensor.dataType], tuple(lengths))
            case "stateType":
                inner = self.type(message.stateType.wrappedType, name)
                return TensorType(inner.dtype, inner.shape, state=True)
            case other:
                raise CoreMLError(f"{name!r} is a {other}: the interpreter knows tensors, states")

    def constant(self, message: Any) -> Constant:
        type = self.type(message.type, "a constant")
        if message.WhichOneof("value") == "blobFileValue":
            file = message.blobFileValue
            return Blob(self._file(file.fileName), file.offset, type)
        held = message.immediateValue.WhichOneof("value")
        if held != "tensor":
            raise CoreMLError(f"a constant is a {held}: the interpreter knows tensors")
        tensor = message.immediateValue.tensor
        field = tensor.WhichOneof("value")
        if type.dtype == "string":
            return tensor.strings.values[0]
        if field == "bytes":
            return decode(tensor.bytes.values, type)
        values = getattr(tensor, field).values if field else []
        return np.array(values, dtype=type.numpy).reshape(type.shape)

    def _file(self, name: str) -> Path:
        path = (self.root / name.removeprefix(MODEL_PATH)).resolve()
        if not name.startswith(MODEL_PATH) or self.root.resolve() not in path.parents:
            raise CoreMLError(f"a constant is in the file {name!r}, which is not in the package")
        return path


def _length(dimension: Any) -> int | None:
    fixed = dimension.WhichOneof("dimension") == "constant"
    return dimension.constant.size if fixed else None
