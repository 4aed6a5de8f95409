"""Where shipped recordings, golden files and small models lie, in a checkout and in an install."""

from pathlib import Path


def data_dir() -> Path:
    """The folder that holds `MANIFEST.json`, `audio/`, `golden/` and `models/`.

    An installed wheel carries it as `vrt/data`; a checkout keeps it beside the package. The
    manifest is looked for by name, since a stranger's `data` may lie beside an installed package.

    Raises:
        FileNotFoundError: neither place holds a manifest.
    """
    package = Path(__file__).resolve().parent
    places = (package / "data", package.parent / "data")
    for place in places:
        if (place / "MANIFEST.json").is_file():
            return place
    raise FileNotFoundError(
        f"no MANIFEST.json in {places[0]} or {places[1]}; "
        "reinstall vrt, or run it from a complete checkout"
    )
