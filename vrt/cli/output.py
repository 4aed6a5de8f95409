"""What goes to the screen: text for people, JSON for programs, and side remarks on stderr."""

import errno
import io
import json
import math
import os
import re
import sys
from typing import Any

# Control characters but tab and line feed: a terminal would obey them.
COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Closed(io.TextIOBase):
    """Stands for a stdout that was closed before the start: nobody reads what is written."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, "stdout is closed")


def replace_closed() -> None:
    """Put something in the place of closed output streams, and of their numbers.

    A file that was opened under the number of stderr would get what libraries say there.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (as long as the process)
    if sys.stdout is None:
        sys.stdout = Closed()


def speak_utf8() -> None:
    """Text in UTF-8 whatever the locale; a file name that is no UTF-8 is written with escapes."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def remark(message: str) -> None:
    """A line for people, beside the output."""
    print(printable(message), file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """`text` with escapes in place of what a terminal would obey, as a file name may hold it."""
    return COMMANDS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def shown(text: str) -> str:
    """`text` as it may go to stdout: made harmless to a terminal, unchanged to anything else."""
    return COMMANDS.sub("\N{REPLACEMENT CHARACTER}", text) if sys.stdout.isatty() else text


def as_line(values: dict[str, Any]) -> str:
    """One line of JSON, with what a terminal would obey as escapes."""
    line = json.dumps(values, ensure_ascii=False, allow_nan=False)
    return COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def bytes_text(count: int | float) -> str:
    """Decimal units, three digits: 8.86 GB."""
    for unit in ("B", "kB", "MB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def finite(value: Any) -> Any:
    """The same, with numbers that JSON does not have as text: "inf", "-inf", "nan"."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value
