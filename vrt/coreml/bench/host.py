"""The machine of a sweep beyond its receipt's own lines: model, build, heat, power."""

import platform
import subprocess
from typing import Any

from vrt.receipt.machine import describe_device

THERMAL = ("nominal", "fair", "serious", "critical")  # ProcessInfo.ThermalState, 0 to 3
THERMAL_SCRIPT = "ObjC.import('Foundation'); $.NSProcessInfo.processInfo.thermalState"


def describe_host() -> dict[str, Any]:
    """`hardware`, `os_build`, `thermal_state`, `power`; None where this system does not tell."""
    apple = platform.system() == "Darwin"
    return {
        "hardware": (_told("sysctl", "-n", "hw.model") if apple else None)
        or describe_device()["cpu"],
        "os": f"macOS {platform.mac_ver()[0]}" if apple else platform.system(),
        "os_build": _told("sw_vers", "-buildVersion") if apple else None,
        "thermal_state": thermal_state() if apple else None,
        "power": _told("pmset", "-g", "batt") if apple else None,
    }


def thermal_state() -> str | None:
    """As macOS tells its processes."""
    answer = _told("osascript", "-l", "JavaScript", "-e", THERMAL_SCRIPT)
    if answer is None or not answer.isdecimal() or int(answer) >= len(THERMAL):
        return None
    return THERMAL[int(answer)]


def _told(*command: str) -> str | None:
    """The first line of what a command of macOS says; None where it fails."""
    try:
        said = subprocess.check_output(command, text=True, timeout=20, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return None
    return said.strip().partition("\n")[0] or None
