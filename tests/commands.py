"""Commands as a user types them, and what a complaint has to look like."""

import shutil
from pathlib import Path

from typer.testing import CliRunner

from vrt.cli import app
from vrt.paths import data_dir


def run(*arguments, **options):
    return CliRunner().invoke(app, [str(a) for a in arguments], **options)


def fails(result, code, *mentions):
    """One line on stderr that names these, and no traceback."""
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    lines = [line for line in result.stderr.splitlines() if "random weights" not in line]
    said = [line for line in lines if all(str(m) in line for m in mentions)]
    assert said, result.stderr
    assert "Traceback" not in result.output
    return lines


def random_tiny(folder: Path) -> Path:
    """A copy that a test may spoil."""
    return shutil.copytree(data_dir() / "models" / "random-tiny", folder)


def without_vocabulary(folder: Path) -> Path:
    """random-tiny as ids only."""
    (random_tiny(folder) / "tekken.json").unlink()
    return folder
