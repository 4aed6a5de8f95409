"""JSON configuration files, read key by key: a complaint names the file, the key and the value."""

import json
import sys
from pathlib import Path
from typing import Any

LFS_POINTER = b"version https://git-lfs"
ABSENT = object()


class CheckpointError(ValueError):
    """A checkpoint that this engine cannot load, with the reason and the way out."""


class Fields:
    """One JSON object of a configuration; `where` is its place, for complaints.

    A missing key takes its value from `defaults`; without one there it is refused.
    """

    def __init__(self, where: str, content: dict[str, Any], defaults: dict[str, Any] | None = None):
        self.where, self.content, self.defaults = where, content, defaults or {}

    def get(self, key: str) -> Any:
        value = self.content.get(key, self.defaults.get(key, ABSENT))
        if value is ABSENT:
            raise CheckpointError(f"{self.where} has no {key}, and no default of it is safe")
        return value

    def whole(self, key: str) -> int:
        """A positive whole number; some files hold it as text."""
        value = self.get(key)
        number = int(value) if isinstance(value, str) and value.isdecimal() else value
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise CheckpointError(f"{self.where}.{key} is {value!r}, not a positive whole number")
        return number

    def real(self, key: str) -> float:
        value = self.get(key)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < value <= sys.float_info.max:
            raise CheckpointError(f"{self.where}.{key} is {value!r}, not a positive number")
        return float(value)

    def section(self, key: str, defaults: dict[str, Any] | None = None) -> "Fields":
        """An object inside this one; absent or null counts as empty where there are defaults."""
        value = self.content.get(key)
        if value is None and defaults is not None:
            value = {}
        if not isinstance(value, dict):
            raise CheckpointError(f"{self.where}.{key} is {value!r}, not an object")
        return Fields(f"{self.where}.{key}", value, defaults)

    def insist(self, key: str, *allowed: Any) -> None:
        """Refuse a setting that the engine does not have; an absent key is fine."""
        value = self.content.get(key, allowed[0])
        if value not in allowed:
            raise CheckpointError(
                f"{self.where}.{key} is {value!r}; this engine knows"
                f" {' and '.join(map(repr, allowed))} only"
            )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises `CheckpointError` where the file is anything else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path} is not readable as JSON ({error}){lfs_hint(path)}"
        ) from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds a JSON {type(content).__name__}, not an object")
    return content


def lfs_hint(path: Path) -> str:
    """What to do about a file that `git clone` left as a pointer; nothing for other files."""
    with path.open("rb") as file:
        pointer = file.read(len(LFS_POINTER)) == LFS_POINTER
    return "; it is a Git LFS pointer: get the file with `git lfs pull`" if pointer else ""
