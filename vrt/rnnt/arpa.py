"""The ARPA file format of back-off n-grams, read with errors that name the line.

    \\data\\
    ngram 1=4
    ngram 2=2

    \\1-grams:
    -0.7 <s> -0.3        log10 probability, n-gram, log10 back-off weight (0 where there is none)
    ...
    \\2-grams:
    ...
    \\end\\

A reader of its own, of a format of one page, because of what the libraries give: `kenlm` (0.3.0)
is compiled from source on installation and answers for one word at a time, not for a row of all of
them; `arpa` (0.1.0b4, a beta of 2018) splits tokens at any Unicode white space, which token ids
written as characters contain. Format: SRILM's ngram-format(5).
"""

import gzip
import io
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import NamedTuple

KENLM_BINARY = b"mmap lm http://kheafield.com/code"


class ArpaError(ValueError):
    """A file that is no ARPA n-gram, or is damaged; says file, line and what was expected."""


class Entry(NamedTuple):
    """One n-gram: probability and back-off weight as the file has them, log10."""

    line: int
    symbols: tuple[str, ...]
    log_prob: float
    backoff: float


def read_arpa(path: str | Path) -> list[list[Entry]]:
    """The n-grams of order 1, 2, ...; plain or gzip, whatever the file is called.

    Raises:
        ArpaError: a header that is not there, counts that are not kept, a number that is none, a
            probability above 1, an n-gram given twice, no `\\end\\`.
        OSError: a file that cannot be read.
    """
    path = Path(path)
    with path.open("rb") as file:
        head = file.read(len(KENLM_BINARY))
    if head == KENLM_BINARY:
        raise ArpaError(f"{path} is a KenLM binary; give the ARPA file that it was built from")
    try:
        with _text(path, head) as file:
            return _Lines(path, file).orders()
    except UnicodeDecodeError as error:
        raise ArpaError(f"{path} is not UTF-8 text: {error}") from error
    except (EOFError, gzip.BadGzipFile) as error:
        raise ArpaError(f"{path} is a damaged gzip file: {error}") from error


def _text(path: Path, head: bytes) -> io.TextIOWrapper:
    # newline="\n": a token may be a character that Python takes for the end of a line.
    if head[:2] == b"\x1f\x8b":
        return gzip.open(path, "rt", encoding="utf-8", newline="\n")
    return path.open(encoding="utf-8", newline="\n")


@dataclass
class _Lines:
    path: Path
    file: io.TextIOWrapper
    number: int = 0

    def orders(self) -> list[list[Entry]]:
        self._until_data()
        counts, line = self._counts()
        orders: list[list[Entry]] = []
        for order, count in enumerate(counts, start=1):
            if line != f"\\{order}-grams:":
                raise self._error(f"expected \\{order}-grams:, found {line!r}")
            entries, line = self._section(order)
            if len(entries) != count:
                raise self._error(
                    f"the header says {count} {order}-grams, the file has {len(entries)}"
                )
            orders.append(entries)
        if line != "\\end\\":
            raise self._error(f"expected \\end\\ after the last n-gram, found {line!r}")
        return orders

    def _next(self) -> str:
        """The next line that is not blank. Only ASCII white space is cut."""
        for line in self.file:
            self.number += 1
            if line := line.strip(" \t\r\n"):
                return line
        raise self._error("ends without \\end\\: the file was cut short")

    def _error(self, what: str) -> ArpaError:
        return ArpaError(f"{self.path}, line {self.number}: {what}")

    def _until_data(self) -> None:
        """What stands before `\\data\\` is a comment."""
        for line in self.file:
            self.number += 1
            if line.strip(" \t\r\n") == "\\data\\":
                return
        raise ArpaError(f"{self.path} has no line \\data\\: it is no ARPA n-gram")

    def _counts(self) -> tuple[list[int], str]:
        """Number of n-grams of each order, and the line after the header."""
        counts: list[int] = []
        while (line := self._next()).startswith("ngram "):
            order, _, count = line.removeprefix("ngram ").partition("=")
            if order.strip() != str(len(counts) + 1) or not count.strip().isdecimal():
                raise self._error(f"expected 'ngram {len(counts) + 1}=COUNT', found {line!r}")
            counts.append(int(count))
        if not counts:
            raise self._error(f"expected 'ngram 1=COUNT', found {line!r}")
        return counts, line

    def _section(self, order: int) -> tuple[list[Entry], str]:
        """Entries up to the next line that begins with a backslash, and that line."""
        entries: list[Entry] = []
        lines: dict[tuple[str, ...], int] = {}
        while not (line := self._next()).startswith("\\"):
            entry = self._entry(line, order)
            if entry.symbols in lines:
                spelled = " ".join(entry.symbols)
                raise self._error(f"{order}-gram {spelled!r} is in line {lines[entry.symbols]} too")
            lines[entry.symbols] = self.number
            entries.append(entry)
        return entries, line

    def _entry(self, line: str, order: int) -> Entry:
        first, *rest = _fields(line)
        if len(rest) not in (order, order + 1):
            raise self._error(
                f"a {order}-gram is a number, {order} tokens, and a back-off weight or none;"
                f" found {line!r}"
            )
        log_prob, backoff = self._value(first), 0.0
        if len(rest) > order:
            backoff = self._value(rest.pop())
        if log_prob > 0:
            raise self._error(f"log10 probability {first} is above 0: probability above 1")
        return Entry(self.number, tuple(rest), log_prob, backoff)

    def _value(self, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise self._error(f"expected a number, found {text!r}") from None
        if not isfinite(value):
            raise self._error(f"expected a finite number, found {text!r}; log10 of 0 is -99")
        return value


def _fields(line: str) -> Iterator[str]:
    return (part for part in line.replace("\t", " ").split(" ") if part)
