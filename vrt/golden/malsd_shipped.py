"""The malsd files in `data/golden`, made again: `vrt golden make malsd FOLDER`."""

from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path

from vrt.golden.errors import GoldenError
from vrt.golden.malsd_make import MalsdOracle, make_malsd
from vrt.golden.malsd_recipes import recipes


def make_malsd_files(
    folder: str | PathLike[str], oracle: MalsdOracle = "nemo", names: Iterable[str] = ()
) -> Iterator[Path]:
    """Write all shipped files, or those named, and tell the path of each as it is done.

    The same oracle gives the same bytes. Raises `GoldenError` for a name that is none, or where the
    oracle is not installed.
    """
    wanted, known = list(names), {recipe.name: recipe for recipe in recipes()}
    strange = [name for name in wanted if name not in known]
    if strange:
        raise GoldenError(f"no malsd problem is called {strange[0]}; there are {', '.join(known)}")
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in wanted or known:
        path = Path(folder) / f"{name}.json"
        make_malsd(path, known[name], oracle)
        yield path
