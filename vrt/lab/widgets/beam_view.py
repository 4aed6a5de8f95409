"""The beam explorer: step through a search by keyboard, and see parents, merges and scores."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

import anywidget
import traitlets

from vrt.lab.beam_steps import CARRIED, LABEL, MERGED, Move, beam_steps
from vrt.lab.lattice_rows import said
from vrt.lab.widgets import front
from vrt.lab.widgets.beam_words import (
    Names,
    Search,
    beam_size,
    beam_text,
    fate,
    search_of,
    sentence,
    took,
    utterances,
)
from vrt.lab.widgets.fallback import bundle
from vrt.rnnt.trace import Trace


class BeamExplorer(anywidget.AnyWidget):
    """What `beam_explorer` gives; `iteration` and `utterance` may be read and set, and `text` says
    in text what is shown."""

    _esm = front.module("common", "beam")
    _css = front.style()
    name = traitlets.Unicode().tag(sync=True)
    searches = traitlets.List().tag(sync=True)
    utterance = traitlets.Int(0).tag(sync=True)
    iteration = traitlets.Int(0).tag(sync=True)

    def __init__(self, search: Search, names: Names | None = None) -> None:
        self.search, self.names = search, names or {}
        searches = [drawn(search, number, self.names) for number in range(utterances(search))]
        title = "a search" if isinstance(search, Trace) else search.name
        super().__init__(name=title, searches=searches)

    @property
    def text(self) -> str:
        return beam_text(self.search, self.iteration, self.utterance, self.names)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return bundle(super()._repr_mimebundle_(), f"beam explorer: {self.name}", self.text)

    @traitlets.validate("iteration")
    def _inside(self, proposal: dict[str, Any]) -> int:
        last = len(self.searches[self.utterance]["steps"]) - 1
        return min(max(0, proposal["value"]), last)

    @traitlets.validate("utterance")
    def _known(self, proposal: dict[str, Any]) -> int:
        return min(max(0, proposal["value"]), len(self.searches) - 1)


def drawn(search: Search, utterance: int, names: Names) -> dict[str, Any]:
    """All iterations with all their texts, as JSON: the front end only draws."""
    columns = beam_steps(search, utterance)
    return {
        "slots": beam_size(search),
        "steps": [[_slot(move, column, names) for move in column] for column in columns],
        "sentences": [sentence(columns, number) for number in range(len(columns))],
    }


def _slot(move: Move, column: Sequence[Move], names: Names) -> dict[str, Any]:
    kinds = {LABEL: "label", CARRIED: "final"}
    return {
        "slot": move.slot,
        "parent": move.parent,
        "kind": kinds.get(move.kind, "blank"),
        "took": took(move, names),
        "said": said(move, names),
        "score_pruned": move.score_pruned,
        "score": move.score,
        "frame": move.frame,
        "merged": move.fate == MERGED,
        "sums": any(other.merged_into == move.slot for other in column),
        "fate": fate(move, column),
        "best": move.best,
    }


def beam_explorer(
    fixture: str | PathLike[str] | Search, names: Names | None = None
) -> BeamExplorer:
    """A search to step through: a malsd golden file, the name of a shipped one, or a `Trace`.

    `names` are the texts of labels. Without a browser use `beam_text`, `vrt.lab.beam_steps` for
    rows, and the lattice of `vrt.lab.plot`. Raises as `beam_text`.
    """
    return BeamExplorer(search_of(fixture), names)
