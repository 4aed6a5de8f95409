"""A saved package, as it lies on the disk: manifest, protobuf, program, metadata, weight files."""

import json
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any

from vrt.coreml.contract import METADATA_KEY, Contract, from_json
from vrt.coreml.errors import CoreMLError
from vrt.coreml.program import Function, Reader
from vrt.coreml.toolbox import toolbox

NEWEST = 9  # specification version of iOS18, the newest whose operations are known here


@dataclass(frozen=True)
class Package:
    """`spec` is the protobuf as it was parsed; `root` the folder that holds its weights."""

    path: Path
    root: Path
    spec: Any

    @property
    def metadata(self) -> dict[str, str]:
        return dict(self.spec.description.metadata.userDefined)

    @cached_property
    def contract(self) -> Contract | None:
        """What the exporter said of the package; None where it was not vrt's."""
        text = self.metadata.get(METADATA_KEY)
        return None if text is None else from_json(text)

    @cached_property
    def functions(self) -> dict[str, Function]:
        reader = Reader(_messages("MIL_pb2"), self.root)
        program = self.spec.mlProgram
        return {name: reader.function(name, f) for name, f in sorted(program.functions.items())}

    def function(self, name: str) -> Function:
        if name not in self.functions:
            known = ", ".join(self.functions)
            raise CoreMLError(f"{self.path} has no function {name!r}; it has {known}")
        return self.functions[name]

    @property
    def weight_files(self) -> list[Path]:
        """Every file beside the model, in order of names."""
        files = (self.root / "weights").rglob("*")
        return sorted(file for file in files if file.is_file())


def open_package(path: str | PathLike[str]) -> Package:
    """Raises `CoreMLError` for anything but an ML Program whose version is known."""
    path = Path(path)
    model = _model_file(path)
    spec = _parse(model, path)
    kind = spec.WhichOneof("Type")
    if kind != "mlProgram":
        raise CoreMLError(
            f"{path} is a {kind or 'model of no kind'}, no ML Program; convert it again with"
            ' coremltools and convert_to="mlprogram"'
        )
    if spec.specificationVersion > NEWEST:
        raise CoreMLError(
            f"{path} has specification version {spec.specificationVersion}, newer than {NEWEST}"
            " (iOS18), the newest known here; export it for iOS17 or iOS18, or install a newer vrt"
        )
    return Package(path, model.parent, spec)


def _model_file(path: Path) -> Path:
    if not path.exists():
        raise CoreMLError(f"{path} is not there; `vrt coreml export` makes packages")
    if path.suffix == ".mlmodelc" or (path / "coremldata.bin").is_file():
        raise CoreMLError(
            f"{path} is compiled for one device; check the .mlpackage that it was compiled from"
        )
    if path.is_file():
        if path.suffix != ".mlmodel":
            raise CoreMLError(f"{path} is a file; a package is a folder NAME.mlpackage")
        return path
    manifest = path / "Manifest.json"
    if not manifest.is_file():
        raise CoreMLError(f"{path} holds no Manifest.json: it is no .mlpackage, or a part of one")
    try:
        entries = json.loads(manifest.read_text(encoding="utf-8"))
        root = entries["itemInfoEntries"][entries["rootModelIdentifier"]]["path"]
        model = path / "Data" / root
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CoreMLError(
            f"{manifest} names no model ({type(error).__name__} {error}); copy the package again"
        ) from None
    if (path / "Data").resolve() not in model.resolve().parents or not model.is_file():
        raise CoreMLError(f"{manifest} names {root}, which is not in the package; copy it again")
    return model


def _messages(name: str) -> ModuleType:
    toolbox()
    return import_module(f"coremltools.proto.{name}")


def _parse(model: Path, path: Path) -> Any:
    spec = _messages("Model_pb2").Model()
    errors = import_module("google.protobuf.message")  # of coremltools, so not before it
    try:
        spec.ParseFromString(model.read_bytes())
    except errors.DecodeError:
        raise CoreMLError(
            f"{path}: {model.name} is no Core ML specification, or cut short; copy it again"
        ) from None
    if not spec.specificationVersion:
        raise CoreMLError(f"{path}: {model.name} is empty, or no Core ML specification")
    return spec
