"""`vrt batch`: one notebook at many parameters, on as many workers as there are."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrt.cli.output import remark
from vrt.cli.run import Parameters, pairs

if TYPE_CHECKING:
    from vrt.lab.batch import Engine, Job, Result

EXAMPLES = """\b
Examples:
  vrt batch 03 --grid slots=9,10,11 --grid chunk=1,4
  vrt batch one-clip --over clips.csv --grid beam=1,4,8 --workers 4
  vrt batch one-clip --over clips.csv --dask tcp://10.0.0.5:8786

clips.csv has one column a parameter and one line a run; .tsv and .jsonl are read as well. Runs that
have their receipt in the output folder are not done again: the same command goes on where it was
stopped. The exit code is 1 if a run or a check failed.
"""


def batch(
    notebook: Annotated[str, typer.Argument(metavar="NOTEBOOK", help="A file, number or name.")],
    grid: Annotated[
        list[str] | None, typer.Option("--grid", metavar="KEY=A,B,...", help="Every combination.")
    ] = None,
    over: Annotated[
        list[Path] | None, typer.Option("--over", metavar="FILE", help="One run a line.")
    ] = None,
    parameter: Parameters = None,
    workers: Annotated[
        int, typer.Option("--workers", min=1, help="Processes of this machine.")
    ] = 1,
    dask: Annotated[
        str | None, typer.Option("--dask", metavar="ADDRESS", help="A scheduler that is running.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Else batch-NOTEBOOK."),
    ] = None,
) -> None:
    """Run one notebook for every combination of parameters and put the results side by side.

    Receipts, notebooks, summary.csv and summary.png go into the output folder.
    """
    given, axes = pairs(parameter or [], "-p"), pairs(grid or [], "--grid")
    if dask is not None and workers > 1:
        raise typer.BadParameter("--workers and --dask exclude each other")
    if output is not None and output.is_file():
        raise typer.BadParameter(f"{output} is a file; name a folder", param_hint="'--output'")
    from vrt.lab.batch import jobs_for
    from vrt.lab.grids import axis, combined, table
    from vrt.lab.notebooks import find_notebook
    from vrt.lab.parameters import parameters_of, typed
    from vrt.lab.runner import read_notebook

    path = find_notebook(notebook)
    known = parameters_of(read_notebook(path))
    runs = combined(
        [
            [typed(known, given)],
            *(table(known, file) for file in over or []),
            *(axis(known, name, texts) for name, texts in axes.items()),
        ]
    )
    folder = output or Path(f"batch-{path.stem}")
    results = _run(jobs_for(path, runs), folder, workers, dask)
    _summarise(results, folder)
    raise typer.Exit(0 if all(result.ok for result in results) else 1)


def _run(jobs: "list[Job]", folder: Path, workers: int, dask: str | None) -> "list[Result]":
    from vrt.lab.batch_engines import cluster_at, local_cluster, on_cluster, one_by_one

    if dask is not None:
        with cluster_at(dask) as client:
            return _told(jobs, folder, on_cluster(client))
    if workers > 1:
        with local_cluster(min(workers, len(jobs))) as client:
            return _told(jobs, folder, on_cluster(client))
    return _told(jobs, folder, one_by_one)


def _told(jobs: "list[Job]", folder: Path, engine: "Engine") -> "list[Result]":
    """A bar on stderr where that is a terminal, and a line for each run that fails."""
    import sys

    from tqdm import tqdm

    from vrt.lab.batch import run_batch

    with tqdm(total=len(jobs), unit="run", file=sys.stderr, leave=False, disable=None) as bar:

        def tell(result: "Result") -> None:
            bar.update()
            if not result.ok:
                bar.clear()
                remark(f"{_named(result.job.parameters)}: {_why(result)}")

        return run_batch(jobs, folder, engine, tell)


def _named(parameters: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in parameters.items()) or "default"


def _why(result: "Result") -> str:
    return result.failure or f"checks fail: {'; '.join(result.failed_checks)}"


def _summarise(results: "list[Result]", folder: Path) -> None:
    from vrt.lab.batch_report import as_csv, as_text, batch_chart, rows_of
    from vrt.lab.runner import write_text

    rows = rows_of(results)
    write_text(folder / "summary.csv", as_csv(rows))
    print(as_text(rows))
    chart = batch_chart(rows, list({p: None for r in results for p in r.job.parameters}))
    if chart is not None:
        from vrt.lab.theme import save_png

        save_png(chart, folder / "summary.png")
    failed = sum(not result.ok for result in results)
    again = sum(not result.fresh for result in results)
    commits = {result.receipt.commit for result in results if result.receipt}
    print(f"{len(results)} runs, {again} done before, {failed} failed -> {folder}")
    if len(commits) > 1:
        remark(f"the receipts are of {len(commits)} commits of vrt; an empty folder starts anew")
