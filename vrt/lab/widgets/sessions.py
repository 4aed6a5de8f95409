"""The two kinds of session behind one live view, and what each shows after a piece of audio.

n samples at 16 kHz.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32

from vrt.rnnt.acoustic import AcousticTransducer
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.speech import FRAME_SECONDS, TransducerSession
from vrt.voxtral.cache import KVRing
from vrt.voxtral.config import TOKEN_MS
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.schedule import MAX_DELAY_TOKENS
from vrt.voxtral.session import StreamingSession
from vrt.voxtral.transcript import Transcript

NEVER = 0  # a transducer's setting: doubts are settled by the beam alone
COMMIT_AFTER_MS = (200, 400, 800, 1600, 3200)
BEAM_SIZE = 8


@dataclass(frozen=True)
class Setting:
    """The one slider of a session: text sooner, or text that is surer."""

    name: str
    note: str
    values: tuple[int, ...]
    labels: tuple[str, ...]
    default: int

    def check(self, value: int) -> int:
        """Raises ValueError for a value that the slider does not have."""
        if value not in self.values:
            known = ", ".join(f"{v}" for v in self.values)
            raise ValueError(f"{self.name.lower()} {value!r} is not offered; choose of {known}")
        return value


@dataclass(frozen=True)
class BeamLine:
    """A living hypothesis: its text and its two scores (natural logarithms)."""

    text: str
    score: float
    norm_score: float


@dataclass(frozen=True)
class Gauge:
    """How full a memory is: `used` of `size` `unit`s; `detail` says the rest."""

    name: str
    used: int
    size: int
    unit: str
    detail: str


@dataclass(frozen=True)
class Heard:
    """`text` is committed, all of it, and never taken back. `tentative` is how it may go on.

    `behind_s`: audio that the session has and has not decoded yet, the delay it was asked for
    included.
    """

    text: str = ""
    tentative: str = ""
    behind_s: float = 0.0
    beam: tuple[BeamLine, ...] = ()
    memory: tuple[Gauge, ...] = ()


@runtime_checkable
class LiveSession(Protocol):
    """One stream: begin, feed and finalize once each, from one thread."""

    def begin(self) -> None: ...

    def feed(self, samples: Float32[np.ndarray, "n"]) -> Heard: ...

    def finalize(self) -> Heard: ...


class LiveTransducer:
    """A small transducer: what the beam agrees on is committed, the best hypothesis shows on."""

    def __init__(self, model: AcousticTransducer, commit_after_ms: int, beam_size: int) -> None:
        frames = round(commit_after_ms / 1000 / FRAME_SECONDS) if commit_after_ms else None
        self.model, self.beam_size = model, beam_size
        self.session = TransducerSession(model, BeamConfig(beam_size), commit_after=frames)

    def begin(self) -> None:
        self.session.begin()

    def feed(self, samples: Float32[np.ndarray, "n"]) -> Heard:
        update = self.session.feed(samples)
        waiting = update.beam.waiting
        return self._heard(update.text, update.tentative, waiting)

    def finalize(self) -> Heard:
        return self._heard(self.session.finalize().text, "", 0)

    def _heard(self, text: str, tentative: str, waiting: int) -> Heard:
        nbest = self.session.hypotheses()
        lines = [BeamLine(self.model.text(h.tokens), h.score, h.norm_score) for h in nbest]
        alive = Gauge("beam", len(lines), self.beam_size, "hypotheses", "alive after the last feed")
        return Heard(text, tentative, waiting * FRAME_SECONDS, tuple(lines), (alive,))


class LiveVoxtral:
    """A Voxtral model: every token is final when it comes, `delay_ms` behind its audio."""

    def __init__(self, model: VoxtralRealtime, delay_ms: int) -> None:
        self.named = model.tokenizer is not None
        self.session = StreamingSession(model, delay_ms)

    def begin(self) -> None:
        self.session.begin()

    def feed(self, samples: Float32[np.ndarray, "n"]) -> Heard:
        update = self.session.feed(samples)
        return self._heard(self.session.transcript, update.lag_seconds)

    def finalize(self) -> Heard:
        return self._heard(self.session.finalize(), 0.0)

    def _heard(self, said: Transcript, behind_s: float) -> Heard:
        text = said.text if self.named else " ".join(map(str, said.ids))
        memory = tuple(_gauge(name, ring) for name, ring in self.session.rings.items())
        return Heard(text, "", behind_s, (), memory)


def _gauge(name: str, ring: KVRing) -> Gauge:
    unit = {"encoder": "frames of 20 ms", "decoder": f"tokens of {TOKEN_MS} ms"}[name]
    detail = f"slot {ring.cursor} of {ring.capacity}, {ring.compactions} compactions"
    return Gauge(f"{name} ring", min(ring.seen, ring.window), ring.window, unit, detail)


def setting_of(model: Any) -> Setting:
    """The slider of a model. Raises TypeError for what is no model of `vrt.load`."""
    if isinstance(model, VoxtralRealtime):
        delays = tuple(TOKEN_MS * n for n in range(1, MAX_DELAY_TOKENS + 1))
        own = TOKEN_MS * model.config.delay_tokens
        labels = tuple(f"{ms} ms" for ms in delays)
        return Setting("Delay", "how far the text stays behind the audio", delays, labels, own)
    if isinstance(model, AcousticTransducer):
        labels = (*(f"{ms / 1000:g} s" for ms in COMMIT_AFTER_MS), "never")
        note = "when a doubt between hypotheses is settled for the best one"
        return Setting("Settle after", note, (*COMMIT_AFTER_MS, NEVER), labels, NEVER)
    raise TypeError(f"live takes a model of vrt.load, got {type(model).__name__}: {model!r:.60}")


def open_session(model: Any, value: int, beam_size: int = BEAM_SIZE) -> LiveSession:
    """A fresh session at the slider's `value`. Raises as `setting_of`, and ValueError."""
    value = setting_of(model).check(value)
    if isinstance(model, VoxtralRealtime):
        return LiveVoxtral(model, value)
    return LiveTransducer(model, value, beam_size)
