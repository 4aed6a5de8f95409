"""All commands of `vrt` under one name."""

from typing import Annotated

import typer

from vrt import __version__
from vrt.cli import (
    batch,
    bench,
    coreml,
    decode,
    demo,
    golden,
    info,
    quality,
    receipt,
    run,
    stream,
    train,
    transcribe,
)
from vrt.cli.failures import CommandGroup
from vrt.cli.interrupts import hear_no_more, hear_presses
from vrt.cli.output import replace_closed, speak_utf8

HELP = """A bench for people who port streaming speech models.

\b
vrt transcribe talk.flac
vrt stream talk.flac --realtime
vrt demo
"""

EXIT_CODES = """\b
Exit codes:
  0    done
  1    it failed: a file, a checkpoint or the model, or a golden file that differs
  2    the command line is wrong
  3    this machine lacks the device that was asked for; nothing was measured
  130  stopped by Ctrl-C; what was known until then is printed
  141  whoever read the output closed it

Errors are one line on stderr; a traceback is a fault of vrt's own.
"""

app = typer.Typer(
    cls=CommandGroup,
    help=HELP,
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain text: help and errors read the same in a log
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> bool:
    if asked:
        print(f"vrt {__version__}")
        raise typer.Exit
    return asked


@app.callback()
def _vrt(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


app.command("transcribe", epilog=transcribe.EXAMPLES)(transcribe.transcribe)
app.command("decode", epilog=decode.EXAMPLES)(decode.decode)
app.command("stream", epilog=stream.EXAMPLES)(stream.stream)
app.command("info", epilog=info.EXAMPLES)(info.info)
app.command("demo", epilog=demo.EXAMPLES)(demo.demo)
app.command("run", epilog=run.EXAMPLES)(run.run)
app.command("batch", epilog=batch.EXAMPLES)(batch.batch)
app.add_typer(golden.app, name="golden")
app.add_typer(bench.app, name="bench")
app.add_typer(coreml.app, name="coreml")
app.add_typer(train.app, name="train")
app.add_typer(quality.app, name="quality")
app.add_typer(receipt.app, name="receipt")


def main() -> None:
    """The console script."""
    replace_closed()
    speak_utf8()
    hear_presses()
    try:
        app(prog_name="vrt")
    finally:
        hear_no_more()
