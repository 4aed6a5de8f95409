"""`vrt transcribe`: whole files, one after another."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from vrt.cli.options import (
    DEFAULT_MODEL,
    DelayMs,
    Device,
    DtypeChoice,
    Format,
    FormatChoice,
    Model,
    Packed,
    choose_format,
)

EXAMPLES = """\b
Examples:
  vrt transcribe talk.flac
  vrt transcribe *.wav --format srt --output captions/
  vrt transcribe talk.flac --model ~/Voxtral-Mini-4B-Realtime --json

Files that cannot be read are named on stderr, the others are transcribed; the exit code is then 1.
"""


def transcribe(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="wav, flac, ogg or mp3.")],
    model: Model = DEFAULT_MODEL,
    delay_ms: DelayMs = None,
    format: FormatChoice = None,
    json: Annotated[
        bool, typer.Option("--json", help="One line of JSON a file: as --format json.")
    ] = False,
    device: Device = "cpu",
    dtype: DtypeChoice = None,
    pack: Packed = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Write a file for each input into this folder."
        ),
    ] = None,
) -> None:
    """Write down what is said in files.

    However long they are, the engine's memory is constant; the result is that of a live stream of
    the same audio, bit for bit.
    """
    chosen = choose_format(format, json)
    _check_targets(files, chosen, output)
    from vrt.cli.files import FEED, transcribe_files
    from vrt.cli.models import open_model
    from vrt.voxtral.config import SAMPLES_PER_TOKEN

    opened = open_model(model, device, dtype, FEED // SAMPLES_PER_TOKEN, pack)
    failed = transcribe_files(opened, files, delay_ms, chosen, output)
    raise typer.Exit(1 if failed else 0)


def _check_targets(files: list[Path], format: Format, output: Path | None) -> None:
    """Refuse, before any work, what would overwrite itself or run together."""
    if output is None:
        if format in (Format.SRT, Format.VTT) and len(files) > 1:
            raise typer.BadParameter(
                f"{len(files)} files as {format} would run together; add --output DIR"
            )
        return
    if output.exists() and not output.is_dir():
        raise typer.BadParameter(f"--output {output} is a file; name a folder")
    names = Counter(file.stem for file in files)
    double = next((file for file in files if names[file.stem] > 1), None)
    if double is not None:
        raise typer.BadParameter(
            f"{names[double.stem]} inputs would be written to {double.stem}{format.suffix};"
            " transcribe them into different folders"
        )
