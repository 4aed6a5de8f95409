"""`vrt bench ...`: what a step costs on this machine, with a receipt."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from vrt.cli.output import remark

EXAMPLES = """\b
Examples:
  vrt bench voxtral --layers 4 --threads 1 --packed
  vrt bench voxtral --rows encoder,decoder --output receipts/bench.json

At full depth the weights take 9 GB of memory; --layers N makes both depths at most N.
"""

DEFAULT_ROWS = "encoder,decoder,front,batch"

app = typer.Typer(help="Measure the engines on this machine.", no_args_is_help=True)


@app.callback()
def _bench() -> None:
    """Keeps `voxtral` a command of its own: a Typer with a single command has no name for it."""


class Peer(StrEnum):
    """The other arm of each row."""

    TRANSFORMERS = "transformers"
    NONE = "none"


@app.command(epilog=EXAMPLES)
def voxtral(
    layers: Annotated[
        int | None, typer.Option("--layers", min=1, help="At most so many, of each.")
    ] = None,
    threads: Annotated[
        str, typer.Option("--threads", metavar="N,...", help="Measured one after another.")
    ] = "1,2",
    rows: Annotated[
        str, typer.Option("--rows", metavar="NAME,...", help="Which parts to measure.")
    ] = DEFAULT_ROWS,
    against: Annotated[Peer, typer.Option("--against", help="The other arm.")] = Peer.TRANSFORMERS,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Timed calls an arm.")] = 9,
    packed: Annotated[
        bool, typer.Option("--packed", help="The engine with packed weights as well: more memory.")
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The receipt to write.")
    ] = Path("vrt-bench.json"),
    json: Annotated[
        bool, typer.Option("--json", help="Print the receipt in place of the table.")
    ] = False,
) -> None:
    """Time the Voxtral engine at the released widths.

    Random weights; the floor is what this machine's memory needs to deliver the same bytes.
    """
    counts = _whole_numbers(threads)
    if output.is_dir():
        raise typer.BadParameter(f"{output} is a folder; name a file", param_hint="'--output'")
    from vrt.bench import BenchError, BenchSettings, bench_voxtral, table

    try:
        settings = BenchSettings(
            layers=layers,
            threads=counts,
            rows=tuple(rows.split(",")),
            against=against.value,
            repeats=repeats,
            packed=packed,
        )
    except BenchError as error:
        raise typer.BadParameter(str(error)) from error
    receipt = bench_voxtral(settings, tell=remark)
    receipt.write(output)
    print(output.read_text(encoding="utf-8") if json else table(receipt))
    remark(f"receipt: {output}")


def _whole_numbers(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise typer.BadParameter(f"{text!r} is no list as 1,2", param_hint="'--threads'")
    return tuple(int(part) for part in parts)
