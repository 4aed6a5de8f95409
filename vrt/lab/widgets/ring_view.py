"""The ring explorer: sizes as sliders, and a real ring's slots after every chunk."""

from typing import Any

import anywidget
import traitlets

from vrt.lab.widgets import front
from vrt.lab.widgets.fallback import bundle
from vrt.lab.widgets.ring_slots import RingStep, ring_rows

LARGEST = {"window": 48, "chunk": 16, "capacity": 144}  # of the sliders


class RingExplorer(anywidget.AnyWidget):
    """What `ring_explorer` gives; sizes and `step` may be read and set, `message` says what is
    wrong with sizes that make no ring."""

    _esm = front.module("common", "ring")
    _css = front.style()
    window = traitlets.Int().tag(sync=True)
    chunk = traitlets.Int().tag(sync=True)
    capacity = traitlets.Int().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    steps = traitlets.List().tag(sync=True)
    message = traitlets.Unicode("").tag(sync=True)
    largest = traitlets.Dict(LARGEST).tag(sync=True)

    def __init__(self, window: int, chunk: int, capacity: int) -> None:
        super().__init__(window=window, chunk=chunk, capacity=capacity)
        self.rows: list[RingStep] = []
        self._feed()
        if self.message:
            raise ValueError(self.message)

    @property
    def text(self) -> str:
        """What is shown now, for a terminal."""
        return str(self.rows[self.step])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return bundle(super()._repr_mimebundle_(), "ring explorer", self.text)

    @traitlets.observe("window", "chunk", "capacity")
    def _sizes_changed(self, _: dict[str, Any]) -> None:
        if hasattr(self, "rows"):
            self._feed()

    def _feed(self) -> None:
        """Sizes that make no ring leave the one that is shown, with the reason."""
        try:
            self.rows = ring_rows(self.window, self.chunk, self.capacity, self._chunks())
        except ValueError as error:
            self.message = str(error)
            return
        self.message = ""
        self.steps = [row.to_json() for row in self.rows]
        self.step = min(self.step, len(self.rows) - 1)

    def _chunks(self) -> int:
        """Until the third compaction or so."""
        room = max(self.chunk, self.capacity - self.window + 1)
        return min(240, 3 * (room // self.chunk) + 2)


def ring_explorer(window: int = 12, chunk: int = 4, capacity: int | None = None) -> RingExplorer:
    """A ring to look at: `window` frames that a query sees, `chunk` frames at once, `capacity`
    slots (None: twice the window and a chunk). Without a browser use `ring_rows`, which also says
    what is raised."""
    return RingExplorer(window, chunk, 2 * window + chunk if capacity is None else capacity)
