"""What may stand in a receipt: JSON's own types, finite numbers, and no path of the machine."""

import dataclasses
import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

FLOAT_DIGITS = 7  # significant: what an fp32 measurement holds, and 0.1 stays 0.1

# The folders of an absolute path inside a longer text: /a/b/, ~/a/ or C:\a\. A slash after a word
# or another slash is a fraction's or a URL's.
FOLDERS = re.compile(r"(?<![\w.~/\\-])(?:~|[A-Za-z]:)?[/\\](?:[^\s/\\'\",;:]+[/\\])+")


class ReceiptError(ValueError):
    """A receipt that cannot be written, read or trusted; the message names the value."""


def plain(value: Any, where: str) -> Any:
    """JSON's own types, paths as names; `where` is the value's place for an error."""
    try:
        return _plain(value, where)
    except RecursionError as error:
        raise ReceiptError(f"{where} contains itself, or is nested too deeply") from error


def _plain(value: Any, where: str) -> Any:
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()  # numpy scalars, 0-d arrays and tensors
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ReceiptError(f"{where} is {value}; a receipt holds finite numbers or None")
        return value
    if isinstance(value, str | os.PathLike):
        return _text(os.fspath(value), where)
    if isinstance(value, Mapping):
        named = {
            _text(str(key), where): _plain(item, f"{where}.{key}") for key, item in value.items()
        }
        if len(named) < len(value):
            raise ReceiptError(f"{where}: two names are the same without their folders")
        return named
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value), where)
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise ReceiptError(f"{where} is a {type(value).__name__}; pass numbers, text, lists or dicts")


def _text(text: str, where: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ReceiptError(f"{where} holds {text!r}, which has no form in UTF-8") from error
    return portable(text)


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{FLOAT_DIGITS}g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def portable(text: str) -> str:
    """`text` without folders of this machine: a path from outside keeps its name alone.

    A relative path that stays below the working folder is kept, and so are URLs.
    """
    text = text.replace("file://", "")
    home = str(Path.home())
    if len(home) > 1:
        text = re.sub(re.escape(home) + r"(?![\w.-])", "~", text)
    path = PureWindowsPath(text) if "\\" in text else PurePosixPath(text)
    from_home = len(path.parts) > 1 and path.parts[0].startswith("~")
    if path.is_absolute() or from_home or ".." in path.parts:
        return path.name or "."
    return FOLDERS.sub("", text)


def portable_command(command: str | Sequence[str]) -> str:
    words = shlex.split(command) if isinstance(command, str) else list(command)
    joined = shlex.join(_word(word) for word in words)
    return joined.encode(errors="backslashreplace").decode()  # a file's name may be any bytes


def _word(word: str) -> str:
    option, equals, value = word.partition("=")
    return f"{option}={portable(value)}" if equals and option[:1] == "-" else portable(word)
