"""A batch: many runs of one notebook, each known by its digest, each done once.

A run's digest is that of the notebook's cells, its parameters and the version of vrt. In the
batch's folder it leaves DIGEST.json, its receipt, and DIGEST.ipynb; a run that has its receipt is
not done again. One that raised, or whose kernel or machine died, leaves DIGEST.failed.ipynb and is
tried anew by the next batch; a check that fails is a result, and stays.
"""

import fcntl
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from vrt import __version__
from vrt.lab.notebooks import NotebookError
from vrt.lab.parameters import TAG
from vrt.lab.runner import Outcome, read_notebook, run_content, write_text
from vrt.receipt import Receipt, ReceiptError, digest

LETTERS = 16  # of a digest in names of files


@dataclass(frozen=True)
class Job:
    """All that a run needs, wherever it runs. `content` is the notebook without outputs."""

    notebook: str
    content: bytes
    parameters: dict[str, Any]
    digest: str

    @property
    def stem(self) -> str:
        return self.digest[:LETTERS]


@dataclass(frozen=True)
class Done:
    """A run that came to its end: the receipt is of the machine that ran it."""

    version: str
    outcome: Outcome
    receipt: Receipt


@dataclass(frozen=True)
class Result:
    """A job with its receipt, or with why it has none. `fresh`: this batch did it."""

    job: Job
    receipt: Receipt | None
    failure: str | None
    fresh: bool

    @property
    def failed_checks(self) -> list[str]:
        checks = self.receipt.numbers["checks"] if self.receipt else []
        return [check["claim"] for check in checks if not check["ok"]]

    @property
    def ok(self) -> bool:
        return self.failure is None and not self.failed_checks


Engine = Callable[[Sequence[Job]], Iterator[tuple[Job, Done | Exception]]]


def jobs_for(path: Path, runs: Sequence[Mapping[str, Any]]) -> list[Job]:
    """One job for each set of parameters, those that are there twice once."""
    content = _source(read_notebook(path))
    jobs = [_job(path.stem, content, dict(parameters)) for parameters in runs]
    return list({job.digest: job for job in jobs}.values())


def _source(notebook: nbformat.NotebookNode) -> bytes:
    """Cells and tags alone: outputs are no part of what will run."""
    cells = []
    for cell in notebook["cells"]:
        made = {"code": nbformat.v4.new_code_cell, "markdown": nbformat.v4.new_markdown_cell}
        new = made.get(cell["cell_type"], nbformat.v4.new_raw_cell)(cell["source"])
        new["id"], tags = cell["id"], cell["metadata"].get("tags")
        new["metadata"] = nbformat.from_dict({"tags": tags} if tags else {})
        cells.append(new)
    return nbformat.writes(nbformat.v4.new_notebook(cells=cells)).encode()


def _job(name: str, content: bytes, parameters: dict[str, Any]) -> Job:
    parts = {
        "notebook": _cells_digest(content),
        "parameters": digest(json.dumps(parameters, sort_keys=True).encode()),
        "vrt": digest(__version__.encode()),
    }
    return Job(name, content, parameters, digest(json.dumps(parts, sort_keys=True).encode()))


def _cells_digest(content: bytes) -> str:
    """Of what a kernel sees: words around the code may change."""
    cells = [
        [cell["source"], TAG in cell["metadata"].get("tags", ())]
        for cell in nbformat.reads(content.decode(), as_version=4)["cells"]
        if cell["cell_type"] == "code"
    ]
    return digest(json.dumps(cells).encode())


def do(job: Job) -> Done:
    """Run one job here, whether in this process or on a worker."""
    begun = Receipt.begin(
        {"notebook": job.notebook, **job.parameters}, command=["vrt", "batch", job.notebook]
    )
    outcome = run_content(job.notebook, job.content, job.parameters)
    numbers = {
        "checks": [{"claim": c.claim, "ok": c.ok, "detail": c.detail} for c in outcome.checks],
        "values": outcome.values,
        "seconds": outcome.seconds,
    }
    return Done(__version__, outcome, begun.end(numbers, digests={"run": job.digest}))


def run_batch(
    jobs: Sequence[Job], folder: Path, engine: Engine, tell: Callable[[Result], None]
) -> list[Result]:
    """Do what has no receipt in `folder` yet, and give back all results in the jobs' order.

    A run's files are written as soon as it is done, so that stopping loses only what is under way;
    `tell` hears of each. Raises `NotebookError` where another batch works in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _alone_in(folder):
        results = {job.digest: kept for job in jobs if (kept := _kept(job, folder))}
        for kept in results.values():
            tell(kept)
        for job, came in engine([job for job in jobs if job.digest not in results]):
            if job.digest in results:  # a second answer to the same question
                continue
            results[job.digest] = _keep(job, came, folder)
            tell(results[job.digest])
    return [results[job.digest] for job in jobs]


def _kept(job: Job, folder: Path) -> Result | None:
    """What an earlier batch left; a damaged receipt counts as none."""
    try:
        receipt = Receipt.load(folder / f"{job.stem}.json")
    except ReceiptError:
        return None
    whole = receipt.digests.get("run") == job.digest and (folder / f"{job.stem}.ipynb").is_file()
    return Result(job, receipt, None, fresh=False) if whole else None


def _keep(job: Job, came: Done | Exception, folder: Path) -> Result:
    """The notebook first, then the receipt: with it the run counts as done."""
    failed = folder / f"{job.stem}.failed.ipynb"
    if isinstance(came, Exception):
        return Result(job, None, _reason(came), fresh=True)
    if came.version != __version__:
        why = f"its worker has vrt {came.version}, this is {__version__}"
        return Result(job, None, why, fresh=True)
    if came.outcome.failure is not None:
        write_text(failed, came.outcome.text)
        return Result(job, None, f"{came.outcome.failure} -> {failed.name}", fresh=True)
    write_text(folder / f"{job.stem}.ipynb", came.outcome.text)
    came.receipt.write(folder / f"{job.stem}.json")
    failed.unlink(missing_ok=True)
    return Result(job, came.receipt, None, fresh=True)


def _reason(error: Exception) -> str:
    first = str(error).strip().splitlines()
    return f"{type(error).__name__}: {first[0]}" if first else type(error).__name__


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """The lock goes with the process, however it ends."""
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise NotebookError(
                f"another vrt batch works in {folder}; wait for it or choose another --output"
            ) from error
        yield
