"""Numbers in a document that are references to a receipt's key, and are rendered from it.

    [5.0](data/receipts/bench-beam.json "comparisons/case=beam 8, B=1/better .1f")

A Markdown link: its text is the number, its target the receipt, seen from the document's folder,
its title the key (see `keys`) or `KEY over KEY`, perhaps one change (`1/x`, `*100`, `/1e6`), and a
format as Python has it. Code blocks and code spans hold examples and no citations.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vrt.receipt.keys import value_at
from vrt.receipt.plain import ReceiptError
from vrt.receipt.record import Receipt

LINK = re.compile(
    r'\[(?P<shown>[^\[\]\n]*)\]\((?P<target>[^()\s"]+\.json)\s+"(?P<title>[^"\n]*)"\)'
)
TITLE = re.compile(
    r"(?P<key>\S.*?)(?: over (?P<below>\S.*?))?"
    r"(?: (?P<change>1/x|[*/][\d.]+(?:e[+-]?\d+)?))? (?P<form>\S+)"
)
FORM = re.compile(r"\+?,?(\.\d+)?[defg%]|s")
CODE = re.compile(
    r"^ *(?P<fence>```+|~~~+)(?s:.*?)^ *(?P=fence)[ \t]*$"
    r"|(?P<tick>`+)(?!`)(?:(?!\n\s*\n)(?s:.))*?(?<!`)(?P=tick)(?!`)",
    re.MULTILINE,
)


class CitationError(ReceiptError):
    """A citation that cannot be rendered; the message names document, line and cause."""


@dataclass(frozen=True)
class Citation:
    """One number of a document. `span`: where its text stands; `line` counts from 1."""

    line: int
    span: tuple[int, int]
    shown: str
    target: str  # the receipt, seen from the document's folder
    title: str

    def current(self, receipt: Receipt) -> str:
        """The text that `receipt` gives.

        Raises `ReceiptError`: the title is not of the form, the key leads to no number, or the
        format does not fit.
        """
        parts = TITLE.fullmatch(self.title)
        if parts is None or not FORM.fullmatch(parts["form"]):
            raise ReceiptError(
                f'the title "{self.title}" is no key and format, as "part/wer_percent .1f"'
            )
        value = value_at(receipt.numbers, parts["key"])
        if parts["below"]:
            value = _divided(value, value_at(receipt.numbers, parts["below"]))
        if parts["change"]:
            value = _changed(value, parts["change"])
        return _formatted(value, parts["form"])


def without_code(text: str) -> str:
    """`text` of the same length, code blocks and spans blanked out."""
    return CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def find(text: str) -> Iterator[Citation]:
    """The citations of a Markdown document, in order."""
    for link in LINK.finditer(without_code(text)):
        line = text.count("\n", 0, link.start()) + 1
        yield Citation(line, link.span("shown"), link["shown"], link["target"], link["title"])


def render(document: Path) -> tuple[str, list[str]]:
    """The document with every citation as its receipt has it, and a line for each that was not.

    Raises:
        CitationError: a receipt is missing or was changed after it was sealed, it has no such
            key, or the format does not fit.
    """
    text = _read(document)
    receipts: dict[str, Receipt] = {}
    pieces, stale, at = [], [], 0
    for citation in find(text):
        where = f"{document}:{citation.line}"
        now = _current(citation, document.parent, receipts, where)
        if now != citation.shown:
            stale.append(f"{where}: {citation.shown!r} is {now!r} in {_name(citation)}")
        start, end = citation.span
        pieces += [text[at:start], now]
        at = end
    return "".join([*pieces, text[at:]]), stale


def _read(document: Path) -> str:
    """Line ends stay as they are."""
    try:
        return document.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise CitationError(f"{document} is not UTF-8: {error.reason}") from error


def _current(citation: Citation, folder: Path, receipts: dict[str, Receipt], where: str) -> str:
    try:
        if citation.target not in receipts:
            receipts[citation.target] = Receipt.load(folder / citation.target)
        return citation.current(receipts[citation.target])
    except ReceiptError as error:
        raise CitationError(f"{where}: {citation.target}: {error}") from error


def _name(citation: Citation) -> str:
    return f"{Path(citation.target).name} ({citation.title})"


def _changed(value: Any, change: str) -> int | float:
    if change == "1/x":
        return _divided(1.0, value)
    factor = float(change[1:])
    return _number(value) * factor if change.startswith("*") else _divided(value, factor)


def _divided(value: Any, by: Any) -> int | float:
    if _number(by) == 0:
        raise ReceiptError(f"{value!r} would be divided by 0")
    return _number(value) / by


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ReceiptError(f"the key leads to {_kind(value)}, no number to calculate with")
    return value


def _formatted(value: Any, form: str) -> str:
    """`value` by `form`; an exponent without the zeros that Python puts before it: 7.2e-7."""
    if isinstance(value, bool | dict | list) or value is None:
        raise ReceiptError(f"the key leads to {_kind(value)}, no number to show")
    # z: what is rounded to 0 has no sign.
    spec = re.sub(r"^\+?", r"\g<0>z", form) if isinstance(value, float) else form
    try:
        text = format(value, spec)
    except ValueError as error:
        raise ReceiptError(f"the format {form!r} does not fit {value!r}") from error
    if isinstance(value, str):
        return text
    return re.sub(r"e([+-])0*(?=\d)", lambda sign: "e" + sign[1].strip("+"), text)


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return f"a part with {', '.join(list(value)[:8])}"
    return f"a list of {len(value)}" if isinstance(value, list) else repr(value)
