"""What a run ran on: the code's commit, the versions installed, the device.

Nothing here names the machine, its user or a folder.
"""

import os
import platform
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    "vrt",
    "numpy",
    "torch",
    "transformers",
    "mistral-common",
    "safetensors",
    "jaxtyping",
    "soundfile",
    "soxr",
    "scipy",
    "numba",
    "altair",
    "coremltools",
    "nemo_toolkit",
)


def installed_versions() -> dict[str, str]:
    """Python and those of `PACKAGES` that are installed; none is imported."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def commit_of(file: Path) -> tuple[str | None, bool | None]:
    """The commit that `file` belongs to, and whether anything in its folder differs from it.

    None, None outside a git checkout, and where git does not track `file`: a package installed
    inside another project's checkout is not that project's commit.
    """
    folder = file.resolve().parent
    if _git(folder, "ls-files", "--error-unmatch", file.name) is None:
        return None, None
    commit = _git(folder, "rev-parse", "--verify", "HEAD")
    if commit is None:  # tracked, but nothing committed yet
        return None, None
    return commit, _git(folder, "status", "--porcelain", "--", ".") != ""


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def describe_device() -> dict[str, Any]:
    """Processor, cores, threads, memory, system and, where the run has used one, accelerator."""
    affinity = getattr(os, "sched_getaffinity", None)  # absent on macOS
    torch = sys.modules.get("torch")
    device: dict[str, Any] = {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "cores_usable": len(affinity(0)) if affinity else os.cpu_count(),
        "threads": torch.get_num_threads() if torch else None,
        "ram_bytes": _ram_bytes(),
        "system": platform.system(),
        "system_release": _numeric(platform.release()),
        "architecture": platform.machine(),
    }
    if torch and torch.cuda.is_available() and torch.cuda.is_initialized():
        device["accelerator"] = torch.cuda.get_device_name()
    elif torch and torch.backends.mps.is_available():
        device["accelerator"] = "mps"
    return device


def _numeric(release: str) -> str:
    """6.8.0 of 6.8.0-ours-17: the rest can name a private build."""
    return re.match(r"[\d.]*", release).group()


def _cpu_model() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return _sysctl("machdep.cpu.brand_string") or platform.processor() or platform.machine()


def _ram_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        answer = _sysctl("hw.memsize")
        return int(answer) if answer else None


def _sysctl(name: str) -> str | None:
    """An answer of macOS; None elsewhere."""
    if platform.system() != "Darwin":
        return None
    try:
        return subprocess.check_output(["sysctl", "-n", name], text=True, timeout=20).strip()
    except (OSError, subprocess.SubprocessError):
        return None
