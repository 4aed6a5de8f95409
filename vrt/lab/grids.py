"""Many runs of one notebook: every combination of a few values, or the lines of a file.

A file is a table with one column a parameter (.csv, .tsv), or one JSON object a line (.jsonl).
"""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from vrt.lab.notebooks import NotebookError
from vrt.lab.parameters import Parameter, checked, typed

SEPARATORS = {".csv": ",", ".tsv": "\t"}


def axis(known: Mapping[str, Parameter], name: str, texts: str) -> list[dict[str, Any]]:
    """`name=a,b,c` as one set of parameters for each value.

    Raises `NotebookError` for a parameter that is a list: commas cannot say where one ends.
    """
    if name in known and known[name].type.startswith("list"):
        raise NotebookError(f"{name} is a list; give its values by --over FILE.jsonl")
    return [typed(known, {name: text.strip()}) for text in texts.split(",")]


def table(known: Mapping[str, Parameter], file: Path) -> list[dict[str, Any]]:
    """One set of parameters for each line of `file`.

    Raises `NotebookError` naming the line that does not fit the notebook's parameters.
    """
    rows = []
    for line, row in _lines(file):
        try:
            read = typed if file.suffix in SEPARATORS else checked
            rows.append(read(known, row))
        except NotebookError as error:
            raise NotebookError(f"{file.name}, line {line}: {error}") from error
    if not rows:
        raise NotebookError(f"{file.name} has no lines")
    return rows


def _lines(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        text = file.read_text(encoding="utf-8-sig")  # Excel marks its files
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise NotebookError(f"{file} cannot be read: {why}") from error
    if file.suffix in SEPARATORS:
        rows = csv.DictReader(text.splitlines(), delimiter=SEPARATORS[file.suffix])
        names = rows.fieldnames or []
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise NotebookError(f"{file.name} names {twice} twice")
        for line, row in enumerate(rows, start=2):
            if None in row or None in row.values():
                raise NotebookError(f"{file.name}, line {line}: as many values as names, please")
            yield line, row
    elif file.suffix == ".jsonl":
        for line, item in enumerate(text.splitlines(), start=1):
            yield line, _object(file, line, item)
    else:
        kinds = ", ".join([*SEPARATORS, ".jsonl"])
        raise NotebookError(f"{file.name} is none of {kinds}")


def _object(file: Path, line: int, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise NotebookError(f"{file.name}, line {line} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise NotebookError(f"{file.name}, line {line} is no JSON object")
    return value


def combined(axes: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Every combination, the last axis fastest; without axes one run at default parameters.

    Raises `NotebookError` where two axes set the same parameter.
    """
    names = [name for axis in axes for name in {key: None for row in axis for key in row}]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise NotebookError(f"{twice} is given twice; let one of -p, --grid and --over set it")
    return [{k: v for part in parts for k, v in part.items()} for parts in product(*axes)]
