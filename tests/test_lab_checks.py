"""Checks of a notebook: what is shown, what is recorded, and what is refused."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import vrt.lab
from vrt.lab import check
from vrt.lab.checks import MIME, Check, checks_of


@pytest.mark.parametrize("ok", [True, np.bool_(True), np.array(True), torch.tensor(3) > 2])
def test_true_in_every_dialect(ok, capsys):
    check("it holds", ok, detail="3 of 3")
    assert capsys.readouterr().out == "✓ holds: it holds (3 of 3)\n"


def test_a_check_that_fails_says_so_and_does_not_raise(capsys):
    check("two are three", torch.tensor(2) == torch.tensor(3))
    assert capsys.readouterr().out == "✗ FAILS: two are three\n"


@pytest.mark.parametrize(
    "ok",
    ["all equal", [False], 0, None, np.array([True]), torch.tensor([True, False]), np.float32(1)],
)
def test_what_is_no_truth_value_is_refused(ok):
    with pytest.raises(TypeError, match="check takes True or False"):
        check("it holds", ok)


def test_inside_ipython_it_is_an_output_that_can_be_read_back():
    code = """
from IPython.testing.globalipapp import start_ipython
from IPython.utils.capture import capture_output
start_ipython()
from vrt.lab import check
with capture_output() as caught:
    check("a < b & c", False, detail="<1>")
(output,) = caught.outputs
print(output.data)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    data = eval(done.stdout)
    assert data["text/plain"] == "✗ FAILS: a < b & c (<1>)"
    assert "a &lt; b &amp; c" in data["text/html"] and "&lt;1&gt;" in data["text/html"]
    notebook = {
        "cells": [
            {"cell_type": "markdown"},
            {"cell_type": "code", "outputs": [{"output_type": "stream", "text": "x"}]},
            {"cell_type": "code", "outputs": [{"output_type": "display_data", "data": data}]},
        ]
    }
    assert checks_of(notebook) == [Check("a < b & c", False, "<1>")]
    assert data[MIME]["ok"] is False


def test_the_name_is_exported_and_loads_nothing_heavy():
    assert "check" in dir(vrt.lab)
    with pytest.raises(AttributeError, match="no attribute 'chek'"):
        _ = vrt.lab.chek
    code = "import sys, vrt.lab; vrt.lab.check; print({'torch', 'altair'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
