"""Runs a notebook by papermill and tells how it went: which cell failed, which checks did.

outcome = run_notebook(find_notebook("03"), {"fast": True}, Path("03.ipynb"))
outcome.ok, outcome.checks, outcome.failure
"""

import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from vrt.lab.checks import Check, checks_of
from vrt.lab.normal import INJECTED, normalised
from vrt.lab.notebooks import NotebookError
from vrt.lab.parameters import checked, parameters_of
from vrt.lab.values import values_of

# What a kernel of the runner finds in its environment. One thread and one order of sets, so that
# sums and lists come out the same; the last one tells vrt.lab to draw static pictures.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "VRT_LAB_BATCH": "1"}
_LOCK = threading.Lock()
_BEFORE: list[
    dict[str, str | None]
] = []  # one for each run under way; the first one is the true one


@dataclass(frozen=True)
class Failure:
    """`kind` is "cell" or "kernel"; `cell` counts code cells from 1, as In [1]."""

    kind: str
    cell: int
    source: str  # first line of the cell
    message: str

    def __str__(self) -> str:
        return f"cell {self.cell} ({self.source}): {self.message}"


@dataclass(frozen=True)
class Outcome:
    """One run. `text` is the normalised notebook, as far as it came; `warnings` its stderr."""

    name: str
    parameters: dict[str, Any]
    checks: tuple[Check, ...]
    values: dict[str, Any]  # what the notebook recorded
    failure: Failure | None
    text: str
    warnings: tuple[str, ...]
    seconds: float

    @property
    def failed_checks(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.ok)

    @property
    def ok(self) -> bool:
        return self.failure is None and not self.failed_checks


def read_notebook(path: Path) -> nbformat.NotebookNode:
    """A notebook of format 4; `NotebookError` for anything else."""
    try:
        return nbformat.read(path, as_version=4)
    except OSError as error:
        raise NotebookError(f"{path} cannot be read: {error.strerror}") from error
    except Exception as error:  # nbformat raises what its JSON reader and its schema raise
        raise NotebookError(f"{path} is no notebook: {error}") from error


def run_notebook(
    path: Path, parameters: Mapping[str, Any] | None = None, progress: bool = False
) -> Outcome:
    """Run all cells with `parameters`, in a kernel of its own; writes nothing.

    What the notebook does wrong is told by the `Outcome`. Raises `NotebookError` before a kernel
    starts for a file that is no notebook and for parameters that it does not take. `progress`
    draws a bar on stderr where that is a terminal.
    """
    given = checked(parameters_of(read_notebook(path)), parameters or {})
    return run_content(path.stem, path.read_bytes(), given, progress)


def run_content(
    name: str, content: bytes, given: Mapping[str, Any], progress: bool = False
) -> Outcome:
    """The same for a notebook that came over a network; its parameters are checked already."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vrt-run-") as folder:
        # Copied, since papermill fills in braces in the names of files.
        source, target = Path(folder, "in.ipynb"), Path(folder, "out.ipynb")
        source.write_bytes(content)
        with _environment():
            died = _execute(source, target, given, name if progress else None)
        ran = read_notebook(target)
    failure = _failure(ran, died)
    text, warnings = normalised(ran)
    return Outcome(
        name,
        dict(given),
        tuple(checks_of(ran)),
        values_of(ran),
        failure,
        text,
        tuple(warnings),
        time.monotonic() - began,
    )


def _execute(source: Path, target: Path, given: Mapping[str, Any], bar: str | None) -> str | None:
    """Leaves the run notebook in `target`; why the kernel is gone, or None if it lived."""
    from nbclient.exceptions import DeadKernelError
    from papermill import execute_notebook
    from papermill.exceptions import PapermillExecutionError

    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # what it logs is told by us
    shown = {"desc": bar, "file": sys.stderr, "leave": False, "disable": None} if bar else False
    try:
        execute_notebook(
            source,
            target,
            dict(given),
            kernel_name="python3",  # that of this interpreter, whatever the notebook was saved with
            language="python",
            extra_arguments=["--log-level=CRITICAL"],
            progress_bar=shown,
        )
    except PapermillExecutionError:
        return None  # an output of its cell, read back below
    except (DeadKernelError, RuntimeError) as error:
        if not target.is_file():
            raise NotebookError(f"no kernel started: {error}") from error
        return str(error) or type(error).__name__
    return None


@contextmanager
def _environment() -> Iterator[None]:
    """`ENVIRONMENT` while any thread of this process runs a notebook, and what was there after."""
    with _LOCK:
        _BEFORE.append({name: os.environ.get(name) for name in ENVIRONMENT})
        os.environ.update(ENVIRONMENT)
    try:
        yield
    finally:
        with _LOCK:
            before = _BEFORE[0]
            _BEFORE.pop()
            if not _BEFORE:
                for name, value in before.items():
                    os.environ.pop(name)
                    os.environ.update({} if value is None else {name: value})


def _failure(ran: nbformat.NotebookNode, died: str | None) -> Failure | None:
    """The first code cell that raised, or the last that was begun before the kernel went."""
    cells = [c for c in ran["cells"] if c["cell_type"] == "code" and c["source"].strip()]
    begun = [n for n, cell in enumerate(cells) if cell["metadata"]["papermill"].get("start_time")]
    for number, cell in enumerate(cells, start=1):
        for output in cell["outputs"]:
            if output["output_type"] == "error":
                message = f"{output['ename']}: {output['evalue']}".splitlines()[0]
                return _at("cell", number, cell, message)
    if died is not None:
        last = begun[-1] if begun else 0
        return _at("kernel", last + 1, cells[last], f"the kernel died: {died}")
    return None


def _at(kind: str, number: int, cell: Any, message: str) -> Failure:
    first = next(line for line in cell["source"].splitlines() if line.strip())
    named = "injected parameters" if INJECTED in cell["metadata"].get("tags", ()) else first
    return Failure(kind, number, named.strip()[:60], message)


def write_text(path: Path, text: str) -> None:
    """All of it or nothing: a reader never sees half a notebook."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(name, 0o644)  # mkstemp's files are for the owner only
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
