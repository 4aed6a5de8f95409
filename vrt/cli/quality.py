"""`vrt quality ...`: experiments on real speech, each with a receipt."""

from pathlib import Path
from typing import Annotated

import typer

from vrt.cli.options import ReceiptFile
from vrt.cli.output import remark

EXAMPLES = """\b
Examples:
  vrt quality beam --speech recordings
  vrt quality delay --model models/digits-voxtral --strings 100 --output delay.json

Recordings are a folder as vrt train takes it. Numbers go into the receipt; lines on stderr tell how
far it is.
"""

app = typer.Typer(help="Measure the small models on real speech.", no_args_is_help=True)

Speech = Annotated[
    Path | None,
    typer.Option("--speech", metavar="FOLDER", help="Recordings; else VRT_SPEECH names them."),
]
Model = Annotated[
    str, typer.Option("--model", "-m", metavar="PATH|NAME", help="A folder, or a model by name.")
]
Strings = Annotated[int, typer.Option("--strings", min=2, help="Strings of each test set.")]
RNNT, VOXTRAL = "digits-rnnt", "digits-voxtral"


@app.command("beam", epilog=EXAMPLES)
def beam(
    model: Model = RNNT,
    strings: Strings = 200,
    speech: Speech = None,
    output: ReceiptFile = Path("quality-beam.json"),
) -> None:
    """Greedy against beams of 2 to 16, their work, and the settings of a beam one by one."""
    from vrt.quality.beam import run
    from vrt.quality.runs import Request

    run(Request(model, strings, speech), output, remark)
    remark(f"receipt: {output}")


@app.command("parity", epilog=EXAMPLES)
def parity(
    model: Model = RNNT,
    strings: Strings = 200,
    speech: Speech = None,
    output: ReceiptFile = Path("quality-parity.json"),
) -> None:
    """The trained predictor and joint inside NeMo against ours, clip by clip."""
    from vrt.quality.parity import run
    from vrt.quality.runs import Request

    run(Request(model, strings, speech), output, remark)
    remark(f"receipt: {output}")


@app.command("approximations", epilog=EXAMPLES)
def approximations(
    model: Model = RNNT,
    strings: Strings = 200,
    speech: Speech = None,
    output: ReceiptFile = Path("quality-approximations.json"),
) -> None:
    """Ways to save work, one at a time, with the exact beam of 8 as teacher."""
    from vrt.quality.approximations import run
    from vrt.quality.runs import Request

    run(Request(model, strings, speech), output, remark)
    remark(f"receipt: {output}")


@app.command("two-pass", epilog=EXAMPLES)
def two_pass(
    model: Model = RNNT,
    strings: Strings = 200,
    speech: Speech = None,
    output: ReceiptFile = Path("quality-two-pass.json"),
) -> None:
    """Greedy text at once and the beam's at the end: how soon, and how much changes."""
    from vrt.quality.runs import Request
    from vrt.quality.two_pass import run

    run(Request(model, strings, speech), output, remark)
    remark(f"receipt: {output}")


@app.command("delay", epilog=EXAMPLES)
def delay(
    model: Model = VOXTRAL,
    strings: Strings = 200,
    speech: Speech = None,
    output: ReceiptFile = Path("quality-delay.json"),
) -> None:
    """Delay against word errors and the measured time to a word's text."""
    from vrt.quality.delay import run
    from vrt.quality.runs import Request

    run(Request(model, strings, speech), output, remark)
    remark(f"receipt: {output}")


@app.command("speakers", epilog=EXAMPLES)
def speakers(
    steps: Annotated[int | None, typer.Option("--steps", min=1, help="Else the plan's.")] = None,
    strings: Strings = 200,
    pairs: Annotated[int, typer.Option("--pairs", min=1, help="At most so many this time.")] = 15,
    speech: Speech = None,
    folder: Annotated[
        Path, typer.Option("--folder", metavar="FOLDER", help="Where the receipts go.")
    ] = Path("quality-speakers"),
) -> None:
    """Train the transducer without each pair of speakers and measure on them.

    A pair whose receipt is in the folder is not trained again.
    """
    from vrt.quality.speakers import run
    from vrt.train.rnnt_digits import Plan

    if folder.is_file():
        raise typer.BadParameter(f"{folder} is a file; name a folder", param_hint="'--folder'")
    plan = Plan() if steps is None else Plan(steps=steps)
    done = run(plan, strings, speech, folder, pairs, remark)
    remark(f"receipts: {folder}" + ("" if done else "; run it again for the other pairs"))
