"""Memory that a process holds now, and whether it grows from call to call."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

STATM = Path("/proc/self/statm")  # pages: size, resident, ...


def resident_bytes() -> int | None:
    """Of this process; None where the system does not tell."""
    if STATM.exists():
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if sys.platform == "win32":
        return None
    command = ["ps", "-o", "rss=", "-p", str(os.getpid())]  # kB, on macOS too
    try:
        answer = subprocess.check_output(command, text=True, timeout=20)
        return int(answer) * 1024
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def slope(calls: Sequence[int], held: Sequence[int]) -> float | None:
    """Bytes a call, by least squares; None of fewer than two readings."""
    if len(calls) < 2:
        return None
    return float(np.polyfit(np.array(calls, float), np.array(held, float), 1)[0])
