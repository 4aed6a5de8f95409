"""The beam explorer: step through a search by keyboard, and see parents, merges and scores."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

import anywidget
import traitlets

from vrt.lab.widgets import front
from vrt.lab.widgets.beam_rows import BeamStory, beam_story
from vrt.lab.widgets.beam_text import beam_text, sentence, spelled, state, took
from vrt.rnnt.trace import Trace


class BeamExplorer(anywidget.AnyWidget):
    """What `beam_explorer` gives; `iteration` may be read and set."""

    _esm = front.module("common", "beam")
    _css = front.style()
    stories = traitlets.List().tag(sync=True)
    utterance = traitlets.Int(0).tag(sync=True)
    iteration = traitlets.Int(0).tag(sync=True)

    def __init__(self, stories: Sequence[BeamStory], labels: Sequence[str] | None = None) -> None:
        self._stories, self._labels = tuple(stories), labels
        super().__init__(stories=[drawn(story, labels) for story in stories])

    @property
    def text(self) -> str:
        """What is shown now, for a terminal."""
        return beam_text(self._stories[self.utterance], self.iteration, self._labels)

    @traitlets.validate("iteration")
    def _inside(self, proposal: dict[str, Any]) -> int:
        last = self._stories[self.utterance].iterations - 1
        return min(max(0, proposal["value"]), last)

    @traitlets.validate("utterance")
    def _known(self, proposal: dict[str, Any]) -> int:
        return min(max(0, proposal["value"]), len(self._stories) - 1)


def drawn(story: BeamStory, labels: Sequence[str] | None = None) -> dict[str, Any]:
    """A story with all its texts, as JSON: the front end only draws."""
    rows = [
        {
            "slot": row.slot,
            "parent": row.parent,
            "kind": _kind(row.label, row.blank),
            "took": took(row, labels),
            "text": spelled(row.tokens, labels),
            "score_pruned": row.score_pruned,
            "score": row.score,
            "frame": row.frame,
            "symbols": row.symbols,
            "merged_into": row.merged_into,
            "state": state(row),
        }
        for row in story.rows
    ]
    size, count = story.beam_size, story.iterations
    return {
        "name": story.name,
        "note": story.note,
        "beam_size": size,
        "steps": [rows[at * size : (at + 1) * size] for at in range(count)],
        "sentences": [sentence(story, at) for at in range(count)],
        "best": list(story.best),
    }


def _kind(label: int | None, blank: bool) -> str:
    return "final" if label is None else "blank" if blank else "label"


def beam_explorer(
    fixture: str | PathLike[str] | Trace,
    *,
    labels: Sequence[str] | None = None,
    blank: int | None = None,
) -> BeamExplorer:
    """A search to step through: a malsd golden file, the name of a shipped one, or a `Trace`.

    `labels` are the texts of the labels. Without a browser use `beam_story` and `beam_text`, which
    also say what is raised.
    """
    first = beam_story(fixture, 0, blank)
    rest = [beam_story(fixture, number, blank) for number in range(1, first.utterances)]
    return BeamExplorer([first, *rest], labels)
