"""`vrt stream`: one file or a live feed, with the text growing as it becomes known."""

from typing import Annotated

import typer

from vrt.cli.options import (
    DEFAULT_MODEL,
    STDIN,
    DelayMs,
    Device,
    DtypeChoice,
    FormatChoice,
    Model,
    Packed,
    choose_format,
)

SHORTEST_MS, LONGEST_MS = 0.0625, 60_000  # one sample at 16 kHz; a pipe's read is held in memory

EXAMPLES = """\b
Examples:
  vrt stream talk.flac --realtime
  arecord -f S16_LE -r 16000 -c 1 -t raw | vrt stream -
  ffmpeg -i talk.mp4 -f s16le -ac 1 -ar 48000 - | vrt stream - --rate 48000 --json

Ctrl-C ends the stream: the words that were still on their way are brought out, and the exit code
is 130. A second Ctrl-C stops at once; what was known is printed.
"""


def check_feed(value: float) -> float:
    """A typer callback: milliseconds of audio a feed."""
    if not SHORTEST_MS <= value <= LONGEST_MS:  # NaN fails too
        raise typer.BadParameter(
            f"{value:g} ms is no feed; from {SHORTEST_MS} (one sample) to {LONGEST_MS} ms are taken"
        )
    return value


def stream(
    source: Annotated[
        str,
        typer.Argument(metavar="FILE|-", help="An audio file; - is raw 16-bit mono PCM on stdin."),
    ],
    model: Model = DEFAULT_MODEL,
    delay_ms: DelayMs = None,
    feed_ms: Annotated[
        float, typer.Option("--feed-ms", callback=check_feed, help="Audio given at a time.")
    ] = 80.0,
    realtime: Annotated[
        bool, typer.Option("--realtime", help="Give the audio no faster than it was spoken.")
    ] = False,
    rate: Annotated[
        int | None,
        typer.Option(
            "--rate", min=1_000, max=1_000_000, help="Of PCM on stdin, in Hz.  [default: 16000]"
        ),
    ] = None,
    decode_every: Annotated[
        int,
        typer.Option(
            "--decode-every", min=1, help="Decode in groups of so many tokens: later, cheaper."
        ),
    ] = 1,
    stop_at_eos: Annotated[
        bool, typer.Option("--stop-at-eos", help="End where the model says so, as the reference.")
    ] = False,
    format: FormatChoice = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="A line of JSON for each feed that gave a token, and a last."),
    ] = False,
    device: Device = "cpu",
    dtype: DtypeChoice = None,
    pack: Packed = False,
) -> None:
    """Transcribe audio as it comes in.

    Text is printed as soon as it is known and never taken back.
    """
    choose_format(format, json)
    if rate is not None and source != STDIN:
        raise typer.BadParameter(
            f"--rate is for raw PCM on stdin; {source} says its own", param_hint="'--rate'"
        )
    from vrt.cli.live import Settings, run
    from vrt.cli.models import open_model
    from vrt.cli.sources import open_source
    from vrt.voxtral.config import TOKEN_MS

    audio = open_source(source, rate, feed_ms)
    opened = open_model(model, device, dtype, max(1, round(feed_ms / TOKEN_MS)), pack)
    settings = Settings(delay_ms, decode_every, stop_at_eos, realtime)
    if run(opened, audio, settings, format, lines=json):
        raise KeyboardInterrupt
