"""Numbers of the documents traced to their receipts, and the receipts themselves at a glance."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from vrt.lab.devices import device_name
from vrt.lab.notebooks import notebooks_dir
from vrt.receipt import Receipt, ReceiptError, digest
from vrt.receipt.citations import find

WEIGHTS = "model.safetensors"
PATTERNS = ("README.md", "papers/*.md", "data/receipts/README.md", "data/models/*/README.md")


@dataclass(frozen=True)
class Traced:
    """A cited number: where it stands, what is shown, what its receipt gives now."""

    document: str
    line: int
    receipt: str
    key: str  # with change and format, as the citation has it
    shown: str
    now: str | None
    why: str = ""  # where there is no number now

    @property
    def ok(self) -> bool:
        return self.now == self.shown

    def __str__(self) -> str:
        found = repr(self.now) if self.now is not None else self.why
        return f"{self.document}:{self.line}: {self.shown!r} is {found} in {self.receipt}"


def documents(root: Path | None = None) -> list[Path]:
    """The README, the papers, the receipts' page and the model cards, of the checkout unless given.

    Raises `NotebookError` where the package was installed without a checkout.
    """
    folder = root or notebooks_dir().parent
    return [file for pattern in PATTERNS for file in sorted(folder.glob(pattern))]


def traced(document: Path, root: Path | None = None) -> list[Traced]:
    """Every citation of a document, as it is and as it should be. Nothing is raised for a citation
    that leads nowhere: it says why."""
    folder = root or notebooks_dir().parent
    name = document.relative_to(folder).as_posix()
    return list(_traced(document, name))


def _traced(document: Path, name: str) -> Iterator[Traced]:
    load = cache(Receipt.load)  # once a document: a receipt may be written anew at any time
    for citation in find(document.read_text(encoding="utf-8")):
        now, why = None, ""
        try:
            now = citation.current(load(document.parent / citation.target))
        except ReceiptError as error:
            why = str(error)
        stem = Path(citation.target).stem
        yield Traced(name, citation.line, stem, citation.title, citation.shown, now, why)


def receipt_rows(cited: Sequence[Traced] = (), root: Path | None = None) -> list[dict[str, Any]]:
    """A row for each committed receipt: whether its seal holds, its origin, how often it is cited.

    `weights` tells of a receipt about a model that vrt comes with whether it measured the weights
    that are there now. Where a receipt cannot be read, `seal` says why, and nothing else is told.
    """
    data = (root or notebooks_dir().parent) / "data"
    counts, files = Counter(number.receipt for number in cited), (data / "receipts").glob("*.json")
    return [_receipt_row(file, counts[file.stem], data / "models") for file in sorted(files)]


def _receipt_row(file: Path, citations: int, models: Path) -> dict[str, Any]:
    try:
        found = Receipt.load(file)  # which verifies the seal
    except ReceiptError as error:
        unknown = dict.fromkeys(("commit", "package", "weights", "device", "date"), "")
        return {"receipt": file.stem, "seal": str(error), **unknown, "cited": citations}
    state = {True: "changed", False: "as committed", None: "no checkout"}
    return {
        "receipt": file.stem,
        "seal": "holds",
        "commit": (found.commit or "none")[:7],
        "package": state[found.dirty],
        "weights": _weights(found, models),
        "device": device_name(found),
        "date": found.started[:10],
        "cited": citations,
    }


def _weights(found: Receipt, models: Path) -> str:
    name, measured = found.parameters.get("model"), found.digests.get(WEIGHTS)
    file = models / str(name) / WEIGHTS
    if not isinstance(name, str) or measured is None or not file.is_file():
        return ""
    return "shipped" if measured == digest(file) else "others"
