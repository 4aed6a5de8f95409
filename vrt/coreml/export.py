"""Packages from models: each graph converted, described, saved, run from disk and compared.

exported = export(open_source("random-parakeet"), "joint", folder, Arm(beam=8))
exported.package, exported.golden, exported.drift
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from vrt import __version__
from vrt.coreml import golden_vectors
from vrt.coreml.arms import WITH_BEAM, WITH_CACHE, WITH_LSTM, WITH_TAIL, Arm
from vrt.coreml.contract import METADATA_KEY, WITH_BLANK, Contract, FunctionContract, to_json
from vrt.coreml.convert import Program, convert
from vrt.coreml.digest import package_digest
from vrt.coreml.errors import CoreMLError
from vrt.coreml.golden_vectors import GoldenVectors
from vrt.coreml.graphs import Graph
from vrt.coreml.graphs_rnnt import RNNT_KINDS, rnnt_graph
from vrt.coreml.graphs_voxtral import VOXTRAL_KINDS, voxtral_graph
from vrt.coreml.package import open_package
from vrt.coreml.sources import Source
from vrt.coreml.toolbox import quiet, toolbox
from vrt.coreml.vectors import ORACLE, cases, tolerances
from vrt.rnnt.model import Transducer


@dataclass(frozen=True)
class Exported:
    """What was written, and the largest distance from torch of each output."""

    package: Path
    golden: Path
    contract: Contract
    drift: dict[str, float]


def kinds_of(source: Source) -> tuple[str, ...]:
    """The graphs that this model has."""
    return RNNT_KINDS if isinstance(source.model, Transducer) else VOXTRAL_KINDS


def export_all(
    source: Source, kinds: Sequence[str], folder: str | PathLike[str], arm: Arm
) -> Iterator[Exported]:
    """`export` of each graph; a palette goes to those on the encoder's side only.

    What is refused is refused before the first of them is converted.

    Raises:
        CoreMLError: as `export`, and for a setting that none of the graphs has.
    """
    for kind in kinds:
        _refuse_kind(source, kind)
    arm.refuse_idle(kinds)
    for kind in kinds:
        _refuse_files(_files(folder, kind, arm.of(kind)))
    for kind in kinds:
        yield export(source, kind, folder, arm.of(kind))


def export(source: Source, kind: str, folder: str | PathLike[str], arm: Arm) -> Exported:
    """Write `NAME.mlpackage` and `NAME.golden.json` into `folder`, under the names of the arm.

    Nothing is left of an export that fails.

    Raises:
        CoreMLError: a graph that the model does not have, settings that no package can have, files
            that are there already, or a package that does not compute what torch does.
    """
    _refuse_kind(source, kind)
    package, golden = files = _files(folder, kind, arm)
    _refuse_files(files)
    graphs = _graphs(source, kind, arm)
    package.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=package.parent, prefix=".vrt-export-") as scratch:
        beside = Path(scratch) / package.name
        contract = _contract(source, graphs, arm)
        _save(graphs, arm, contract, beside)
        vectors = _vectors(graphs, source, contract, beside)
        golden_vectors.write(Path(scratch) / golden.name, vectors)
        shutil.move(beside, package)
        shutil.move(Path(scratch) / golden.name, golden)
    drift = {name: limit.measured for name, limit in vectors.tolerances.items()}
    return Exported(package, golden, contract, drift)


def _refuse_kind(source: Source, kind: str) -> None:
    if kind not in kinds_of(source):
        known = ", ".join(kinds_of(source))
        raise CoreMLError(f"{source.name} has no graph {kind!r}; it has {known}")


def _files(folder: str | PathLike[str], kind: str, arm: Arm) -> tuple[Path, Path]:
    package = Path(folder) / f"{arm.stem(kind)}.mlpackage"
    return package, golden_vectors.beside(package)


def _refuse_files(files: tuple[Path, Path]) -> None:
    for path in files:
        if path.exists():
            raise CoreMLError(f"{path} is there already; remove it, or name another folder")


def _graphs(source: Source, kind: str, arm: Arm) -> dict[str, Graph]:
    """By function: one, `main`, or one a beam."""
    model = source.model
    if not isinstance(model, Transducer):
        return {"main": voxtral_graph(kind, model, delay=arm.delay_tokens, cache=_cache(kind, arm))}
    beams = {f"beam_{beam}": beam for beam in arm.beams} if kind in WITH_BEAM else {}
    return {
        name: rnnt_graph(kind, model, beam, lstm=arm.lstm, tail=arm.tail, frames=arm.frames)
        for name, beam in (beams or {"main": arm.beam}).items()
    }


def _cache(kind: str, arm: Arm) -> str:
    return arm.cache if kind in WITH_CACHE else "explicit"


def _contract(source: Source, graphs: dict[str, Graph], arm: Arm) -> Contract:
    graph = next(iter(graphs.values()))
    sizes = dict(graph.sizes)
    if len(graphs) > 1:
        del sizes["K"]
    functions = [
        FunctionContract(name, g.inputs, g.outputs, g.states) for name, g in graphs.items()
    ]
    return Contract(
        kind=graph.kind,
        source=source.name,
        source_digest=source.digest,
        vrt=__version__,
        target=arm.target,
        precision=arm.precision,
        sizes=sizes,
        functions=tuple(functions),
        blank=source.model.config.blank if graph.kind in WITH_BLANK else None,
        lstm=arm.lstm if graph.kind in WITH_LSTM else None,
        tail=arm.tail if graph.kind in WITH_TAIL else None,
        cache=_cache(graph.kind, arm) if graph.kind in WITH_CACHE else None,
        palettize_bits=arm.palettize,
        facts=dict(graph.facts),
    )


def _save(graphs: dict[str, Graph], arm: Arm, contract: Contract, path: Path) -> None:
    programs = {
        name: convert(graph, arm.precision, arm.target, arm.palettize)
        for name, graph in graphs.items()
    }
    if len(programs) > 1:
        program = _joined(programs, path.parent)
    else:
        (program,) = programs.values()
    program.user_defined_metadata[METADATA_KEY] = to_json(contract)
    program.short_description = f"{contract.kind} of {contract.source}, by vrt {contract.vrt}"
    with quiet():
        program.save(str(path))


def _joined(programs: dict[str, Program], scratch: Path) -> Program:
    """One program with a function each; equal weights are stored once."""
    tools = toolbox()
    several = tools.utils.MultiFunctionDescriptor()
    for name, program in programs.items():
        part = str(scratch / f"{name}.mlpackage")
        with quiet():
            program.save(part)
        several.add_function(part, src_function_name="main", target_function_name=name)
    several.default_function_name = list(programs)[-1]
    whole = str(scratch / "functions.mlpackage")
    with quiet():
        tools.utils.save_multifunction(several, whole)
        return tools.models.MLModel(whole, skip_model_load=True)


def _vectors(
    graphs: dict[str, Graph], source: Source, contract: Contract, path: Path
) -> GoldenVectors:
    package = open_package(path)
    found = [c for name, g in graphs.items() for c in cases(g, contract, name, source.model)]
    limits = tolerances(package, tuple(found))
    return GoldenVectors(contract, package_digest(package), ORACLE, limits, tuple(found))
