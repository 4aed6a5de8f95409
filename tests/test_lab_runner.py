"""`vrt run` on notebooks that work, that fail in each way, and that were asked for wrongly."""

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import nbformat
import pytest
from commands import fails, run
from lab_notebooks import CHECK, write_notebook

from vrt.cli import failures
from vrt.cli import run as command

pytestmark = pytest.mark.skipif(not find_spec("papermill"), reason="papermill is not installed")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


GOOD = (
    CHECK + "import os, sys\nprint(beam, fast, rates, name)\n"
    "print([os.environ[n] for n in ('OMP_NUM_THREADS', 'VRT_LAB_BATCH')], flush=True)\n"
    "print('careful', file=sys.stderr)",
    "for i in range(3):\n    print(i, flush=True)\nobject()",
    "check('beam is small', beam < 6, f'{beam}')",
)


def test_run_in_place_twice_gives_the_same_bytes(here):
    file = write_notebook(here / "03-good.ipynb", *GOOD)
    first = run("run", file)
    assert first.exit_code == 0, first.output
    assert "03-good: 1 of 1 checks hold" in first.stdout
    assert "careful" in first.stderr and "not kept" in first.stderr
    once = file.read_bytes()
    assert run("run", file).exit_code == 0
    assert file.read_bytes() == once
    cells = nbformat.reads(once.decode(), as_version=4)["cells"]
    assert [o["text"] for o in cells[2]["outputs"]] == [
        "4 False [1.0, 2.5] None\n['1', '1']\n"  # and nothing of stderr
    ]
    assert str(here).encode() not in once
    assert sorted(p.name for p in here.iterdir()) == ["03-good.ipynb"]


def test_parameters_arrive_and_a_check_that_fails_is_named(here):
    file = write_notebook(here / "03-good.ipynb", *GOOD)
    before = file.read_bytes()
    done = run("run", file, "-p", "beam=8", "-p", "rates=3", "-p", "name=x y")
    assert done.exit_code == 1
    assert "03-good: 0 of 1 checks hold" in done.stdout
    assert "  ✗ FAILS: beam is small (8)\n" in done.stdout
    assert file.read_bytes() == before
    written = nbformat.read(here / "03-good-beam-8-rates-3-name-x_y.ipynb", as_version=4)
    assert written["cells"][3]["outputs"][0]["text"].startswith("8 False [3.0] x y\n")


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("1 / 0", "FAILED in cell 2 (1 / 0): ZeroDivisionError: division by zero"),
        ("# dies\nimport os\nos._exit(3)", "FAILED in cell 2 (# dies): the kernel died"),
        ("import sys\nsys.exit(0)", "FAILED in cell 2 (import sys): SystemExit: 0"),
    ],
)
def test_a_cell_that_stops_the_notebook_is_named_and_kept_aside(here, bad, told):
    file = write_notebook(here / "04-bad.ipynb", bad, "print('after')")
    before = file.read_bytes()
    done = run("run", file)
    assert done.exit_code == 1
    assert told in done.stdout, done.output
    assert "-> 04-bad.failed.ipynb" in done.stdout
    assert file.read_bytes() == before
    nbformat.validate(nbformat.read(here / "04-bad.failed.ipynb", as_version=4))
    assert b"after\\n" not in (here / "04-bad.failed.ipynb").read_bytes()


def test_several_into_a_folder_and_one_failure_does_not_stop_the_others(here):
    write_notebook(here / "1-bad.ipynb", "raise KeyError('x')")
    write_notebook(here / "2-good.ipynb", "print(fast)")
    done = run("run", "1-bad.ipynb", "2-good.ipynb", "-p", "fast=true", "-o", "out")
    assert done.exit_code == 1
    assert "1-bad: no checks; FAILED in cell 3" in done.stdout  # the injected cell counts
    assert "2 notebooks, 1 failed" in done.stdout
    assert sorted(p.name for p in (here / "out").iterdir()) == [
        "1-bad.failed.ipynb",
        "2-good.ipynb",
    ]


def test_ctrl_c_stops_the_kernel_too(here):
    code = "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)"
    write_notebook(here / "05-long.ipynb", code)
    # A shell's background job hands a deaf ear for SIGINT down: this process listens whatever came.
    listening = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start = f"{listening}from vrt.cli import main; main()"
    command = [sys.executable, "-c", start, "run", "05-long.ipynb"]
    root = os.path.dirname(os.path.dirname(failures.__file__)).removesuffix("/vrt")
    runner = subprocess.Popen(
        command, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": root}
    )
    while not ((here / "pid").exists() and (here / "pid").read_text()):
        assert runner.poll() is None
        time.sleep(0.1)
    runner.send_signal(signal.SIGINT)
    _, told = runner.communicate(timeout=120)
    assert runner.returncode == 130 and told.decode().endswith("vrt: stopped by Ctrl-C\n")
    kernel = int((here / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(kernel, 0)


# --- refused before a kernel starts -----------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "mentions"),
    [
        (
            ["n.ipynb", "-p", "beem=1"],
            1,
            ["'beem'", "did you mean beam?", "known: fast: bool = False"],
        ),
        (["n.ipynb", "-p", "beam=x"], 1, ["beam takes int", "'x'"]),
        (["n.ipynb", "-p", "beam"], 2, ["'beam' is not KEY=VALUE"]),
        (["n.ipynb", "-p", "beam=1", "-p", "beam=2"], 2, ["beam is given twice"]),
        (["broken.ipynb"], 1, ["broken.ipynb is no notebook"]),
        ([], 2, ["name one notebook or more, or say --all"]),
        (["--all", "n.ipynb"], 2, ["or say --all"]),
        (["--all", "-p", "fast=true"], 2, ["add --output FOLDER"]),
        (["n.ipynb", "m.ipynb", "-o", "x.ipynb"], 2, ["one file for several"]),
    ],
)
def test_refused(here, monkeypatch, words, code, mentions):
    for name in ("n.ipynb", "m.ipynb"):
        write_notebook(here / name)
    (here / "broken.ipynb").write_text('{"cells": 3')
    monkeypatch.setattr(command, "_run_one", lambda *_: pytest.fail("a kernel would start"))
    fails(run("run", *words), code, *mentions)


def test_without_papermill_the_extra_is_named():
    error = ModuleNotFoundError("no", name="papermill.execute")
    assert failures.explain(error) == "this needs papermill: pip install 'vrt[batch]'"
