"""vrt's own search against malsd golden files."""

from os import PathLike
from pathlib import Path
from typing import Any

import torch

from vrt import __version__
from vrt.golden.errors import GoldenError
from vrt.golden.malsd_answer import answer
from vrt.golden.malsd_compare import against
from vrt.golden.malsd_format import MalsdGolden, MalsdProblem, problem_of, read, write
from vrt.golden.report import Report


def check_malsd(path: str | PathLike[str], dump: str | PathLike[str] | None = None) -> Report:
    """Search the file's problem and compare with its expectations.

    `dump`: a folder, made if needed, that gets what vrt computed, under the file's name. Raises
    `GoldenError` for a file that is no complete problem.
    """
    golden = read(path)
    problem = problem_of(golden.problem, str(golden.path))
    found = answer(problem)
    if dump is not None:
        _dump(golden, found, Path(dump))
    name = golden.path.name
    if answers_where_nemo_fails(problem, golden.expected, found):
        reason = f"zero_length='empty' answers where the reference has {golden.expected['error']}"
        return Report(f"{name} (deliberately: {reason})", ())
    return against(name, golden.expected, found)


def answers_where_nemo_fails(
    problem: MalsdProblem, expected: dict[str, Any], found: dict[str, Any]
) -> bool:
    """An utterance without frames beside others of one frame: NeMo overruns its history."""
    spared = problem.config.zero_length == "empty" and 0 in problem.lengths
    return spared and bool(expected.get("error")) and not found["error"]


def produced_by_vrt() -> dict[str, Any]:
    """What a file of vrt's own answers says of who answered."""
    return {"oracle": {"name": "vrt", "vrt": __version__, "torch": torch.__version__}}


def _dump(golden: MalsdGolden, found: dict[str, Any], folder: Path) -> None:
    target = folder / golden.path.name
    if target.resolve() == golden.path.resolve():
        raise GoldenError(f"--dump {folder} would overwrite {golden.path}; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    write(target, golden.name, golden.problem | produced_by_vrt(), found)
