"""Checks a saved package: reads it, runs it in numpy, compares with torch.

report = check("out/joint-k8.mlpackage")                                 # the vectors beside it
report = check("out/joint-k8.mlpackage", open_source("random-parakeet")) # and torch itself
report.ok, report.findings, print(report.text())
"""

import sys
from os import PathLike

from vrt.coreml import golden_vectors
from vrt.coreml.agreement import about_golden, about_source
from vrt.coreml.apple import on_this_mac
from vrt.coreml.beams import BeamResult, same_beam
from vrt.coreml.contract import WITH_BLANK, Contract
from vrt.coreml.digest import package_digest
from vrt.coreml.divergence import Divergence, first_divergence
from vrt.coreml.errors import CoreMLError
from vrt.coreml.fp16 import beyond_float16, emulate
from vrt.coreml.golden_vectors import FP32_TOLERANCE, Case, GoldenVectors
from vrt.coreml.lints import lint
from vrt.coreml.metadata import about_metadata
from vrt.coreml.package import Package, open_package
from vrt.coreml.probes import probes
from vrt.coreml.reference import graph_of, reference
from vrt.coreml.replay import Limits, Replay, replay
from vrt.coreml.report import CheckReport, FunctionReport
from vrt.coreml.sources import Source
from vrt.coreml.vectors import cases
from vrt.rnnt.model import Transducer

ROUNDS = 3  # random inputs, beside those that are made to be hard


def check(path: str | PathLike[str], source: Source | None = None, seed: int = 0) -> CheckReport:
    """Of every function: the golden vectors beside the package, where there are any; with `source`
    the model that it was made of, on random and hard inputs and through a whole beam search.

    Raises:
        CoreMLError: a package that cannot be read or run: missing, cut short, foreign, too new,
            or with operations that the interpreter does not know.
    """
    package = open_package(path)
    findings = [*about_metadata(package), *lint(package)]
    contract = _contract(package)
    digest = package_digest(package)
    golden = _golden(package)
    findings += about_golden(package, golden, contract, digest)
    if source is not None:
        findings += about_source(contract, source)
    # Where the metadata are wrong, no model tells what the inputs mean.
    known = source if not any(f.rule == "metadata" for f in findings) else None
    functions = [
        _function(package, name, golden, contract, known, seed) for name in package.functions
    ]
    return CheckReport(
        package=package.path.name,
        kind="no package of vrt" if contract is None else contract.kind,
        digest=digest,
        exact=contract is not None and contract.exact,
        findings=tuple(findings),
        functions=tuple(functions),
    )


def _function(
    package: Package,
    name: str,
    golden: GoldenVectors | None,
    contract: Contract | None,
    source: Source | None,
    seed: int,
) -> FunctionReport:
    recorded, fresh, replays, left_out = [], [], [], []
    if golden is not None:
        recorded = [case for case in golden.cases if case.function == name]
        limits = Limits.recorded(contract, golden)
        replays.append(replay(package, "golden vectors", recorded, limits))
    if source is not None and contract is not None:
        fresh = _fresh(contract, name, source, seed)
        if contract.precision == "fp16-body":
            left_out = [why for case in fresh if (why := beyond_float16(case))]
            fresh = [case for case in fresh if not beyond_float16(case)]
        replays.append(replay(package, "torch", fresh, Limits.fresh(contract, golden)))
    known = recorded or fresh
    if known and sys.platform == "darwin":
        replays.append(on_this_mac(package, name, known, Limits(exact=False)))
    return FunctionReport(
        name=name,
        operations=len(package.function(name).operations),
        replays=tuple(replays),
        divergence=_divergence(package, name, replays, contract, source),
        # A package whose answers are wrong would only be wrong again, and later.
        beam=_beam(package, name, contract, source, seed) if all(r.ok for r in replays) else None,
        left_out=tuple(left_out),
        fp16=emulate(package, name, known[0].steps[0].inputs) if known else None,
    )


def _fresh(contract: Contract, name: str, source: Source, seed: int) -> list[Case]:
    """Cases that torch answers now. Of a graph with states, a stream."""
    graph = graph_of(contract, name, source.model)
    if graph.states:
        return list(cases(graph, contract, name, source.model))
    answer = reference(contract, name, source.model)
    return [Case(label, name, (answer(i),)) for label, i in probes(graph, seed, ROUNDS)]


def _divergence(
    package: Package,
    name: str,
    replays: list[Replay],
    contract: Contract | None,
    source: Source | None,
) -> Divergence | None:
    failures = [f for r in replays for f in r.failures if r.against in ("golden vectors", "torch")]
    if not failures:
        return None
    first = failures[0]
    exact = contract is not None and contract.exact
    limit = FP32_TOLERANCE if exact else first.diff.limit
    graph = None
    if source is not None and contract is not None:
        graph = graph_of(contract, name, source.model)
    return first_divergence(package, name, first.case.steps[: first.step + 1], limit, graph)


def _beam(
    package: Package, name: str, contract: Contract | None, source: Source | None, seed: int
) -> BeamResult | None:
    if source is None or contract is None or contract.kind not in WITH_BLANK:
        return None
    assert isinstance(source.model, Transducer)  # graph_of has refused others
    return same_beam(package, contract, name, source.model, seed)


def _contract(package: Package) -> Contract | None:
    """None too where it cannot be read: then the lint says so."""
    try:
        return package.contract
    except CoreMLError:
        return None


def _golden(package: Package) -> GoldenVectors | None:
    path = golden_vectors.beside(package.path)
    return golden_vectors.read(path) if path.is_file() else None
