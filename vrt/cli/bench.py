"""`vrt bench ...`: what a step costs on this machine, with a receipt."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from vrt.cli.options import AsJson, ReceiptFile
from vrt.cli.output import remark

EXAMPLES = """\b
Examples:
  vrt bench voxtral --layers 4 --threads 1 --packed
  vrt bench voxtral --rows encoder,decoder --output receipts/bench.json

At full depth the weights take 9 GB of memory; --layers N makes both depths at most N.
"""

DEFAULT_ROWS = "encoder,decoder,front,batch"

BEAM_EXAMPLES = """\b
Examples:
  vrt bench beam
  vrt bench beam --beams 4,8 --batches 1 --against none
"""

EXACT_EXAMPLES = """\b
Examples:
  vrt bench exact
  vrt bench reencode --output receipts/bench-reencode.json
"""

app = typer.Typer(help="Measure the engines on this machine.", no_args_is_help=True)


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
    output: ReceiptFile = Path("vrt-bench.json"),
    json: AsJson = False,
) -> None:
    """Time the Voxtral engine at the released widths.

    Random weights; the floor is what this machine's memory needs to deliver the same bytes.
    """
    counts = _whole_numbers(threads, "--threads")
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


class BeamPeer(StrEnum):
    """The other arm of each search."""

    NEMO = "nemo"
    NONE = "none"


@app.command(epilog=BEAM_EXAMPLES)
def beam(
    beams: Annotated[
        str, typer.Option("--beams", metavar="K,...", help="Slots; 0 is a greedy search.")
    ] = "0,1,4,8",
    batches: Annotated[
        str, typer.Option("--batches", metavar="B,...", help="Utterances searched together.")
    ] = "1,8",
    frames: Annotated[
        int, typer.Option("--frames", min=1, help="Encoder frames an utterance.")
    ] = 188,
    against: Annotated[BeamPeer, typer.Option("--against", help="The other arm.")] = BeamPeer.NEMO,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Timed calls an arm.")] = 5,
    output: ReceiptFile = Path("vrt-bench-beam.json"),
    json: AsJson = False,
) -> None:
    """Time the transducer's searches at Parakeet's size, against NeMo's own.

    Random weights that say as many labels a frame as speech has; one thread; the n-best lists are
    compared too.
    """
    counts = _whole_numbers(beams, "--beams"), _whole_numbers(batches, "--batches")
    from vrt.bench import BeamBenchSettings, BenchError, beam_table, bench_beam
    from vrt.bench.beam_settings import cases

    try:
        settings = BeamBenchSettings(
            cases=cases(*counts), frames=frames, repeats=repeats, against=against.value
        )
    except BenchError as error:
        raise typer.BadParameter(str(error)) from error
    receipt = bench_beam(settings, tell=remark)
    receipt.write(output)
    print(output.read_text(encoding="utf-8") if json else beam_table(receipt))
    remark(f"receipt: {output}")


@app.command(epilog=EXACT_EXAMPLES)
def exact(
    output: ReceiptFile = Path("vrt-bench-exact.json"),
) -> None:
    """Measure how far a stream is from the offline pass, and which operations would part them.

    Differences, no times: whether a row of a linear layer, a convolution, an attention depends on
    what else is in its batch. One thread, small random models, some ten seconds.
    """
    from vrt.bench import bench_exact, exact_table

    receipt = bench_exact(remark)
    receipt.write(output)
    print(exact_table(receipt))
    remark(f"receipt: {output}")


@app.command(epilog=EXACT_EXAMPLES)
def reencode(
    output: ReceiptFile = Path("vrt-bench-reencode.json"),
) -> None:
    """Measure how much of the past an encoder without caches must encode again.

    Small random encoders of 1 to 4 layers against the ring; the largest error over slices of
    three lengths. One thread, a few seconds.
    """
    from vrt.bench import bench_reencode, reencode_table

    receipt = bench_reencode(remark)
    receipt.write(output)
    print(reencode_table(receipt))
    remark(f"receipt: {output}")


def _whole_numbers(text: str, option: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise typer.BadParameter(f"{text!r} is no list as 1,2", param_hint=f"'{option}'")
    return tuple(int(part) for part in parts)
