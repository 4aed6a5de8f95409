"""What every test shares: one thread, seeds that do not wander, no network, and the folders."""

import os
import subprocess
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
torch.set_num_threads(1)

# No deadline and no check of speed: a shared core is slow at times, which no test is about.
SLOW = [HealthCheck.too_slow]
settings.register_profile("vrt", deadline=None, derandomize=True, suppress_health_check=SLOW)
settings.load_profile("vrt")


@pytest.fixture(scope="session")
def repo_root() -> Path:
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def source_files(repo_root: Path) -> list[Path]:
    """Files that git tracks or would track, relative to the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    git = subprocess.run(command, cwd=repo_root, capture_output=True, text=True, check=False)
    if git.returncode != 0:
        pytest.skip(f"{repo_root} is not a git checkout")
    names = [Path(name) for name in git.stdout.split("\0") if name]
    return [name for name in names if (repo_root / name).is_file()]


@pytest.fixture(scope="session")
def speech_dir(repo_root: Path) -> Path:
    """Folder of real recordings (`librispeech/`, `fsdd/`, ...), named by VRT_SPEECH.

    A folder that was asked for and is not there is an error; without VRT_SPEECH it is a skip.
    """
    named = os.environ.get("VRT_SPEECH")
    folder = Path(named) if named else repo_root.parent / "shared" / "speech"
    if folder.is_dir():
        return folder
    if named:
        pytest.fail(f"VRT_SPEECH names {folder}, which is no folder")
    pytest.skip(f"no recordings in {folder}; set VRT_SPEECH to a folder that has them")
