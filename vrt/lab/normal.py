"""A run notebook as it is committed: the same numbers give the same bytes.

Times, versions and whatever else belongs to one run or one machine goes; what remains is what a
reader looks at, so that a line in a diff is a change in a result.
"""

import base64
import re
from typing import Any

import nbformat

from vrt.lab.png import smaller_png

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
KEPT = ("tags",)  # of a cell's metadata
PNG = "image/png"  # whose size on the screen and text for the blind are kept
WIDGET = "application/vnd.jupyter.widget-view+json"  # names a model of a kernel that is gone
MARKER = "papermill-error-cell-tag"  # what papermill writes into a notebook that failed
INJECTED = "injected-parameters"
ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")


def normalised(notebook: nbformat.NotebookNode) -> tuple[str, list[str]]:
    """The text of the file, and what cells wrote to stderr: warnings, which are not kept."""
    warnings: list[str] = []
    cells = [c for c in notebook["cells"] if MARKER not in c["metadata"].get("tags", ())]
    kept = nbformat.v4.new_notebook(
        cells=[_cell(cell) for cell in cells],
        metadata={"kernelspec": KERNEL, "language_info": {"name": "python"}},
    )
    count = 0
    for cell in kept["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += cell["execution_count"] is not None
        cell["execution_count"] = count if cell["execution_count"] is not None else None
        warnings += [_text(out) for out in cell["outputs"] if _is_stderr(out)]
        cell["outputs"] = _outputs(cell["outputs"], cell["execution_count"])
    return nbformat.writes(kept) + "\n", warnings


def _cell(cell: nbformat.NotebookNode) -> nbformat.NotebookNode:
    metadata = {name: cell["metadata"][name] for name in KEPT if cell["metadata"].get(name)}
    injected = INJECTED in metadata.get("tags", ())
    same = {**cell, "metadata": metadata, "id": INJECTED if injected else cell["id"]}
    return nbformat.from_dict(same)


def _outputs(outputs: list[Any], count: int | None) -> list[Any]:
    """Text that arrived in several messages becomes one; numbers of executions are counted anew."""
    kept: list[Any] = []
    for output in outputs:
        if _is_stderr(output):
            continue
        if output["output_type"] == "stream":
            if kept and kept[-1]["output_type"] == "stream":
                kept[-1]["text"] += _text(output)
                continue
            output = nbformat.v4.new_output("stream", name="stdout", text=_text(output))
        elif "data" in output:
            kept_metadata = {n: v for n, v in output["metadata"].items() if n == PNG}
            output = nbformat.from_dict(
                {**output, "metadata": kept_metadata, "data": _data(output["data"])}
            )
            if "execution_count" in output:
                output["execution_count"] = count
        kept.append(output)
    return kept


def _data(data: dict[str, Any]) -> dict[str, Any]:
    shown = {mime: value for mime, value in data.items() if mime != WIDGET}
    if isinstance(shown.get("text/plain"), str):
        shown["text/plain"] = ADDRESS.sub("0x…", shown["text/plain"])
    if PNG in shown:
        png = smaller_png(base64.b64decode(shown[PNG]))
        shown[PNG] = base64.b64encode(png).decode()
    return shown


def _is_stderr(output: Any) -> bool:
    return output["output_type"] == "stream" and output["name"] == "stderr"


def _text(output: Any) -> str:
    return "".join(output["text"])
