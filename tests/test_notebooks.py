"""Every notebook runs with fast parameters, its checks hold, and its form is kept."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from notebook_form import complaints

from vrt.lab.normal import normalised
from vrt.lab.notebooks import all_notebooks, notebooks_dir
from vrt.lab.runner import run_notebook

FOLDER = Path(__file__).parents[1] / "notebooks"
FILES = all_notebooks(FOLDER)
needs_batch = pytest.mark.skipif(
    not (find_spec("papermill") and find_spec("altair")), reason="needs vrt[batch]"
)


def named(file):
    return file.stem


def test_there_are_notebooks_and_vrt_finds_them():
    assert FILES and notebooks_dir() == FOLDER
    numbers = [file.stem[:2] for file in FILES]
    assert len({*numbers}) == len(numbers)


@needs_batch
@pytest.mark.parametrize("file", FILES, ids=named)
def test_runs_with_fast_parameters(file):
    outcome = run_notebook(file, {"fast": True})
    assert outcome.failure is None
    assert outcome.checks and outcome.failed_checks == ()
    assert outcome.warnings == ()


@pytest.mark.parametrize("file", FILES, ids=named)
def test_form(file):
    assert complaints(file) == []


# --- the judge of form is itself judged --------------------------------------------------------


@pytest.fixture
def copy(tmp_path):
    """A notebook in good form, to be spoiled."""
    return Path(shutil.copy(FOLDER / "11-one-iteration.ipynb", tmp_path / "07-a-copy.ipynb"))


def write(notebook, path):
    path.write_text(normalised(notebook)[0], encoding="utf-8")
    return path


def test_a_good_copy_has_no_complaints(copy):
    assert complaints(copy) == []


def set_source(index, source):
    return lambda cells: cells[index].update(source=source)


def add(*new):
    """Before the last cell."""
    return lambda cells: cells.__setitem__(slice(-1, -1), list(new))


CHART = new_output("display_data", data={"text/plain": "alt.Chart(...)"})
DOT = (  # one white pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg=="
)
PICTURE = new_output("display_data", data={"image/png": DOT, "text/plain": "alt.Chart()"})


def ran(source, *outputs):
    return new_code_cell(source, outputs=list(outputs))


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (set_source(0, "# A statement\n\nYes."), "the title is no question"),
        (set_source(0, "# Is it?\n\n## No answer"), "the second line is no answer"),
        (set_source(0, "Is it?"), "the first cell is no title"),
        (set_source(1, "fast: bool = False"), "parameter fast has no comment"),
        (set_source(1, "fast = False"), "is no parameter"),
        (set_source(1, "slow: bool = False  # no"), "no parameter fast"),
        (lambda cells: cells[1].metadata.clear(), "not tagged 'parameters'"),
        (set_source(-1, "The end."), "the last cell is not"),
        (add(new_markdown_cell("It took 3.5 times longer.")), "a number is typed: 3.5"),
        (add(new_markdown_cell("A delay of 480 ms.")), "a number is typed"),
        (add(ran("\n".join(f"a{i} = {i}" for i in range(16)))), "16 lines of code"),
        (add(ran("def f(x):\n    y = x\n    z = y\n    return z")), "def f is longer"),
        (add(ran("class A:\n    pass")), "class A belongs into vrt"),
        (add(ran("%matplotlib inline")), "a magic"),
        (add(ran("x = 'data/audio/a.wav'")), "a path: 'data/audio/a.wav'"),
        (add(new_markdown_cell("So:"), ran("c", CHART)), "a chart without its picture"),
        (add(ran("x"), ran("c", PICTURE)), "a figure without a sentence before it"),
        (
            add(
                ran("c", new_output("display_data", data={"application/vnd.vegalite.v5+json": {}}))
            ),
            "an output that GitHub does not show",
        ),
        (add(ran("1/0", new_output("error", ename="E", evalue="", traceback=[]))), "an error: E"),
    ],
)
def test_what_is_spoiled_is_named(copy, spoil, complaint):
    notebook = nbformat.read(copy, as_version=4)
    spoil(notebook["cells"])
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"] = count
    assert any(complaint in said for said in complaints(write(notebook, copy)))


def test_a_notebook_saved_by_hand_or_half_run_is_named(copy):
    notebook = nbformat.read(copy, as_version=4)
    notebook["cells"][2]["metadata"]["collapsed"] = True
    nbformat.write(notebook, copy)
    assert complaints(copy) == ["the file is not as vrt run writes it"]
    next(c for c in notebook["cells"] if c["cell_type"] == "code")["execution_count"] = None
    assert any("one run from top to bottom" in c for c in complaints(write(notebook, copy)))


def test_a_check_that_fails_or_is_absent_is_named(copy):
    notebook = nbformat.read(copy, as_version=4)
    outputs = [o for c in notebook["cells"] for o in c.get("outputs", ())]
    checks = [o for o in outputs if "application/vnd.vrt.check+json" in o.get("data", {})]
    checks[0]["data"]["application/vnd.vrt.check+json"]["ok"] = False
    assert any("a check fails" in c for c in complaints(write(notebook, copy)))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = []
    assert "nothing is checked" in complaints(write(notebook, copy))


def test_the_copys_name_is_looked_at(copy):
    other = copy.rename(copy.with_name("Untitled.ipynb"))
    assert complaints(other) == ["Untitled.ipynb is not NN-slug.ipynb"]
