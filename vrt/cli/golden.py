"""`vrt golden ...`: check this engine, compare a port with it, make new files."""

import os
from collections import Counter
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from vrt.cli.failures import explain
from vrt.cli.options import check_delay
from vrt.cli.output import as_line, finite, remark, shown

CHECK_EXAMPLES = """\b
Examples:
  vrt golden check data/golden/*.safetensors
  vrt golden check clip.safetensors --feed random:7 --dump got/
  vrt golden check data/golden/malsd-*.json
"""
COMPARE_EXAMPLES = """\b
Example:
  vrt golden compare data/golden/clip.safetensors port/clip.safetensors
"""
MAKE_MALSD_EXAMPLES = """\b
Examples:
  vrt golden make malsd rebuilt/
  vrt golden make malsd rebuilt/ --name malsd-merge-sums --oracle vrt
"""
MAKE_EXAMPLES = """\b
Example:
  vrt golden make voxtral clip.safetensors --audio talk.flac --seconds 2 --delay-ms 240
"""

WIDEST = 10_000  # of a window: more than `--seconds` can fill

app = typer.Typer(
    help="Problems with the reference's answers.",
    no_args_is_help=True,
)
make = typer.Typer(help="Write new golden files.", no_args_is_help=True)
app.add_typer(make, name="make")


class Oracle(StrEnum):
    """Who answers the problem."""

    HF = "hf"
    VRT = "vrt"


class SearchOracle(StrEnum):
    """Who searches."""

    NEMO = "nemo"
    VRT = "vrt"


Json = Annotated[bool, typer.Option("--json", help="One line of JSON a file.")]


@app.command(epilog=CHECK_EXAMPLES)
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Golden files.")],
    feed: Annotated[
        str,
        typer.Option("--feed", metavar="N|random:SEED", help="Samples that the stream gets a go."),
    ] = "1280",
    dump: Annotated[
        Path | None,
        typer.Option(
            "--dump", metavar="DIR", help="Write what vrt computed, under the same names."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Check vrt against golden files.

    Runs vrt on each file's problem and compares, stage by stage: one line a file, exit code 1 if
    any failed.
    """
    _check_feed(feed)
    double = [name for name, count in Counter(file.name for file in files).items() if count > 1]
    if dump is not None and double:
        raise typer.BadParameter(f"several inputs are called {double[0]}: --dump would lose one")
    from vrt import golden

    failed = 0
    for file in files:
        try:
            report = golden.check(file, feed, dump)
        except (golden.GoldenError, OSError) as error:
            failed += 1
            reason = explain(error)
            values = {"name": file.name, "ok": False, "error": reason}
            print(as_line(values) if json else shown(f"FAIL {file.name}: {reason}"), flush=True)
            continue
        failed += not report.ok
        print(as_line(_plain(report)) if json else shown(report.line()), flush=True)
    raise typer.Exit(1 if failed else 0)


@app.command(epilog=COMPARE_EXAMPLES)
def compare(
    expected: Annotated[Path, typer.Argument(metavar="EXPECTED", help="The reference's answer.")],
    got: Annotated[Path, typer.Argument(metavar="GOT", help="Another answer, as a port's dump.")],
    json: Json = False,
) -> None:
    """Compare two answers to one problem.

    Prints the first divergence and a table of the stages; exit code 1 if they differ.
    """
    from vrt import golden

    report = golden.compare(expected, got)
    if json:
        print(as_line(_plain(report)))
    else:
        print(shown(report.line()), report.table(), sep="\n")
    raise typer.Exit(0 if report.ok else 1)


@make.command(epilog=MAKE_EXAMPLES)
def voxtral(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    audio: Annotated[Path, typer.Option("--audio", metavar="FILE", help="What is said in it.")],
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.0, max=60.0, help="Of the audio's beginning.")
    ] = 2.0,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=2**63 - 1, help="Of the random weights.")
    ] = 0,
    delay_ms: Annotated[
        int, typer.Option("--delay-ms", callback=check_delay, help="Of the problem.")
    ] = 480,
    encoder_window: Annotated[
        int, typer.Option("--encoder-window", min=1, max=WIDEST, help="Encoder frames of 20 ms.")
    ] = 24,
    decoder_window: Annotated[
        int, typer.Option("--decoder-window", min=1, max=WIDEST, help="Tokens of 80 ms.")
    ] = 20,
    eos: Annotated[int | None, typer.Option("--eos", min=0, help="Id that ends a text.")] = None,
    oracle: Annotated[
        Oracle, typer.Option("--oracle", help="Who answers: transformers, or vrt itself.")
    ] = Oracle.HF,
) -> None:
    """A small random model on a recording.

    The problem is the beginning of the recording; the oracle answers it.
    """
    if path.exists():
        raise typer.BadParameter(f"{path} is there already; remove it or name another file")
    _check_folder(path.parent)
    import numpy as np

    from vrt import golden
    from vrt.audio import SAMPLE_RATE, read

    clip = read(audio)
    samples = clip.samples[: round(seconds * SAMPLE_RATE)]
    problem = golden.small_problem(
        path.stem,
        (samples * 2**15).round().clip(-(2**15), 2**15 - 1).astype(np.int16),
        seed=seed,
        delay_ms=delay_ms,
        encoder_window=encoder_window,
        decoder_window=decoder_window,
        eos=eos,
    )
    golden.make_voxtral(path, problem, oracle.value)
    remark(f"{path}: {len(samples) / SAMPLE_RATE:.3f} s of {audio.name}, answered by {oracle}")


@make.command(epilog=MAKE_MALSD_EXAMPLES)
def malsd(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the files go.")],
    names: Annotated[
        list[str] | None, typer.Option("--name", metavar="NAME", help="One of them; repeatable.")
    ] = None,
    oracle: Annotated[
        SearchOracle, typer.Option("--oracle", help="Who searches: NeMo, or vrt itself.")
    ] = SearchOracle.NEMO,
) -> None:
    """The shipped beam-search problems, searched again.

    Each file holds a toy scorer, the arrays of every iteration and the n-best lists.
    """
    if folder.exists():
        _check_folder(folder)
    from vrt import golden

    for path in golden.make_malsd_files(folder, oracle.value, names or ()):
        remark(f"{path}: searched by {oracle}")


def _check_folder(folder: Path) -> None:
    """Before the work that would be lost."""
    if not folder.is_dir():
        raise typer.BadParameter(f"{folder} is no folder; make it, or name another")
    if not os.access(folder, os.W_OK):
        raise typer.BadParameter(f"{folder} cannot be written to; name another folder")


def _check_feed(feed: str) -> None:
    size, colon, seed = feed.partition(":")
    number = seed if colon and size == "random" else size if not colon else ""
    if not number.isdecimal() or (not colon and int(number) == 0):
        raise typer.BadParameter(
            f"{feed!r} is no feed: a number of samples from 1 on, or random:SEED as random:1",
            param_hint="'--feed'",
        )


def _plain(report: Any) -> dict[str, Any]:
    """A report for JSON; an error without bound is the text "inf"."""
    return {"name": report.name, "ok": report.ok, **finite(asdict(report))}
