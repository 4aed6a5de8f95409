"""What a run leaves in a notebook, and what must not stay there."""

import base64
import io
import json

import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from vrt.lab.normal import normalised
from vrt.lab.png import smaller_png


def stream(text, name="stdout"):
    return new_output("stream", name=name, text=text)


def shown(**data):
    return new_output("display_data", data={k.replace("_", "/", 1): v for k, v in data.items()})


def cell(*outputs, count=7, **metadata):
    return new_code_cell("f()", execution_count=count, outputs=list(outputs), metadata=metadata)


def normal(*cells, **metadata):
    for number, one in enumerate(cells):
        one["id"] = f"c{number}"
    text, warnings = normalised(new_notebook(cells=list(cells), metadata=metadata))
    nbformat.validate(json.loads(text))
    return json.loads(text), warnings


def test_only_tags_of_the_metadata_stay():
    times = {"papermill": {"duration": 1.2}, "execution": {"iopub": "2026"}, "collapsed": True}
    found, _ = normal(
        cell(tags=["parameters"], **times), widgets={"a": 1}, papermill={"version": 1}
    )
    assert found["cells"][0]["metadata"] == {"tags": ["parameters"]}
    assert found["metadata"] == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }


def test_counts_run_from_one_and_a_cell_that_did_not_run_has_none():
    result = new_output("execute_result", data={"text/plain": "3"}, execution_count=9)
    found, _ = normal(
        new_markdown_cell("a"), cell(count=9), cell(result, count=12), cell(count=None)
    )
    assert [c.get("execution_count") for c in found["cells"]] == [None, 1, 2, None]
    assert found["cells"][2]["outputs"][0]["execution_count"] == 2


def test_text_in_pieces_is_one_text_and_other_outputs_keep_their_place():
    outputs = [stream("a"), stream("b\n"), shown(text_plain="x"), stream("c"), stream("d")]
    found, _ = normal(cell(*outputs))
    kinds = [o["output_type"] for o in found["cells"][0]["outputs"]]
    assert kinds == ["stream", "display_data", "stream"]
    assert "".join(found["cells"][0]["outputs"][0]["text"]) == "ab\n"
    whole, _ = normal(cell(stream("ab\n"), shown(text_plain="x"), stream("cd")))
    assert whole == found


def test_stderr_is_told_and_not_kept():
    found, warnings = normal(cell(stream("a"), stream("of this folder", "stderr"), stream("b")))
    assert warnings == ["of this folder"]
    assert [o["text"] for o in found["cells"][0]["outputs"]] == [["ab"]]


def test_addresses_and_widget_models_go():
    widget = {"model_id": "8f3a"}
    data = {
        "application/vnd.jupyter.widget-view+json": widget,
        "text/plain": "<X at 0x7f00deadbeef>",
    }
    sizes = {"text/plain": {"width": 3}, "isolated": True}
    found, _ = normal(cell(new_output("display_data", data=data, metadata=sizes)))
    assert found["cells"][0]["outputs"][0]["data"] == {"text/plain": ["<X at 0x…>"]}
    assert found["cells"][0]["outputs"][0]["metadata"] == {}


def test_the_injected_cell_has_one_name_and_papermills_markers_go():
    injected = new_code_cell("beam = 8", metadata={"tags": ["injected-parameters"]})
    marker = new_markdown_cell("failed", metadata={"tags": ["papermill-error-cell-tag"]})
    found, _ = normal(marker, injected)
    assert [c["id"] for c in found["cells"]] == ["injected-parameters"]


def test_normal_is_normal():
    once = normalised(new_notebook(cells=[cell(stream("a"), shown(image_png=picture(300)))]))[0]
    assert normalised(nbformat.reads(once, as_version=4))[0] == once


def picture(side):
    from PIL import Image

    ramp = np.linspace(0, 255, side).astype(np.uint8)
    pixels = np.stack(
        [np.tile(ramp, (side, 1)), np.tile(ramp[:, None], side), 0 * np.eye(side)], -1
    )
    file = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(file, format="png", compress_level=0)
    return base64.b64encode(file.getvalue()).decode()


def test_pictures_shrink_once_and_stay_the_picture():
    pytest.importorskip("PIL")
    from PIL import Image

    big = base64.b64decode(picture(200))
    small = smaller_png(big)
    assert len(small) < len(big) / 2 and smaller_png(small) == small
    ours, theirs = (np.asarray(Image.open(io.BytesIO(p)).convert("RGB"), int) for p in (small, big))
    # 256 colours for a ramp in two directions: 16 steps each, so half a step is 8 of 255.
    assert ours.shape == theirs.shape and np.abs(ours - theirs).mean() < 8
