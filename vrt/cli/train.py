"""`vrt train ...`: the small shipped models, trained anew on recordings that you name."""

from pathlib import Path
from typing import Annotated

import typer

from vrt.cli.output import remark

EXAMPLES = """\b
Examples:
  vrt train digits-rnnt --speech recordings --output models/digits-rnnt
  OMP_NUM_THREADS=1 vrt train digits-rnnt --steps 20 --no-report
  OMP_NUM_THREADS=1 vrt train digits-voxtral -o models/digits-voxtral

The same command on the same machine writes the same bytes.
"""

app = typer.Typer(help="Train the small shipped models.", no_args_is_help=True)


@app.callback()
def _train() -> None:
    """Keeps each command a name of its own."""


Speech = Annotated[
    Path | None,
    typer.Option("--speech", metavar="FOLDER", help="Recordings; else VRT_SPEECH names them."),
]


@app.command("digits-rnnt", epilog=EXAMPLES)
def digits_rnnt(
    speech: Speech = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the model goes.")
    ] = Path("digits-rnnt"),
    receipt: Annotated[
        Path | None,
        typer.Option("--receipt", metavar="FILE", help="Else train-digits-rnnt.json beside it."),
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", min=1, help="Else the plan's.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of weights and examples.")] = 1,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Measure the result on the test sets.")
    ] = True,
) -> None:
    """Train the transducer that spells strings of digits (20 minutes on one core)."""
    from vrt.train.rnnt_digits import Plan
    from vrt.train.rnnt_run import run

    if output.is_file():
        raise typer.BadParameter(f"{output} is a file; name a folder", param_hint="'--output'")
    plan = Plan(seed=seed) if steps is None else Plan(seed=seed, steps=steps)
    target = receipt or output.parent / "train-digits-rnnt.json"
    run(plan, speech, output, target, report, remark)
    remark(f"model: {output}; receipt: {target}")


@app.command("digits-voxtral", epilog=EXAMPLES)
def digits_voxtral(
    speech: Speech = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the model goes.")
    ] = Path("digits-voxtral"),
    receipt: Annotated[
        Path | None,
        typer.Option("--receipt", metavar="FILE", help="Else train-digits-voxtral.json beside it."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Of each stage; else the plan's.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of weights and streams.")] = 1,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Measure the result on the test sets.")
    ] = True,
) -> None:
    """Train the Voxtral Realtime that writes spoken digits (50 minutes on one core)."""
    from dataclasses import replace

    from vrt.train.voxtral_digits import Plan
    from vrt.train.voxtral_run import run

    if output.is_file():
        raise typer.BadParameter(f"{output} is a file; name a folder", param_hint="'--output'")
    plan = Plan(seed=seed)
    if steps is not None:
        plan = replace(plan, stages=tuple(replace(s, steps=steps) for s in plan.stages))
    target = receipt or output.parent / "train-digits-voxtral.json"
    run(plan, speech, output, target, report, remark)
    remark(f"model: {output}; receipt: {target}")
