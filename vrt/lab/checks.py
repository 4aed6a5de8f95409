"""What a notebook claims, checked in its own cells and counted by whoever runs it.

from vrt.lab import check
check("chunked equals whole, bit for bit", torch.equal(a, b), detail=f"{len(a)} frames")

A check never stops a notebook: the cells below it still tell why it failed.
"""

import html
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

MIME = "application/vnd.vrt.check+json"  # the output that the runner reads
MARKS = {True: "✓ holds", False: "✗ FAILS"}


@dataclass(frozen=True)
class Check:
    """One claim and whether it holds; `detail` is the evidence, in the notebook's own numbers."""

    claim: str
    ok: bool
    detail: str = ""

    def __str__(self) -> str:
        return f"{MARKS[self.ok]}: {self.claim}" + (f" ({self.detail})" if self.detail else "")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        colour = "#00734F" if self.ok else "#B84A00"
        detail = f" <i>({html.escape(self.detail)})</i>" if self.detail else ""
        line = f'<b style="color:{colour}">{MARKS[self.ok]}</b>: {html.escape(self.claim)}{detail}'
        return {"text/plain": str(self), "text/html": line, MIME: asdict(self)}


def check(claim: str, ok: Any, detail: str = "") -> None:
    """Show whether `claim` holds, and record it for the runner.

    Raises `TypeError` unless `ok` is True or False, from Python, numpy or torch: a text or a list
    would count as true whatever it says.
    """
    found = Check(claim, _truth(ok), detail)
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        from IPython.display import display

        display(found)
    else:
        print(found)


def _truth(ok: Any) -> bool:
    value = ok.item() if hasattr(ok, "item") and getattr(ok, "ndim", 1) == 0 else ok
    if not isinstance(value, bool):
        raise TypeError(f"check takes True or False, got {type(ok).__name__}: {ok!r}")
    return value


def checks_of(notebook: Mapping[str, Any]) -> list[Check]:
    """All checks that a run notebook (nbformat 4) recorded, in order."""
    return [
        Check(**output["data"][MIME])
        for cell in notebook["cells"]
        for output in cell.get("outputs", ())
        if MIME in output.get("data", {})
    ]
