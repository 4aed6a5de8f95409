"""`vrt demo`: the main job on a real recording."""

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """\b
Example:
  vrt demo --output vrt-demo

The exit code is 1 where the stream differed from the whole clip.
"""


def demo(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="Gets the receipt and the picture."),
    ] = Path("vrt-demo"),
) -> None:
    """Stream a recording and prove it exact.

    Prints the text as it grows, what each stage takes in, gives out, remembers and costs, and the
    largest difference from the whole clip; leaves a receipt and a picture.
    """
    if output.exists() and not output.is_dir():
        raise typer.BadParameter(f"{output} is a file; name a folder", param_hint="'--output'")
    from vrt.demo import run

    raise typer.Exit(run(output))
