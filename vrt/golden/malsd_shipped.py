"""`python -m vrt.golden.malsd_shipped FOLDER` makes the shipped malsd files again, by NeMo."""

import sys
from pathlib import Path

from vrt.golden.malsd_make import MalsdOracle, make_malsd
from vrt.golden.malsd_recipes import recipes


def make_shipped_malsd(folder: Path, oracle: MalsdOracle = "nemo") -> list[Path]:
    """Write every shipped file; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for recipe in recipes():
        paths.append(folder / f"{recipe.name}.json")
        about = make_malsd(paths[-1], recipe, oracle)
        size, ties = paths[-1].stat().st_size, "ties" if about["tie_sensitive"] else ""
        print(f"{paths[-1].name:40} {size:9,} bytes  {about['stats']} {ties}")
    return paths


if __name__ == "__main__":
    make_shipped_malsd(Path(sys.argv[1]))
