"""What notebooks read without naming a folder: receipts and golden files that vrt comes with."""

from difflib import get_close_matches
from pathlib import Path

from vrt.golden.errors import GoldenError
from vrt.golden.malsd_format import MalsdGolden, read
from vrt.paths import data_dir
from vrt.receipt import Receipt, ReceiptError


def receipt(name: str) -> Receipt:
    """The committed receipt `name`, such as "quality-beam".

    Raises `ReceiptError` where there is none, naming the nearest and where receipts are.
    """
    file = data_dir() / "receipts" / f"{name}.json"
    if not file.is_file():
        raise ReceiptError(f"no receipt {name!r}{_known(file)}; receipts are in a checkout only")
    return Receipt.load(file)


def golden(name: str) -> MalsdGolden:
    """The beam search's golden file `name`, such as "malsd-merge-sums".

    Raises `GoldenError` where there is none, naming the nearest.
    """
    file = data_dir() / "golden" / f"{name}.json"
    if not file.is_file():
        raise GoldenError(f"no golden file {name!r}{_known(file)}")
    return read(file)


def _known(file: Path) -> str:
    names = sorted(other.stem for other in file.parent.glob("*.json"))
    near = get_close_matches(file.stem, names, n=1, cutoff=0.4)
    return f" (did you mean {near[0]}?)" if near else ""


def golden_files(kind: str) -> list[Path]:
    """All golden files of a kind, "malsd" or "voxtral", by name."""
    folder = data_dir() / "golden"
    return sorted(file for file in folder.iterdir() if file.name.startswith(f"{kind}-"))
