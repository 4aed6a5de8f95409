"""The form that every notebook keeps: question, answer, parameters, figures, checks, limits."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat

from vrt.lab.checks import checks_of
from vrt.lab.normal import normalised
from vrt.lab.notebooks import NotebookError
from vrt.lab.parameters import TAG, parameters_of

NAME = re.compile(r"\d\d-[a-z0-9]+(-[a-z0-9]+)*")
MOST_LINES, MOST_DEF = 15, 3
LIMITS = "## What this does not show"
PATH = re.compile(r"^(?:[\w.~-]*/)+[\w.-]*$")  # a string that is nothing but folders and a name
TYPED = re.compile(r"\d+\.\d+|\d\s?(?:%|ms\b|MB\b|GB\b)")  # a measured number written by hand
GITHUB_REFUSES = ("application/vnd.vegalite", "application/vnd.jupyter.widget")


def complaints(file: Path) -> list[str]:
    """What is wrong with a notebook's form, in words; empty where nothing is."""
    text = file.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    found = [] if NAME.fullmatch(file.stem) else [f"{file.name} is not NN-slug.ipynb"]
    found += _head(notebook) + _parameters(notebook) + _end(notebook)
    for number, cell in enumerate(notebook["cells"]):
        before = notebook["cells"][number - 1]["cell_type"] if number else None
        found += [f"cell {number}: {what}" for what in _cell(cell, before)]
    if not found and normalised(notebook)[0] != text:
        found.append("the file is not as vrt run writes it")
    return found


def _head(notebook) -> list[str]:
    first = notebook["cells"][0]
    lines = [line for line in first["source"].splitlines() if line.strip()]
    if first["cell_type"] != "markdown" or not lines[0].startswith("# "):
        return ["the first cell is no title"]
    found = [] if lines[0].endswith("?") else [f"the title is no question: {lines[0]}"]
    answer = lines[1] if len(lines) > 1 else ""
    if not answer.endswith(".") or answer.startswith("#"):
        found.append(f"the second line is no answer: {answer!r}")
    return found


def _parameters(notebook) -> list[str]:
    if TAG not in notebook["cells"][1]["metadata"].get("tags", ()):
        return [f"the second cell is not tagged {TAG!r}"]
    try:
        known = parameters_of(notebook)
    except NotebookError as error:
        return [str(error)]
    found = [f"parameter {p.name} has no comment" for p in known.values() if not p.comment]
    if "fast" not in known or known["fast"].default is not False:
        found.append("there is no parameter fast: bool = False")
    return found


def _end(notebook) -> list[str]:
    last, checks = notebook["cells"][-1], checks_of(notebook)
    found = [] if last["source"].startswith(LIMITS) else [f"the last cell is not {LIMITS!r}"]
    found += [] if checks else ["nothing is checked"]
    found += [f"a check fails: {check.claim}" for check in checks if not check.ok]
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    counts = [cell["execution_count"] for cell in code]
    if counts != list(range(1, len(code) + 1)):
        found.append(f"the outputs are not those of one run from top to bottom: {counts}")
    return found


def _cell(cell, before: str | None) -> Iterator[str]:
    if cell["cell_type"] == "markdown":
        prose = re.sub(r"`[^`]*`|\$[^$]*\$|\([^()]*\d{4}\)", "", cell["source"])
        yield from (f"a number is typed: {m.group()}" for m in TYPED.finditer(prose))
        return
    lines = [line for line in cell["source"].splitlines() if line.strip()]
    if len(lines) > MOST_LINES:
        yield f"{len(lines)} lines of code, {MOST_LINES} at most"
    yield from _code(cell["source"])
    yield from _outputs(cell["outputs"], before)


def _code(source: str) -> Iterator[str]:
    if re.search(r"^\s*[%!]|pip install", source, re.MULTILINE):
        yield "a magic or an installation"
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            yield f"class {node.name} belongs into vrt"
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= MOST_DEF:
            yield f"def {node.name} is longer than {MOST_DEF} lines"
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and PATH.match(node.value)
        ):
            yield f"a path: {node.value!r}"


def _outputs(outputs, before: str | None) -> Iterator[str]:
    for output in outputs:
        data = output.get("data", {})
        if output["output_type"] == "error":
            yield f"an error: {output['ename']}"
        if any(mime.startswith(GITHUB_REFUSES) for mime in data):
            yield "an output that GitHub does not show"
        is_chart = str(data.get("text/plain", "")).startswith("alt.")
        if is_chart and "image/png" not in data:
            yield "a chart without its picture; call vrt.lab.begin() first"
        if "image/png" in data and before != "markdown":
            yield "a figure without a sentence before it"
