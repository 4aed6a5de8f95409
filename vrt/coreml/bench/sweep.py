"""A whole sweep: every job in a process of its own, and the receipt of how each ended.

receipt = sweep([open_package("joint-k8.mlpackage")], SweepSettings(devices=("cpu",)))
print(latency_table(receipt))
"""

import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from vrt.coreml.bench.children import Ended, run_child
from vrt.coreml.bench.devices import REHEARSAL, backend_of, refuse_absent
from vrt.coreml.bench.host import describe_host
from vrt.coreml.bench.inputs import Asked
from vrt.coreml.bench.jobs import ANSWERS, INPUTS, JOB, REPORT, Arm, Job, plan
from vrt.coreml.bench.measure import load_steps, save_steps
from vrt.coreml.bench.rows import Round, Row, row_of
from vrt.coreml.bench.seed_fields import seed_fields
from vrt.coreml.bench.settings import SweepSettings
from vrt.coreml.digest import package_digest
from vrt.coreml.package import Package
from vrt.receipt import Receipt

Tell = Callable[[str], None]
Command = Callable[[Path], Sequence[str]]
NOTE = (
    "a call goes from arrays of the host to arrays of the host; the first load of a process is"
    " cold, but caches of the system are not emptied; torch's load copies weights that are in"
    " memory to the device"
)
REHEARSED = "times of vrt's interpreter are a rehearsal and say nothing of Core ML"

CHILD = "vrt.coreml.bench.child"  # not imported here: it is what another process runs


def child_command(folder: Path) -> list[str]:
    return [sys.executable, "-m", CHILD, str(folder)]


def sweep(
    packages: Sequence[Package],
    settings: SweepSettings,
    tell: Tell = lambda line: None,
    command: Command = child_command,
) -> Receipt:
    """The receipt is ended, not yet written. A child that fails is a row of it and no error.

    `tell` hears a line before and after each process; `command` is what measures the job that lies
    in a folder.

    Raises:
        NotHere: a device that this machine does not have.
        CoreMLError: packages that cannot be read, or that a device cannot run at all.
    """
    refuse_absent(settings.devices)
    jobs = plan(packages, settings)
    asked = {
        (package.path.name, function): Asked.of(package, function)
        for package in packages
        for function in package.functions
    }
    digests = {package.path.name: package_digest(package) for package in packages}
    for each in asked.values():
        _ = each.expected  # so that a damaged package is named before the first process
    receipt = Receipt.begin(_parameters(settings, packages))
    before, host = os.getloadavg(), describe_host()
    ends: dict[Arm, list[tuple[Ended, Round]]] = {}
    for number, job in enumerate(jobs, 1):
        tell(f"{number} of {len(jobs)}: {job.arm}")
        ended, found = _run(job, asked[job.arm.package, job.arm.function], settings, command)
        ends.setdefault(job.arm, []).append((ended, found))
        if ended.outcome != "ok":
            tell(f"  {ended.outcome}: {ended.why}")
    rows = _with_ratios([_row(arm, asked, found) for arm, found in ends.items()])
    rehearsed = any(backend_of(device) == REHEARSAL for device in settings.devices)
    numbers = {
        "model_revision": {
            p.path.name: getattr(p.contract, "source_digest", None) for p in packages
        },
        "package_digests": digests,
        **seed_fields(rows, host | {"thermal_state_after": describe_host()["thermal_state"]}),
        "rows": [asdict(row) for row in rows],
        "load_average_before": before,
        "load_average_after": os.getloadavg(),
        "note": f"{NOTE}; {REHEARSED}" if rehearsed else NOTE,
    }
    return receipt.end(numbers, digests)


def _run(job: Job, asked: Asked, settings: SweepSettings, command: Command) -> tuple[Ended, Round]:
    with tempfile.TemporaryDirectory(prefix="vrt-bench-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        job.write(folder / JOB)
        save_steps(folder / INPUTS, asked.steps)
        ended = run_child(command(folder), folder / REPORT, settings.timeout_s)
        said = any(phase["phase"] == "answers" for phase in ended.phases)
        agreement = None
        if said:
            try:
                agreement = asked.agreement(load_steps(folder / ANSWERS))
            except (OSError, ValueError, zipfile.BadZipFile) as error:
                why = f"its answers cannot be read: {error}"
                ended = replace(ended, outcome="garbled", why=why)
    return ended, Round.of(ended, agreement)


def _row(arm: Arm, asked: dict[Any, Asked], found: list[tuple[Ended, Round]]) -> Row:
    of_arm = asked[arm.package, arm.function]
    ends, rounds = zip(*found, strict=True)
    contract = of_arm.package.contract
    return row_of(arm, contract, _beam(of_arm), of_arm.bytes_copied, ends, rounds)


def _beam(asked: Asked) -> int | None:
    """K of the function: its own, in a package of several."""
    contract = asked.package.contract
    if contract is None:
        return None
    function = contract.function(asked.function)
    for port in function.inputs:
        letters = port.axes.split()
        if "K" in letters and contract.blank is not None:
            return port.shape[letters.index("K")]
    return None


def _with_ratios(rows: list[Row]) -> list[Row]:
    """Rows of one function took turns: their ratios hold where their times do not."""
    first: dict[tuple[str, str], float | None] = {}
    found = []
    for row in rows:
        base = first.setdefault((row.package, row.function), row.p50_ms)
        ratio = row.p50_ms / base if row.p50_ms and base else None
        found.append(replace(row, times_first=ratio))
    return found


def _parameters(settings: SweepSettings, packages: Sequence[Package]) -> dict[str, Any]:
    return asdict(settings) | {"packages": [package.path.name for package in packages]}
