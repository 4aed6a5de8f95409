"""A receipt: what ran, on which device, over which inputs, and the numbers it gave.

Names of values carry their unit: `step_p50_ms`, `ram_bytes`, `real_time_factor`. No path of the
machine, host name or user name is written: files appear by name and digest.
"""

import hashlib
import html
import json
import math
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vrt.receipt.machine import commit_of, describe_device, installed_versions
from vrt.receipt.plain import ReceiptError, plain, portable_command, rounded

SCHEMA = 1
PACKAGE = Path(__file__).parents[1] / "__init__.py"


@dataclass(frozen=True)
class Receipt:
    """One recorded run. `begin` before the work, `end` after it, then `write`.

    `dirty` tells that files of the package differ from `commit`; both are None outside a git
    checkout. `digests` are sha256 by name. `seal` is the sha256 of all other fields: it shows a
    number edited by hand or a file damaged on its way, and is no signature.
    """

    command: str
    parameters: dict[str, Any]
    commit: str | None
    dirty: bool | None
    versions: dict[str, str]
    device: dict[str, Any]
    started: str  # UTC, ISO 8601
    ended: str | None = None
    digests: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)
    schema: int = SCHEMA
    seal: str | None = None

    @classmethod
    def begin(
        cls,
        parameters: Mapping[str, Any],
        command: str | Sequence[str] | None = None,
    ) -> "Receipt":
        """Start the clock and describe the machine; `command` is this process's unless given."""
        commit, dirty = commit_of(PACKAGE)
        return cls(
            command=portable_command(sys.argv if command is None else command),
            parameters=plain(parameters, "parameters"),
            commit=commit,
            dirty=dirty,
            versions=installed_versions(),
            device=describe_device(),
            started=_now(),
        )

    def end(
        self, numbers: Mapping[str, Any], digests: Mapping[str, str] | None = None
    ) -> "Receipt":
        """The finished receipt: floats of `numbers` rounded to 7 digits, sealed.

        Raises `ReceiptError` for NaN or Inf and for values that JSON has no form for.
        """
        done = replace(
            self,
            ended=_now(),
            numbers=rounded(plain(numbers, "numbers")),
            digests=plain(digests or {}, "digests"),
        )
        return replace(done, seal=done._own_digest())

    def verify(self) -> None:
        """Raise `ReceiptError` unless the content is what was sealed."""
        if self.seal is None:
            raise ReceiptError(f"the receipt of {self.command!r} was never ended; call end first")
        found = self._own_digest()
        if found != self.seal:
            raise ReceiptError(
                f"the receipt of {self.command!r} was changed after it was written: sealed "
                f"{self.seal[:12]}, content {found[:12]}; run the command again"
            )

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write as JSON, keys in one order; a reader never sees half a file."""
        self.verify()
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(_ordered(asdict(self)), indent=2, ensure_ascii=False, allow_nan=False)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)  # mkstemp's files are for the owner only
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Receipt":
        """Read and verify a receipt.

        Raises `ReceiptError` for a missing, truncated or edited file, another schema, fields that
        are missing or unknown, and names that are there twice.
        """
        name = Path(path).name
        try:
            content = _parsed(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise ReceiptError(f"{path} cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:  # also UnicodeDecodeError
            raise ReceiptError(
                f"{name} is truncated or not JSON that a receipt may hold: {error}"
            ) from error
        _check_fields(content, {f.name for f in fields(cls)}, name)
        receipt = cls(**content)
        receipt.verify()
        return receipt

    def _own_digest(self) -> str:
        try:
            content = asdict(self)
            del content["seal"]
            text = json.dumps(content, sort_keys=True, ensure_ascii=True, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ReceiptError(
                f"the receipt of {self.command!r} holds what JSON has no form for: {error}"
            ) from error
        return hashlib.sha256(text.encode()).hexdigest()

    def _repr_html_(self) -> str:
        commit = f"{(self.commit or 'none')[:12]}{' (changed)' if self.dirty else ''}"
        top = {"command": self.command, "commit": commit, "started": self.started}
        rows = [*top.items(), *_flat(self.device, "device"), *_flat(self.numbers, "")]
        cells = (
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(str(value))}</td></tr>"
            for name, value in rows
        )
        return f"<table>{''.join(cells)}</table>"


def _check_fields(content: object, known: set[str], name: str) -> None:
    if not isinstance(content, dict):
        raise ReceiptError(f"{name} holds a {type(content).__name__}, not a receipt")
    schema = content.get("schema")
    if schema != SCHEMA:
        raise ReceiptError(f"{name} has schema {schema!r}; this version of vrt reads {SCHEMA}")
    missing, unknown = sorted(known - content.keys()), sorted(content.keys() - known)
    if missing or unknown:
        raise ReceiptError(f"{name} is not a whole receipt: missing {missing}, unknown {unknown}")
    wrong = [k for k in ("parameters", "device", "numbers") if not isinstance(content[k], dict)]
    if wrong:
        raise ReceiptError(f"{name}: {wrong} should hold named values")
    if not isinstance(content["seal"], str | None):
        raise ReceiptError(f"{name}: the seal is {content['seal']!r}, not a sha256")


def _parsed(text: str) -> Any:
    return json.loads(text, parse_float=_finite, parse_constant=_finite, object_pairs_hook=_once)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number of a receipt")
    return number


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A reader that takes the first of two equal names would see other numbers than the seal."""
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = next(name for name, count in Counter(n for n, _ in pairs).items() if count > 1)
        raise ValueError(f"{twice!r} is there twice")
    return content


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _ordered(content: dict[str, Any]) -> dict[str, Any]:
    """Fields as declared; the names inside them by alphabet."""
    return {name: _sorted(value) for name, value in content.items()}


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _flat(value: Any, name: str) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [row for key in value for row in _flat(value[key], f"{name} {key}".strip())]
    return [(name, value)]
