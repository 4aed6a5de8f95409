"""A notebook's parameters: what is declared, what a command line may say, and what is refused."""

import json

import pytest
from lab_notebooks import PARAMETERS, write_notebook

from vrt.lab.notebooks import NotebookError, all_notebooks, find_notebook
from vrt.lab.parameters import checked, parameters_of, typed


def declared(source=PARAMETERS, tags=("parameters",)):
    cell = {"cell_type": "code", "source": source, "metadata": {"tags": list(tags)}}
    return parameters_of({"cells": [{"metadata": {}, "source": "# a"}, cell]})


def test_names_types_defaults_and_comments():
    found = declared()
    assert [(p.name, p.type, p.default) for p in found.values()] == [
        ("fast", "bool", False),
        ("beam", "int", 4),
        ("rates", "list[float]", [1.0, 2.5]),
        ("name", "str | None", None),
    ]
    assert found["beam"].comment == "slots, #1 is greedy"
    assert declared("") == {} and declared(tags=()) == {}


def test_a_comment_may_stand_at_the_end_of_several_lines():
    found = declared('a: list[str] = [\n  "#x",  # no\n  "y",\n]  # both\nb: int = 1\n')
    assert found["a"].default == ["#x", "y"] and found["a"].comment == "both"
    assert found["b"].comment == ""


def test_papermill_and_this_reader_see_the_same_parameters(tmp_path):
    papermill = pytest.importorskip("papermill")
    theirs = papermill.inspect_notebook(
        write_notebook(tmp_path / "a.ipynb", parameters=PARAMETERS.replace("| None", ""))
    )
    assert [(n, p["default"], p["help"]) for n, p in theirs.items()] == [
        (n, str(p.default), p.comment) for n, p in declared().items()
    ]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("fast = False", "no parameter; write name: type = default"),
        ("fast: bool", "no parameter"),
        ("print(1)", "no parameter"),
        ("a: dict = {}", "a has type dict"),
        ("a: int = 1.5", "a takes int, got 1.5"),
        ("a: bool = 0", "a takes bool, got 0"),
        ("a: list[int] = [1, 'x']", "a takes list.int., got 'x'"),
        ("a: int = None", "a takes int, got None"),
    ],
)
def test_a_line_that_is_no_typed_parameter_is_refused(source, why):
    with pytest.raises(NotebookError, match=why):
        declared(source)


def test_two_tagged_cells_are_refused():
    cell = {"source": "a: int = 1", "metadata": {"tags": ["parameters"]}}
    with pytest.raises(NotebookError, match="2 cells are tagged"):
        parameters_of({"cells": [cell, cell]})


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("fast", "true", True),
        ("fast", "False", False),
        ("beam", "8", 8),
        ("rates", "1,2.5", [1.0, 2.5]),
        ("rates", "[1, 2.5]", [1.0, 2.5]),
        ("rates", "", []),
        ("name", "a,b", "a,b"),
        ("name", "none", None),
    ],
)
def test_texts_become_values_of_the_declared_type(name, text, value):
    found = typed(declared(), {name: text})[name]
    assert found == value and type(found) is type(value)
    assert json.loads(json.dumps(found)) == value


@pytest.mark.parametrize(
    ("name", "text"), [("fast", "1"), ("beam", "8.0"), ("beam", ""), ("rates", "1,x")]
)
def test_texts_of_another_type_are_refused(name, text):
    with pytest.raises(NotebookError, match=f"{name} takes .*, got '{text}'"):
        typed(declared(), {name: text})


def test_an_unknown_name_lists_the_known_ones_and_the_nearest():
    with pytest.raises(NotebookError) as error:
        typed(declared(), {"beem": "8"})
    assert str(error.value).startswith(
        "no parameter 'beem' (did you mean beam?); known: fast: bool"
    )
    assert "name: str | None = None" in str(error.value)
    with pytest.raises(NotebookError, match=r"no parameter 'zzz'; known: none"):
        typed({}, {"zzz": "8"})


def test_values_from_a_program_keep_their_type():
    assert checked(declared(), {"rates": [1, 2], "beam": 3}) == {"rates": [1.0, 2.0], "beam": 3}
    for wrong in ({"beam": True}, {"beam": "3"}, {"rates": 1.0}, {"fast": 1}, {"beem": 1}):
        with pytest.raises(NotebookError):
            checked(declared(), wrong)


# --- names ------------------------------------------------------------------------------------

NAMES = ("02-large-ring", "10-why-a-prefix", "11-one-step", "00-start", "notes")


@pytest.fixture
def folder(tmp_path):
    for name in NAMES:
        (tmp_path / f"{name}.ipynb").touch()
    return tmp_path


def test_reading_order_is_by_number(folder):
    assert [f.stem for f in all_notebooks(folder)] == [
        *("00-start", "02-large-ring", "10-why-a-prefix", "11-one-step", "notes"),
    ]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("2", "02-large-ring"),
        ("02", "02-large-ring"),
        ("0", "00-start"),
        ("11-one-step", "11-one-step"),
        ("11-one-step.ipynb", "11-one-step"),
        ("one-step", "11-one-step"),
        ("why", "10-why-a-prefix"),
        ("ring", "02-large-ring"),
        ("notes", "notes"),
    ],
)
def test_a_notebook_is_found_by_number_slug_or_part(folder, name, found):
    assert find_notebook(name, folder).stem == found


def test_a_file_goes_before_names(folder):
    assert find_notebook(str(folder / "notes.ipynb"), folder) == folder / "notes.ipynb"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("r", "'r' could be 00-start, 02-large-ring, 10-why-a-prefix; say which"),
        ("3", "no notebook '3'.*known: 00-start, 02-large-ring"),
        ("10-why-prefix", "did you mean 10-why-a-prefix?"),
        ("elsewhere/00-start.ipynb", "no notebook 'elsewhere/00-start.ipynb'"),
    ],
)
def test_a_name_that_fits_none_or_several_is_refused(folder, name, why):
    with pytest.raises(NotebookError, match=why.replace("?", r"\?")):
        find_notebook(name, folder)
