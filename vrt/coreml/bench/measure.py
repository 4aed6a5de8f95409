"""What a child does with one function on one device, phase by phase, each reported as it ends.

compile (Core ML), cold load, warm load, first predict, answers, calls, placement, done. A cold load
is the first of this process, of a copy compiled just now; caches of the system are not emptied.
A call goes from arrays of the host to arrays of the host on every device.
"""

import gc
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from vrt.bench.timing import now, since
from vrt.coreml.bench.children import DONE, FAILED
from vrt.coreml.bench.memory import resident_bytes
from vrt.coreml.bench.runtimes import Runtime
from vrt.coreml.golden_vectors import Arrays

CHUNK = 50  # calls between two readings of memory; a report of each
Result = TypeVar("Result")


class Report:
    """Lines of JSON, each on the disk before the next phase begins."""

    def __init__(self, file: Path):
        self.file = file

    def phase(self, name: str, values: dict[str, Any]) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"phase": name} | values, allow_nan=False) + "\n")

    def timed(self, name: str, work: Callable[[], Result]) -> Result:
        start = now()
        result = work()
        cpu, wall = since(start)
        self.phase(name, {"wall_ms": 1000 * wall, "cpu_ms": 1000 * cpu})
        return result

    def failed(self, why: str) -> None:
        self.phase(FAILED, {"why": why})


def measure(
    runtime: Runtime, steps: Sequence[Arrays], calls: int, report: Report, answers: Path
) -> None:
    """`steps` follow one another on a fresh state, for their answers; the first is timed."""
    report.phase("started", {"backend": runtime.backend})
    if runtime.compile is not None:
        report.timed("compile", runtime.compile)
    begin = report.timed("cold load", runtime.load)
    del begin
    gc.collect()
    begin = report.timed("warm load", runtime.load)
    runner = begin()
    first = report.timed("first predict", lambda: runner(dict(steps[0])))
    found = [first, *(runner(dict(step)) for step in steps[1:])]
    save_steps(answers, found)
    report.phase("answers", {})
    # The state, if any, moves on: a call costs the same wherever the stream is.
    for done in range(0, calls, CHUNK):
        count = min(CHUNK, calls - done)
        report.phase("calls", _chunk(runner, steps[0], count, done))
    if runtime.placement is not None:
        report.phase("placement", runtime.placement())
    report.phase(DONE, {})


def _chunk(
    runner: Callable[[Arrays], Arrays], feeds: Arrays, count: int, done: int
) -> dict[str, Any]:
    wall, cpu = [], []
    for _ in range(count):
        given = dict(feeds)  # coremltools writes into the dict that it is given
        start = now()
        runner(given)
        spent = since(start)
        cpu.append(round(1000 * spent[0], 6))
        wall.append(round(1000 * spent[1], 6))
    return {"until": done + count, "wall_ms": wall, "cpu_ms": cpu, "rss_bytes": resident_bytes()}


def save_steps(file: Path, steps: Sequence[Arrays]) -> None:
    """Arrays by `step/name`."""
    named = {
        f"{i}/{name}": np.asarray(a) for i, step in enumerate(steps) for name, a in step.items()
    }
    np.savez(file, **named)


def load_steps(file: Path) -> list[Arrays]:
    """As they were saved. Raises `OSError`, `ValueError` or `BadZipFile` for other files."""
    steps: dict[int, Arrays] = {}
    with np.load(file, allow_pickle=False) as stored:
        for key in stored.files:
            index, _, name = key.partition("/")
            steps.setdefault(int(index), {})[name] = stored[key]
    return [steps[index] for index in sorted(steps)]
