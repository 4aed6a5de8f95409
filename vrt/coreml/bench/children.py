"""Runs a measurement in a process of its own, which may crash, hang or be killed: that is a result.

Core ML can kill its process at the first prediction, and no exception comes of it. So a child
writes what it has measured to a file, a line of JSON a phase, as soon as it knows it; what it says
on its two outputs is not read as a result.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

# failed: it said why and gave up. garbled: it ended well, but its report is not whole.
Outcome = Literal["ok", "failed", "crashed", "timed out", "garbled"]
DONE, FAILED = "done", "failed"  # last phases of a report
TAIL = 400  # characters of what it said


@dataclass(frozen=True)
class Ended:
    """How a child ended, and the lines that it had reported until then."""

    outcome: Outcome
    why: str
    seconds: float
    exit_code: int | None  # None: it was killed by a signal
    signal: str | None
    phases: tuple[dict[str, Any], ...]

    @property
    def reached(self) -> str:
        return self.phases[-1]["phase"] if self.phases else "nothing"


def run_child(command: Sequence[str], report: Path, timeout_s: float) -> Ended:
    """Wait for the end of `command`, which writes to `report`; kill it and its own after that."""
    start = time.monotonic()
    said = report.with_suffix(".said")
    with said.open("wb") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            child.wait(timeout_s)
            late = False
        except subprocess.TimeoutExpired:
            late = True
        finally:  # also where this process is interrupted
            if child.poll() is None:
                _kill(child)
    seconds = time.monotonic() - start
    phases, unreadable = read_report(report)
    return _ended(child.returncode, late, timeout_s, seconds, phases, unreadable, _tail(said))


def _ended(
    code: int,
    late: bool,
    timeout_s: float,
    seconds: float,
    phases: tuple[dict[str, Any], ...],
    unreadable: int,
    said: str,
) -> Ended:
    name = _signal_name(code)
    last = phases[-1] if phases else {"phase": "nothing"}
    exit_code = None if name else code
    if late:
        why = f"not over after {timeout_s:g} s, killed; it had come to {last['phase']}"
        return Ended("timed out", why, seconds, exit_code, name, phases)
    if name:
        why = f"killed by {name} after {last['phase']}"
        return Ended("crashed", why, seconds, exit_code, name, phases)
    if last["phase"] == FAILED:
        return Ended("failed", str(last.get("why")), seconds, exit_code, name, phases)
    if code:
        why = f"exit code {code} after {last['phase']}: {said or 'it said nothing'}"
        return Ended("crashed", why, seconds, exit_code, name, phases)
    if unreadable or last["phase"] != DONE:
        why = f"its report ends with {last['phase']}, {unreadable} lines cannot be read"
        return Ended("garbled", why, seconds, exit_code, name, phases)
    return Ended("ok", "", seconds, exit_code, name, phases)


def read_report(file: Path) -> tuple[tuple[dict[str, Any], ...], int]:
    """Phases in order, and how many lines are none: the last one may be cut short."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return (), 0
    found, unreadable = [], 0
    for line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and isinstance(value.get("phase"), str):
            found.append(value)
        else:
            unreadable += 1
    return tuple(found), unreadable


def _kill(child: subprocess.Popen) -> None:
    """The child, and what it started: Core ML's compilers among them."""
    if sys.platform == "win32":
        child.kill()
    else:
        try:
            os.killpg(child.pid, signal.SIGKILL)  # a session of its own: its group has its id
        except ProcessLookupError:
            pass
        except PermissionError:  # macOS says so of a group whose last process is a zombie
            child.kill()
    child.wait()


def _signal_name(code: int) -> str | None:
    if code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _tail(said: Path) -> str:
    text = said.read_text(encoding="utf-8", errors="replace").strip()
    return " ".join(text[-TAIL:].split())
