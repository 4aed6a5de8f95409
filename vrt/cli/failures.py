"""What the person at the keyboard is told when a command fails, and with which exit code."""

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from vrt.cli.interrupts import hear_no_more
from vrt.cli.output import printable, remark

FAILED, NOT_HERE = 1, 3
INTERRUPTED, OUTPUT_CLOSED = 130, 141  # 128 + SIGINT, 128 + SIGPIPE

# The package's extras, for what a plain install leaves out.
EXTRAS = {
    **dict.fromkeys(("altair", "vl_convert", "PIL"), "plot"),
    **dict.fromkeys(("jiwer", "scipy"), "quality"),
    **dict.fromkeys(("nbformat", "nbclient", "papermill", "dask", "distributed"), "batch"),
    "transformers": "hf",
    "nemo": "nemo",
    "coremltools": "coreml",
}


class CommandGroup(TyperGroup):
    """Runs a command and turns what it raises into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt:
            hear_no_more()
            complain("stopped by Ctrl-C")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # nobody reads any more, so nobody is told
            raise typer.Exit(OUTPUT_CLOSED) from None
        except typer.BadParameter as error:
            error.message = printable(error.message)
            raise
        except Exception as error:
            message = explain(error)
            if message is None:
                raise
            complain(message)
            raise typer.Exit(FAILED) from None
        return result


def complain(message: str) -> None:
    """One line on stderr."""
    remark(f"vrt: {message}")


def explain(error: Exception) -> str | None:
    """What to tell the user about `error`; None for a fault of vrt's own."""
    if isinstance(error, OSError) and error.strerror:
        name = error.filename2 or error.filename  # of a rename, the name that was wanted
        return f"{name}: {error.strerror}" if name else error.strerror
    if isinstance(error, ModuleNotFoundError):
        missing = (error.name or "").partition(".")[0]
        extra = EXTRAS.get(missing)
        return f"this needs {missing}: pip install 'vrt[{extra}]'" if extra else None
    if type(error).__module__.partition(".")[0] == "vrt":
        return str(error)
    return None
