"""Small notebooks that tests write, run and spoil."""

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

PARAMETERS = """\
fast: bool = False  # fewer cases
beam: int = 4  # slots, #1 is greedy
rates: list[float] = [1.0, 2.5]  # of something
name: str | None = None  # of a model
"""
CHECK = "from vrt.lab import check\n"


def write_notebook(path: Path, *code: str, parameters: str = PARAMETERS) -> Path:
    """A title, a parameters cell and cells of `code`."""
    cells = [
        new_markdown_cell("# Does it run?\n\nIt does."),
        new_code_cell(parameters, metadata={"tags": ["parameters"]}),
        *map(new_code_cell, code),
    ]
    for number, cell in enumerate(cells, start=1):
        cell["id"] = f"c{number:02d}"
    path.parent.mkdir(parents=True, exist_ok=True)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path
