"""A live stream without a browser: blocks of samples or a file in, text and measurements out.

    stream = LiveStream(vrt.load("digits-rnnt"))
    stream.play("talk.flac", realtime=False)
    stream.wait()
    stream.snapshot().text

The live view in JupyterLab is a picture of this object; tests and batches use it alone.
"""

import threading
import time
from dataclasses import asdict, dataclass, field
from functools import partial
from os import PathLike
from typing import Any

from vrt.audio import SAMPLE_RATE, Clip, read
from vrt.lab.widgets.capture import BLOCK_MS, Chunk, cut
from vrt.lab.widgets.latency import Latency
from vrt.lab.widgets.order import Counts
from vrt.lab.widgets.recording import Limits, Recording
from vrt.lab.widgets.sessions import (
    BEAM_SIZE,
    BeamLine,
    Gauge,
    open_session,
    setting_of,
)


@dataclass(frozen=True)
class Snapshot:
    """What a stream shows at one moment.

    `phase` is idle, listening, finishing, finished, failed or given up. `text` is committed,
    `tentative` may change. `queued_s` waits for the model, `behind_s` is inside it. `levels` has a
    peak for every 20 ms, `compute_ms` the milliseconds of every 80 ms piece; `latency` sums them
    up. `counts` are of the microphone's blocks.
    """

    phase: str = "idle"
    message: str = ""
    text: str = ""
    tentative: str = ""
    received_s: float = 0.0
    heard_s: float = 0.0
    queued_s: float = 0.0
    behind_s: float = 0.0
    beam: tuple[BeamLine, ...] = ()
    memory: tuple[Gauge, ...] = ()
    counts: Counts = field(default_factory=Counts)
    latency: Latency | None = None
    levels: tuple[float, ...] = ()
    compute_ms: tuple[float, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class LiveStream:
    """One model and, at a time, one recording through it. All calls may come from any thread.

    `setting` is the value of the model's slider (`setting_of`): delay in ms for Voxtral, for a
    transducer the ms after which a doubt is settled (0: never). It holds from the next recording
    on. Raises TypeError for another model, ValueError for a setting that is not offered.
    """

    def __init__(
        self,
        model: Any,
        setting: int | None = None,
        *,
        beam_size: int = BEAM_SIZE,
        limits: Limits | None = None,
    ) -> None:
        self.model, self.beam_size, self.limits = model, beam_size, limits or Limits()
        self.slider = setting_of(model)
        self._setting = self.slider.check(self.slider.default if setting is None else setting)
        open_session(model, self._setting, beam_size)  # whatever is wrong shows now
        self._lock = threading.Lock()
        self._recording: Recording | None = None

    @property
    def setting(self) -> int:
        return self._setting

    @setting.setter
    def setting(self, value: int) -> None:
        self._setting = self.slider.check(value)

    @property
    def recording(self) -> int:
        """Number of the recording that is under way or was the last; -1 before the first."""
        return -1 if self._recording is None else self._recording.number

    @property
    def newest(self) -> tuple[int, float]:
        """Sequence of the block that came last, -1 for none, and how many seconds ago it came."""
        if self._recording is None:
            return -1, 0.0
        progress = self._recording.progress
        return progress.newest, time.monotonic() - progress.newest_at

    @property
    def busy(self) -> bool:
        return self.snapshot().phase in ("listening", "finishing")

    def take(self, chunk: Chunk) -> None:
        """A block of samples; one of a newer recording begins that and gives up an older one."""
        with self._lock:
            if chunk.recording < self.recording:
                return  # that text has been given up
            if chunk.recording > self.recording:
                self._open(chunk.recording, chunk.rate_hz)
            recording = self._recording
        recording.take(chunk)

    def malformed(self, reason: str) -> None:
        """A message that was no block."""
        if self._recording is not None:
            self._recording.malformed(reason)

    def play(self, source: str | PathLike[str] | Clip, *, realtime: bool = True) -> None:
        """Feed a file, as fast as it was spoken or as fast as the model takes it, and return at
        once.

        Raises `vrt.audio.AudioError` for a file that cannot be read.
        """
        clip = source if isinstance(source, Clip) else read(source)
        with self._lock:
            recording = self._open(max(self.recording + 1, time.time_ns() // 10**6), SAMPLE_RATE)
        threading.Thread(
            target=_play, args=(recording, clip, realtime), name="vrt file", daemon=True
        ).start()

    def end(self) -> None:
        """No more audio: the last words come out. What a browser still sends is not heard."""
        recording = self._recording
        if recording is not None:
            recording.stop()

    def wait(self, timeout: int | float | None = None) -> Snapshot:
        """Until the recording is over. Raises TimeoutError after `timeout` seconds."""
        if self._recording is not None and not self._recording.wait(timeout):
            raise TimeoutError(f"the recording is not over after {timeout:g} s; end() it first")
        return self.snapshot()

    def close(self) -> None:
        """Give up whatever is under way."""
        if self._recording is not None:
            self._recording.give_up()

    def snapshot(self) -> Snapshot:
        recording = self._recording
        if recording is None:
            return Snapshot()
        progress, pieces = recording.progress, recording.pieces
        ms = tuple(pieces.ms)
        heard = progress.heard
        return Snapshot(
            progress.phase,
            progress.message,
            heard.text,
            heard.tentative,
            progress.received_s,
            pieces.samples / SAMPLE_RATE,
            progress.queued_s,
            heard.behind_s,
            heard.beam,
            heard.memory,
            progress.counts,
            pieces.latency(),
            tuple(pieces.levels),
            ms,
        )

    def _open(self, number: int, rate_hz: int) -> Recording:
        fresh = partial(open_session, self.model, self._setting, self.beam_size)
        if self._recording is not None:
            self._recording.give_up()
        self._recording = Recording(number, rate_hz, fresh, self.limits)
        return self._recording


def _play(recording: Recording, clip: Clip, realtime: bool) -> None:
    start = time.monotonic()
    for block in cut(clip.samples, SAMPLE_RATE, recording.number):
        if realtime:
            time.sleep(max(0.0, start + block.end / SAMPLE_RATE - time.monotonic()))
        else:
            recording.wait_for_room(2 * BLOCK_MS / 1000)
        if recording.progress.phase != "listening":
            return
        recording.take(block)
