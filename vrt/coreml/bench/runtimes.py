"""Three ways to run a package's function: Core ML's own, torch's graph of it, vrt's interpreter."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy import ndarray

from vrt.coreml import apple
from vrt.coreml.agreement import about_source
from vrt.coreml.bench.devices import Backend, backend_of
from vrt.coreml.bench.jobs import Job
from vrt.coreml.bench.placement import placement
from vrt.coreml.errors import CoreMLError
from vrt.coreml.graphs import Graph
from vrt.coreml.package import Package, open_package
from vrt.coreml.reference import graph_of
from vrt.coreml.runners import interpreted
from vrt.coreml.scorer import Runner
from vrt.coreml.sources import open_source

Begin = Callable[[], Runner]  # a fresh state, where there is one


@dataclass(frozen=True)
class Runtime:
    """`load` may be called again and again; each time all is made anew."""

    backend: Backend
    load: Callable[[], Begin]
    compile: Callable[[], None] | None = None
    placement: Callable[[], dict[str, Any]] | None = None


def open_runtime(job: Job, folder: Path) -> Runtime:
    """What does not belong to a load is done here: reading the package and the source's weights.

    Raises:
        CoreMLError: a source of other weights than the package's, or no Core ML here.
    """
    package = open_package(job.path)
    backend = backend_of(job.arm.device)
    if backend == "torch":
        return _torch(package, job)
    if backend == "coreml":
        return _coreml(package, job, folder)
    return Runtime(backend, lambda: lambda: interpreted(package, job.arm.function))


def _coreml(package: Package, job: Job, folder: Path) -> Runtime:
    compiled = folder / f"{package.path.stem}.mlmodelc"
    unit, function = job.arm.device, job.arm.function
    return Runtime(
        "coreml",
        load=lambda: apple.load_compiled(compiled, package, function, unit),
        compile=lambda: apple.compile_package(package, compiled),
        placement=lambda: placement(compiled, function, unit),
    )


def _torch(package: Package, job: Job) -> Runtime:
    """FP32, whatever the package's precision."""
    torch.set_num_threads(job.threads)
    torch.backends.cudnn.allow_tf32 = False  # convolutions of CUDA round to 10 bits by default
    source = open_source(job.source)
    contract = package.contract
    for finding in about_source(contract, source):
        raise CoreMLError(f"{finding.where}: {finding.text}; name another with --source")
    graph = graph_of(contract, job.arm.function, source.model)
    device = torch.device(job.arm.device)

    def load() -> Begin:
        module = copy.deepcopy(graph.module).eval().to(device)
        runner = _torch_runner(graph, module, device)
        return lambda: runner

    return Runtime("torch", load)


def _torch_runner(graph: Graph, module: torch.nn.Module, device: torch.device) -> Runner:
    """Waits for the device: the answers are read back."""
    names = [port.name for port in graph.outputs]

    @torch.no_grad()
    def call(feeds: dict[str, ndarray]) -> dict[str, ndarray]:
        given = [torch.from_numpy(feeds[port.name]).to(device) for port in graph.inputs]
        answers = module(*given)
        return {n: answer.cpu().numpy() for n, answer in zip(names, answers, strict=True)}

    return call
