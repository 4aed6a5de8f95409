"""The live view: a `LiveStream` in JupyterLab, fed by the browser's microphone or by a file."""

import threading
import time
from os import PathLike
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from vrt.audio import AudioError, Clip
from vrt.lab.widgets import front
from vrt.lab.widgets.capture import CaptureError, parse
from vrt.lab.widgets.fallback import bundle
from vrt.lab.widgets.recording import Limits
from vrt.lab.widgets.sessions import BEAM_SIZE
from vrt.lab.widgets.stream import LiveStream
from vrt.lab.widgets.wire import Wire
from vrt.loading import load
from vrt.rnnt.acoustic import AcousticTransducer

UPDATE_S = 0.1  # ten a second


class LiveView(anywidget.AnyWidget):
    """What `live` gives. `stream` is what is shown; its `snapshot()` says the same in numbers."""

    _esm = front.module("common", "microphone", "live")
    _css = front.style()
    info = traitlets.Dict().tag(sync=True)

    def __init__(
        self, stream: LiveStream, title: str, source: str | PathLike[str] | Clip | None = None
    ) -> None:
        self.stream, self.source = stream, source
        self.transport_ms: float | None = None  # as the browser measured it last
        self._wire, self._lock = Wire(), threading.Lock()
        self._shown: Any = None
        self._ticker: threading.Thread | None = None
        super().__init__(info=_info(stream, title, source))
        self.on_msg(self._on_message)

    def close(self) -> None:
        """Give up a recording that is under way, and take the view away."""
        self.stream.close()
        super().close()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        title = f"live view of {self.info['title']}"
        return bundle(super()._repr_mimebundle_(), title, self.stream.snapshot().text)

    # A browser's messages come on any thread: each handler copies, queues, and returns.

    def _on_message(self, _: Any, content: dict[str, Any], buffers: list[Any]) -> None:
        kind = content.get("kind")
        if kind == "block":
            self._take_block(content, buffers)
        elif kind == "hello":
            main = threading.current_thread() is threading.main_thread()
            self.send({"kind": "hello", "main": main, "number": content.get("number", 0)})
            if self.stream.recording >= 0 and content.get("number") == 1:
                self._update(whole=True)
        elif kind == "play":
            self._play(content)
        elif kind == "stop":
            self.stream.end()

    def _take_block(self, content: dict[str, Any], buffers: list[Any]) -> None:
        try:
            chunk = parse(content, buffers)
            if chunk.recording > self.stream.recording:
                self.stream.setting = content.get("setting", self.stream.setting)
        except CaptureError as error:
            self.stream.malformed(str(error))
            return
        except ValueError as error:
            self.send({"kind": "refused", "message": str(error)})
            return
        sent = content.get("transport_ms")
        self.transport_ms = sent if isinstance(sent, int | float) else self.transport_ms
        self.stream.take(chunk)
        self._tick()

    def _play(self, content: dict[str, Any]) -> None:
        try:
            self.stream.setting = content.get("setting", self.stream.setting)
            if self.source is None:
                raise AudioError("this view was made without a file; live(model, source=PATH)")
            self.stream.play(self.source)
        except ValueError as error:
            self.send({"kind": "refused", "message": str(error)})
            return
        self._tick()

    def _tick(self) -> None:
        """Have one thread that tells the browser, while something is under way."""
        with self._lock:
            if self._ticker is None:
                self._ticker = threading.Thread(target=self._tell, name="vrt view", daemon=True)
                self._ticker.start()

    def _tell(self) -> None:
        while True:
            time.sleep(UPDATE_S)
            over = not self.stream.busy
            self._update()
            with self._lock:
                if over and not self.stream.busy:
                    self._ticker = None
                    return

    def _update(self, whole: bool = False) -> None:
        with self._lock:
            snapshot, recording = self.stream.snapshot(), self.stream.recording
            if snapshot == self._shown and not whole:
                return
            self._shown = snapshot
            message = self._wire.update(snapshot, recording, whole)
            newest, held_s = self.stream.newest
            self.send(message | {"newest": newest, "held_ms": held_s * 1000})


def _info(
    stream: LiveStream, title: str, source: str | PathLike[str] | Clip | None
) -> dict[str, Any]:
    slider, transducer = stream.slider, isinstance(stream.model, AcousticTransducer)
    named = source.source if isinstance(source, Clip) else source
    what = f"transducer, beam of {stream.beam_size}" if transducer else "Voxtral Realtime"
    return {
        "title": title,
        "what": what,
        "beam": transducer,
        "source": None if named is None else Path(named).name,
        "queue_s": stream.limits.queue_s,
        "setting": {
            "name": slider.name,
            "note": slider.note,
            "labels": list(slider.labels),
            "values": list(slider.values),
            "index": slider.values.index(stream.setting),
        },
    }


def live(
    model: Any,
    source: str | PathLike[str] | Clip | None = None,
    *,
    setting: int | None = None,
    beam_size: int = BEAM_SIZE,
    limits: Limits | None = None,
    title: str | None = None,
) -> LiveView:
    """A view to speak into: text as it grows, audio, memory, the beam, and every 80 ms piece's
    computing time against the 80 ms that it lasts.

    `model` is one of `vrt.load`, or its name or folder. `source`: a file that can be played
    instead of speaking. `setting`: the slider's first value (see `LiveStream`). `title`: what is
    written above it; None: the model's name. Without a browser
    use `LiveStream`. Raises as `LiveStream` and `vrt.load` do.
    """
    if isinstance(model, str | PathLike):
        title, model = title or Path(model).name, load(model)
    stream = LiveStream(model, setting, beam_size=beam_size, limits=limits)
    return LiveView(stream, title or type(model).__name__, source)
