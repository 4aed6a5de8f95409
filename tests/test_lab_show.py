"""How a chart appears: a small picture everywhere, a widget beside it in a live notebook."""

import base64
import io
import subprocess
import sys

import altair as alt
import nbformat
import pytest
from PIL import Image

from vrt.lab import show, theme
from vrt.lab.normal import normalised

ROWS = [{"x": 1, "y": 2}, {"x": 3, "y": 1}]


@pytest.fixture(autouse=True)
def settings_of_before():
    with alt.theme.enable("default"), alt.renderers.enable("default"):
        yield


def chart() -> alt.Chart:
    title = alt.Title("Up and down", subtitle=["two points", "in ms"])
    base = alt.Chart(alt.Data(values=ROWS), title=title).mark_line()
    return base.encode(x="x:Q", y="y:Q").properties(width=300, height=120)


def test_a_static_chart_is_a_picture_of_known_size_with_a_text():
    show.begin(live=False)
    bundle, metadata = chart()._repr_mimebundle_()
    assert bundle.keys() == {"image/png", "text/plain"}
    image = Image.open(io.BytesIO(bundle["image/png"]))
    assert image.mode == "P"  # what smaller_png leaves
    shown = metadata["image/png"]
    assert (shown["width"] * 2, shown["height"] * 2) == pytest.approx(image.size, abs=2)
    assert 300 < shown["width"] < 400
    assert shown["alt"] == bundle["text/plain"] == "Up and down; two points; in ms"


def test_the_theme_is_that_of_vrt():
    show.begin(live=False)
    assert alt.theme.active == theme.NAME


def test_a_live_chart_is_a_widget_that_leaves_its_picture(monkeypatch):
    pytest.importorskip("anywidget")
    asked = []
    monkeypatch.setattr(alt.JupyterChart, "enable_offline", asked.append)
    show.begin(live=True)
    bundle, metadata = chart()._repr_mimebundle_()
    assert asked == [True]  # else the browser would ask a server of others for Vega
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["image/png"] and metadata["image/png"]["width"]


@pytest.mark.parametrize(
    ("environment", "live"),
    [
        ({}, False),
        ({"JPY_SESSION_NAME": "a.ipynb"}, True),
        ({"JPY_SESSION_NAME": "a.ipynb", "VRT_LAB_BATCH": "1"}, False),
    ],
)
def test_the_environment_decides(environment, live, monkeypatch):
    pytest.importorskip("anywidget")
    for name in ("JPY_SESSION_NAME", "VRT_LAB_BATCH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    show.begin()
    assert alt.renderers.active == (show.LIVE if live else show.STATIC)


def test_without_widgets_live_is_refused_and_static_is_chosen(monkeypatch):
    monkeypatch.setattr(show, "find_spec", lambda name: None)
    monkeypatch.setenv("JPY_SESSION_NAME", "a.ipynb")
    monkeypatch.delenv("VRT_LAB_BATCH", raising=False)
    show.begin()
    assert alt.renderers.active == show.STATIC
    with pytest.raises(ModuleNotFoundError, match="pip install"):
        show.begin(live=True)


def test_the_runner_asks_for_static_charts():
    from vrt.lab.runner import ENVIRONMENT

    assert ENVIRONMENT.get(show.BATCH)


def test_what_a_chart_says_of_itself():
    assert show.description({"description": "own words", "title": "a"}) == "own words"
    assert show.description({"title": "a"}) == "a"
    assert show.description({"title": {"text": ["a", "b"]}}) == "a; b"
    assert show.description({}) == "a chart"


def test_a_committed_notebook_keeps_size_and_text():
    show.begin(live=False)
    bundle, metadata = chart()._repr_mimebundle_()
    data = {**bundle, "image/png": base64.b64encode(bundle["image/png"]).decode()}
    output = nbformat.v4.new_output("display_data", data=data, metadata=metadata | {"run": 7})
    cell = nbformat.v4.new_code_cell("chart", execution_count=1, outputs=[output])
    text, _ = normalised(nbformat.v4.new_notebook(cells=[cell]))
    (kept,) = nbformat.reads(text, as_version=4).cells[0].outputs
    assert kept.metadata == metadata
    assert kept.data["image/png"].strip() == data["image/png"]


def test_begin_is_a_name_of_the_lab():
    code = "import sys, vrt.lab; print('altair' in sys.modules); vrt.lab.begin(live=False)"
    command = [sys.executable, "-c", f"{code}; print('altair' in sys.modules)"]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert out == "False\nTrue\n"
