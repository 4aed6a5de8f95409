"""Notebooks by name: `03`, `3`, `how-large-a-ring` or a path all find one file."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

NUMBERED = re.compile(r"(\d+)-(.+)")  # 03-how-large-a-ring


class NotebookError(ValueError):
    """A notebook that is not there, cannot be read, or takes other parameters than were given."""


def notebooks_dir() -> Path:
    """The folder `notebooks` of the checkout that this package is part of.

    Raises `NotebookError` where the package was installed without one.
    """
    folder = Path(__file__).resolve().parents[2] / "notebooks"
    if not folder.is_dir():
        raise NotebookError("this vrt was installed without notebooks; name a notebook's file")
    return folder


def all_notebooks(folder: Path) -> list[Path]:
    """In reading order: by number, then by name."""
    files = [file for file in folder.glob("*.ipynb") if not file.name.startswith(".")]
    return sorted(files, key=lambda file: (_number(file.stem), file.stem))


def find_notebook(name: str, folder: Path | None = None) -> Path:
    """The file `name`, else the notebook of `folder` with this number, slug or part of a slug.

    `folder` is the checkout's unless given. Raises `NotebookError` where none or several fit.
    """
    if Path(name).is_file():
        return Path(name)
    known = all_notebooks(folder or notebooks_dir())
    stem = Path(name).name.removesuffix(".ipynb") if "/" not in name else name
    fitting = _fitting(stem, known)
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        both = ", ".join(file.stem for file in fitting)
        raise NotebookError(f"{name!r} could be {both}; say which")
    raise NotebookError(f"no notebook {name!r}{_nearest(stem, known)}; {_listing(known)}")


def _number(stem: str) -> int | float:
    numbered = NUMBERED.fullmatch(stem)
    return int(numbered[1]) if numbered else float("inf")


def _fitting(stem: str, known: Sequence[Path]) -> list[Path]:
    """By the strictest rule that fits any: whole name, slug, number, beginning of slug, part."""
    slugs = {file: NUMBERED.sub(r"\2", file.stem) for file in known}
    rules = (
        lambda file: file.stem == stem,
        lambda file: slugs[file] == stem,
        lambda file: stem.isdecimal() and _number(file.stem) == int(stem),
        lambda file: slugs[file].startswith(stem),
        lambda file: stem in file.stem,
    )
    found = ([file for file in known if rule(file)] for rule in rules)
    return next((files for files in found if files), [])


def _nearest(stem: str, known: Sequence[Path]) -> str:
    near = get_close_matches(stem, [file.stem for file in known], n=1, cutoff=0.4)
    return f" (did you mean {near[0]}?)" if near else ""


def _listing(known: Sequence[Path]) -> str:
    return "known: " + (", ".join(file.stem for file in known) or "none")
