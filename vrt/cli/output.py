"""What goes to the screen: text for people, JSON for programs, and side remarks on stderr."""

import json
import math
import re
import sys
from typing import Any

# Control characters but tab and line feed: a terminal would obey them.
COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def speak_utf8() -> None:
    """Text in UTF-8 whatever the locale; a file name that is no UTF-8 is written with escapes."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def remark(message: str) -> None:
    """A line for people, beside the output."""
    print(message, file=sys.stderr, flush=True)


def shown(text: str) -> str:
    """`text` as it may go to stdout: made harmless to a terminal, unchanged to anything else."""
    return COMMANDS.sub("\N{REPLACEMENT CHARACTER}", text) if sys.stdout.isatty() else text


def as_line(values: dict[str, Any]) -> str:
    """One line of JSON."""
    return json.dumps(values, ensure_ascii=False, allow_nan=False)


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
