"""What goes to the browser of a snapshot: what is new since the last message, and the rest whole.

Text is only ever added to; levels and milliseconds are lists that only grow.
"""

from dataclasses import asdict
from typing import Any

from vrt.lab.widgets.latency import LEVELS
from vrt.lab.widgets.stream import Snapshot

KEPT_PIECES = 375  # 30 s, of which a view draws the end
WHOLE = ("phase", "message", "tentative", "received_s", "heard_s", "queued_s", "behind_s")


class Wire:
    """Remembers what the browser has; not thread-safe."""

    def __init__(self) -> None:
        self._recording = -1
        self._text = self._pieces = 0

    def update(self, snapshot: Snapshot, recording: int, whole: bool = False) -> dict[str, Any]:
        """A message of JSON values. `whole`: for a view that has nothing yet."""
        if whole or recording != self._recording:
            self._text = self._pieces = 0
        self._recording = recording
        pieces = len(snapshot.compute_ms)
        text, start = self._text, max(self._pieces, pieces - KEPT_PIECES)
        self._text, self._pieces = len(snapshot.text), pieces
        return {
            "kind": "update",
            "recording": recording,
            **{name: getattr(snapshot, name) for name in WHOLE},
            "text_from": text,
            "text": snapshot.text[text:],
            "ms_from": start,
            "ms": list(snapshot.compute_ms[start:]),
            "levels_from": LEVELS * start,
            "levels": list(snapshot.levels[LEVELS * start :]),
            "beam": [asdict(line) for line in snapshot.beam],
            "memory": [asdict(gauge) for gauge in snapshot.memory],
            "counts": asdict(snapshot.counts),
            "latency": asdict(snapshot.latency) if snapshot.latency else None,
        }
