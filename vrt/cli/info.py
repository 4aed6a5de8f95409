"""`vrt info`: what a checkpoint is and what it will cost."""

from typing import Annotated

import typer

from vrt.cli.options import DtypeChoice, check_threads
from vrt.cli.output import as_line

EXAMPLES = """\b
Examples:
  vrt info random-tiny
  vrt info ~/Voxtral-Mini-4B-Realtime --threads 4 --json

Only the configuration, the vocabulary and the headers are read, no weights.
"""


def info(
    model: Annotated[
        str, typer.Argument(metavar="PATH|NAME", help="A checkpoint folder, or a model's name.")
    ],
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads", min=1, callback=check_threads, help="For the cost.  [default: torch's]"
        ),
    ] = None,
    dtype: DtypeChoice = None,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False,
) -> None:
    """Say what a checkpoint is and costs.

    Layout, sizes, windows, delays and vocabulary; the bytes that a session remembers and that 80 ms
    of audio read; the floor at this machine's memory speed and the expected real-time factor.
    """
    import torch

    from vrt.cli.checkpoints import look_at
    from vrt.cli.facts import facts, sheet
    from vrt.voxtral.measure.speed import measure_speed

    look = look_at(model, dtype)
    found = facts(look, measure_speed(look.dtype, threads or torch.get_num_threads()))
    print(as_line(found) if json else sheet(found))
