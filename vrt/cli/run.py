"""`vrt run`: notebooks by papermill, with their checks counted."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vrt.cli.output import remark

if TYPE_CHECKING:
    from vrt.lab.runner import Outcome

EXAMPLES = """\b
Examples:
  vrt run 03
  vrt run prune-then-recombine -p beam=8 -p fast=true
  vrt run --all
  vrt run --all -p fast=true --output out/

Without parameters the notebook itself is rewritten, with them NAME-KEY-VALUE.ipynb in the current
folder. A notebook that fails is kept as NAME.failed.ipynb. The exit code is 1 if a cell or a check
failed.
"""

Parameters = Annotated[
    list[str] | None,
    typer.Option("--parameter", "-p", metavar="KEY=VALUE", help="One of its parameters."),
]


def run(
    notebooks: Annotated[
        list[str] | None, typer.Argument(metavar="NOTEBOOK...", help="A file, number or name.")
    ] = None,
    parameter: Parameters = None,
    every: Annotated[bool, typer.Option("--all", help="Every notebook of the checkout.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH", help="A file .ipynb, or a folder."),
    ] = None,
) -> None:
    """Run notebooks from top to bottom and write them with their outputs.

    Outputs hold nothing of the run or the machine: the same numbers give the same bytes.
    """
    given = pairs(parameter or [], "-p")
    _check_command(notebooks or [], every, given, output)
    from vrt.lab.notebooks import all_notebooks, find_notebook, notebooks_dir
    from vrt.lab.parameters import parameters_of, typed
    from vrt.lab.runner import read_notebook

    files = all_notebooks(notebooks_dir()) if every else [find_notebook(n) for n in notebooks or []]
    values = [typed(parameters_of(read_notebook(file)), given) for file in files]
    results = [
        _run_one(file, named, _target(file, given, output))
        for file, named in zip(files, values, strict=True)
    ]
    if len(results) > 1:
        print(f"{len(results)} notebooks, {results.count(False)} failed")
    raise typer.Exit(0 if all(results) else 1)


def pairs(texts: list[str], option: str) -> dict[str, str]:
    """Names and texts of KEY=VALUE; refused where one is no such pair or comes twice."""
    given: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key.isidentifier() and equals):
            raise typer.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=f"'{option}'")
        if key in given:
            raise typer.BadParameter(f"{key} is given twice", param_hint=f"'{option}'")
        given[key] = value
    return given


def _check_command(
    names: list[str], every: bool, given: dict[str, str], output: Path | None
) -> None:
    if every == bool(names):
        raise typer.BadParameter("name one notebook or more, or say --all")
    if every and given and output is None:
        raise typer.BadParameter(
            "--all without --output writes the notebooks' own outputs, which are those of default"
            " parameters; add --output FOLDER"
        )
    file = output is not None and output.suffix == ".ipynb"
    if file and (every or len(names) > 1):
        raise typer.BadParameter(f"--output {output} is one file for several; name a folder")


def _target(file: Path, given: dict[str, str], output: Path | None) -> Path:
    if output is None and not given:
        return file
    if output is not None and output.suffix == ".ipynb":
        return output
    if output is not None:
        return output / file.name
    values = "-".join(f"{key}-{value}" for key, value in given.items())
    plain = "".join(sign if sign.isalnum() or sign in "-_." else "_" for sign in values)
    return Path(f"{file.stem}-{plain[:80]}.ipynb")


def _run_one(file: Path, values: dict, target: Path) -> bool:
    """Run, write, tell; whether all went well."""
    from vrt.lab.runner import run_notebook, write_text

    outcome = run_notebook(file, values, progress=True)
    kept = target
    if outcome.failure is not None:  # half a notebook never takes the place of a whole one
        folder = target.parent if target != file else Path()
        kept = folder / f"{target.stem}.failed.ipynb"
    write_text(kept, outcome.text)
    _tell(outcome, kept)
    return outcome.ok


def _tell(outcome: "Outcome", kept: Path) -> None:
    total, failed = len(outcome.checks), outcome.failed_checks
    said = f"{total - len(failed)} of {total} checks hold" if total else "no checks"
    if outcome.failure is not None:
        said += f"; FAILED in {outcome.failure}"
    print(f"{outcome.name}: {said}; {outcome.seconds:.1f} s -> {kept}")
    for check in failed:
        print(f"  {check}")
    for text in outcome.warnings:
        remark(f"{outcome.name}, on stderr and not kept: {text.strip()}")
