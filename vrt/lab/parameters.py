"""The parameters of a notebook: one tagged cell whose lines read `name: type = default  # why`.

papermill injects whatever it is given and only warns; here a wrong name or a wrong type is refused
before a kernel starts.
"""

import ast
import io
import json
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from vrt.lab.notebooks import NotebookError

TAG = "parameters"
PLAIN = {"bool": bool, "int": int, "float": float, "str": str}
TRUTH = {"true": True, "false": False}  # whatever the case


@dataclass(frozen=True)
class Parameter:
    """`type` is as written: bool, int, float or str, list[...] of one, or either with `| None`."""

    name: str
    type: str
    default: Any
    comment: str

    def __str__(self) -> str:
        return f"{self.name}: {self.type} = {self.default!r}"


def parameters_of(notebook: Mapping[str, Any]) -> dict[str, Parameter]:
    """Those that the tagged cell of a notebook (nbformat 4) declares, in order; without one none.

    Raises `NotebookError` for two tagged cells and for a line that is no typed parameter.
    """
    cells = [c for c in notebook["cells"] if TAG in c["metadata"].get("tags", ())]
    if len(cells) > 1:
        raise NotebookError(f"{len(cells)} cells are tagged {TAG!r}; a notebook has one")
    declared = list(_declared("".join(cells[0]["source"]))) if cells else []
    return {parameter.name: parameter for parameter in declared}


def _declared(source: str) -> Iterator[Parameter]:
    try:
        statements = ast.parse(source).body
    except SyntaxError as error:
        raise NotebookError(
            f"the parameters cell is not Python: line {error.lineno}: {error.msg}"
        ) from error
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    for statement in statements:
        match statement:
            case ast.AnnAssign(
                target=ast.Name(id=name), annotation=kind, value=ast.expr() as value
            ):
                comment = comments.get(statement.end_lineno, "")
                parameter = Parameter(name, ast.unparse(kind), _plain(statement, value), comment)
                _checked(parameter, parameter.default)
                yield parameter
            case _:
                raise NotebookError(
                    f"{ast.unparse(statement)!r} is no parameter; write name: type = default"
                )


def _plain(statement: ast.stmt, value: ast.expr) -> Any:
    try:
        return ast.literal_eval(value)
    except ValueError as error:
        raise NotebookError(
            f"{ast.unparse(statement)!r}: the default of a parameter is a plain value"
        ) from error


def _members(parameter: Parameter) -> tuple[type, bool, bool]:
    """The plain type, whether a list of it is wanted, and whether None may stand for it."""
    text = parameter.type.replace(" ", "")
    optional = text.endswith("|None")
    text = text.removesuffix("|None")
    many = text.startswith("list[") and text.endswith("]")
    text = text[len("list[") : -1] if many else text
    if text not in PLAIN:
        raise NotebookError(
            f"{parameter.name} has type {parameter.type}; a parameter is one of"
            f" {', '.join(PLAIN)}, list[...] of one, or either with | None"
        )
    return PLAIN[text], many, optional


def typed(known: Mapping[str, Parameter], given: Mapping[str, str]) -> dict[str, Any]:
    """Values of the declared types from the texts of a command line.

    Raises `NotebookError` for a name that is not declared, naming the nearest and all that are,
    and for a text that is no value of its type.
    """
    return {name: value_of(_known(name, known), text) for name, text in given.items()}


def checked(known: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Values that a program gives, of the declared types already; ints may stand for floats."""
    return {name: _checked(_known(name, known), value) for name, value in given.items()}


def value_of(parameter: Parameter, text: str) -> Any:
    """`text` as a value of the parameter's type; of a list, items between commas."""
    kind, many, optional = _members(parameter)
    if optional and text.lower() in ("none", "null"):
        return None
    try:
        if not many:
            return _single(kind, text)
        if text.lstrip().startswith("["):
            return _checked(parameter, json.loads(text))
        return [_single(kind, item.strip()) for item in text.split(",")] if text else []
    except ValueError as error:
        raise NotebookError(f"{parameter.name} takes {parameter.type}, got {text!r}") from error


def _single(kind: type, text: str) -> Any:
    if kind is not bool:
        return kind(text)
    if text.lower() not in TRUTH:
        raise ValueError(text)
    return TRUTH[text.lower()]


def _checked(parameter: Parameter, value: Any) -> Any:
    kind, many, optional = _members(parameter)
    if optional and value is None:
        return None
    if many and isinstance(value, Sequence) and not isinstance(value, str):
        return [_as(kind, item, parameter) for item in value]
    if many:
        raise NotebookError(f"{parameter.name} takes {parameter.type}, got {value!r}")
    return _as(kind, value, parameter)


def _as(kind: type, value: Any, parameter: Parameter) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if kind is float and whole:
        return float(value)
    if type(value) is not kind:
        raise NotebookError(f"{parameter.name} takes {parameter.type}, got {value!r}")
    return value


def _known(name: str, known: Mapping[str, Parameter]) -> Parameter:
    if name in known:
        return known[name]
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f" (did you mean {near[0]}?)" if near else ""
    listed = "; ".join(map(str, known.values())) or "none"
    raise NotebookError(f"no parameter {name!r}{hint}; known: {listed}")
