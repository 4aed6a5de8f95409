"""Options that several commands share; values are checked while the command line is read."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

DEFAULT_MODEL = "random-tiny"
STDIN = "-"  # in place of a file


class Format(StrEnum):
    """How a transcript is written."""

    TEXT = "text"
    JSON = "json"
    SRT = "srt"
    VTT = "vtt"

    @property
    def suffix(self) -> str:
        """Of a file that holds it."""
        return ".txt" if self is Format.TEXT else f".{self.value}"


class Dtype(StrEnum):
    """Number types that weights may have."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


def check_file(output: Path) -> Path:
    """A typer callback: a folder is refused before any work."""
    if output.is_dir():
        raise typer.BadParameter(f"{output} is a folder; name a file")
    return output


ReceiptFile = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE", callback=check_file, help="The receipt to write."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the receipt in place of the table.")]


def check_delay(value: int | None) -> int | None:
    """A typer callback: the delay in milliseconds, refused with the nearest allowed values."""
    if value is None:
        return None
    from vrt.voxtral.schedule import DelayError, delay_tokens

    try:
        delay_tokens(value)
    except DelayError as error:
        raise typer.BadParameter(str(error)) from error
    return value


def check_device(value: str) -> str:
    """A typer callback: a device that torch knows and that this machine has."""
    if value == "cpu":
        return value
    import torch

    try:
        kind = torch.device(value).type
    except RuntimeError as error:
        raise typer.BadParameter(f"{value!r} is no device; say cpu, cuda, cuda:1 or mps") from error
    here = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if not here.get(kind, False):
        usable = ", ".join(name for name, present in here.items() if present)
        raise typer.BadParameter(f"{value!r} is not usable here; this machine has: {usable}")
    return value


def check_threads(value: int | None) -> int | None:
    """A typer callback: at most four threads a core; far more and OpenMP ends the process."""
    most = 4 * (os.cpu_count() or 1)
    if value is not None and value > most:
        raise typer.BadParameter(f"{value} threads: this machine takes 1 to {most}")
    return value


def choose_format(format: Format | None, json: bool) -> Format:
    """`--format` and `--json` together: one of them, or both where they agree."""
    if json and format not in (None, Format.JSON):
        raise typer.BadParameter(f"--json and --format {format} contradict each other; give one")
    return Format.JSON if json else format or Format.TEXT


Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        metavar="PATH|NAME",
        help="A checkpoint folder (Hugging Face or Mistral), or a small model of this package.",
    ),
]
DelayMs = Annotated[
    int | None,
    typer.Option(
        "--delay-ms",
        callback=check_delay,
        help="How far a word may lie behind its sound: 80 to 2400 in steps of 80; if not said, as"
        " the model has it.",
    ),
]
FormatChoice = Annotated[
    Format | None,
    typer.Option("--format", "-f", help="How the transcript is written.  [default: text]"),
]
Device = Annotated[
    str,
    typer.Option("--device", callback=check_device, metavar="DEVICE", help="cpu, cuda or mps."),
]
DtypeChoice = Annotated[
    Dtype | None, typer.Option("--dtype", help="Of the weights.  [default: the file's]")
]
Packed = Annotated[
    bool,
    typer.Option(
        "--pack",
        help="Lay bf16 weights out for this CPU first: same numbers, faster, memory not mapped.",
    ),
]
