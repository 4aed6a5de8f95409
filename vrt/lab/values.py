"""Numbers that a notebook hands to whoever runs it, beside showing them to its reader.

record({"word_errors": 3, "words": 120})
"""

import html
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vrt.receipt.plain import plain, rounded

MIME = "application/vnd.vrt.values+json"


@dataclass(frozen=True)
class Values:
    """Named numbers or texts, floats rounded to seven digits as in a receipt."""

    named: dict[str, Any]

    def __str__(self) -> str:
        return "\n".join(f"{name} = {_text(value)}" for name, value in self.named.items())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        cells = (
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(_text(value))}</td></tr>"
            for name, value in self.named.items()
        )
        table = f"<table>{''.join(cells)}</table>"
        return {"text/plain": str(self), "text/html": table, MIME: self.named}


def record(named: Mapping[str, Any]) -> None:
    """Show these values and record them for the runner; a later value of the same name wins.

    Raises `ReceiptError` for what a receipt cannot hold: NaN, Inf, objects.
    """
    values = Values(rounded(plain(named, "values")))
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        from IPython.display import display

        display(values)
    else:
        print(values)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def values_of(notebook: Mapping[str, Any]) -> dict[str, Any]:
    """All that a run notebook (nbformat 4) recorded."""
    recorded: dict[str, Any] = {}
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            recorded |= output.get("data", {}).get(MIME, {})
    return recorded
