"""The plan of a sweep: a job a process, arms turn about so that a busy minute weighs on each."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from vrt.coreml.bench.devices import backend_of
from vrt.coreml.bench.settings import SweepSettings
from vrt.coreml.errors import CoreMLError
from vrt.coreml.package import Package

# What a job's folder holds, before and after.
JOB, INPUTS, REPORT, ANSWERS = "job.json", "inputs.npz", "report.jsonl", "answers.npz"


@dataclass(frozen=True)
class Arm:
    """One row of the receipt: a function of a package on a device."""

    package: str  # name of its folder
    function: str
    device: str

    def __str__(self) -> str:
        function = "" if self.function == "main" else f" {self.function}"
        return f"{self.package}{function} on {self.device}"


@dataclass(frozen=True)
class Job:
    """One process. `path` is the package's; `source` is the model that torch runs, else None."""

    arm: Arm
    round: int
    path: str
    calls: int
    threads: int
    source: str | None

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, file: Path) -> "Job":
        values = json.loads(file.read_text(encoding="utf-8"))
        return cls(Arm(**values.pop("arm")), **values)


def plan(packages: Sequence[Package], settings: SweepSettings) -> list[Job]:
    """All arms once, in the order packages, functions, devices; then all again: A B A B.

    Raises:
        CoreMLError: no package, two of one name, or one that torch cannot run.
    """
    if not packages:
        raise CoreMLError("no package to measure: name one")
    names = Counter(package.path.name for package in packages)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise CoreMLError(f"two packages are named {twice[0]}, and so would be their rows")
    for package in packages:
        _refuse(package, settings)
    return [
        _job(package, Arm(package.path.name, function, device), turn, settings)
        for turn in range(settings.rounds)
        for package in packages
        for function in package.functions
        for device in settings.devices
    ]


def _job(package: Package, arm: Arm, turn: int, settings: SweepSettings) -> Job:
    source = None
    if backend_of(arm.device) == "torch":
        source = settings.source or package.contract.source
    path = str(package.path.absolute())
    return Job(arm, turn, path, settings.calls, settings.threads, source)


def _refuse(package: Package, settings: SweepSettings) -> None:
    """What torch runs is the graph that the metadata name, with the cache outside."""
    of_torch = [device for device in settings.devices if backend_of(device) == "torch"]
    if not of_torch:
        return
    name, on = package.path.name, ", ".join(of_torch)
    if package.contract is None:
        raise CoreMLError(
            f"{name} has no metadata of vrt, so torch cannot tell which graph it is; leave out {on}"
        )
    if package.contract.cache == "mlstate":
        raise CoreMLError(
            f"{name} keeps its cache as Core ML's MLState, which torch does not have; leave out"
            f" {on}, or measure the package with an explicit cache"
        )
