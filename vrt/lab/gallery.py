"""The pictures of the README: figures of the committed notebooks, taken out of them.

python -m vrt.lab.gallery notebooks data/pictures
"""

import base64
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat

# Picture: notebook and figure, counted from 1 in the order of its outputs.
FIGURES = {
    "delay.png": ("00-start-here", 1),
    "text-grows.png": ("00-start-here", 2),
    "beam-lattice.png": ("11-one-iteration", 1),
    "greedy-against-beam.png": ("16-greedy-against-beam", 1),
}


def pictures(notebooks: Path) -> dict[str, bytes]:
    """Name and content of each picture.

    Raises:
        ValueError: a notebook has fewer figures than are asked of it.
    """
    return {name: _figure(notebooks, *place) for name, place in FIGURES.items()}


def _figure(notebooks: Path, name: str, number: int) -> bytes:
    found = list(figures(notebooks / f"{name}.ipynb"))
    if number > len(found):
        raise ValueError(f"{name} has {len(found)} figures, the gallery asks for number {number}")
    return found[number - 1]


def figures(notebook: Path) -> Iterator[bytes]:
    """The PNG outputs of a notebook."""
    for cell in nbformat.read(notebook, as_version=4)["cells"]:
        for output in cell.get("outputs", ()):
            picture = output.get("data", {}).get("image/png")
            if picture:
                yield base64.b64decode(picture)


def main(notebooks: str, folder: str) -> None:
    for name, content in pictures(Path(notebooks)).items():
        (Path(folder) / name).write_bytes(content)


if __name__ == "__main__":
    main(*sys.argv[1:])
