"""The trained small models on real recordings: text as it grows, and silence where nobody counts.

A feed is 80 ms. `said` of a recording is what the manifest says about it.
"""

import textwrap
import time
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from io import TextIOBase
from pathlib import Path
from typing import Any

from vrt.audio import Clip, read
from vrt.demo.record import said
from vrt.demo.screen import printable, screen_for
from vrt.loading import is_transducer, load
from vrt.paths import data_dir
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.speech import TransducerSession
from vrt.voxtral.session import StreamingSession

FEED = 1280  # samples
BEAM = 8
COLUMNS = 96
Grown = Iterator[tuple[str, str]]  # committed and tentative text, after each feed and at the end


@dataclass(frozen=True)
class Heard:
    """One recording through one model. `partial` counts feeds after which the text was another."""

    model: str
    recording: str
    said: str
    text: str
    partial: int
    audio_s: float
    work_s: float

    @property
    def real_time_factor(self) -> float:
        return self.work_s / self.audio_s


def hear_all(models: Sequence[str], recordings: Sequence[str], out: TextIOBase) -> list[Heard]:
    """Stream each recording through each model and print how the text grows."""
    found = []
    for name in models:
        model = load(name)
        for recording in recordings:
            clip = read(data_dir() / recording)
            _introduce(name, recording, clip, out)
            grown = transducer(model, clip) if is_transducer(name) else voxtral(model, clip)
            found.append(_hear(name, recording, clip, grown, out))
    return found


def transducer(model: Any, clip: Clip) -> Grown:
    """The beam commits what all its hypotheses agree on; the rest of the best one may change.

    Ranked by score alone: divided by its length, a bad long hypothesis beats the empty one where
    nothing was said.
    """
    session = TransducerSession(model, BeamConfig(beam_size=BEAM, score_norm=False))
    session.begin()
    for at in range(0, len(clip.samples), FEED):
        update = session.feed(clip.samples[at : at + FEED])
        yield update.text, update.tentative
    yield session.finalize().text, ""


def voxtral(model: Any, clip: Clip) -> Grown:
    """What is emitted is committed, at the model's own delay."""
    session = StreamingSession(model)
    session.begin()
    for at in range(0, len(clip.samples), FEED):
        session.feed(clip.samples[at : at + FEED])
        yield session.transcript.text, ""
    yield session.finalize().text, ""


def _hear(name: str, recording: str, clip: Clip, grown: Grown, out: TextIOBase) -> Heard:
    screen = screen_for(clip.seconds, out)
    start, partial, before, text, fed = time.perf_counter(), 0, "", "", 0
    try:
        for text, tentative in grown:
            fed = min(fed + FEED, len(clip.samples))
            partial += text + tentative != before
            before = text + tentative
            screen.show(fed / len(clip.samples) * clip.seconds, text, tentative)
    finally:
        screen.close()
    work = time.perf_counter() - start
    # digits-voxtral writes "five" with a ligature, whose bytes lie in two pieces.
    plain = unicodedata.normalize("NFKC", text).strip()
    heard = Heard(name, recording, said(recording), plain, partial, clip.seconds, work)
    _conclude(heard, out)
    return heard


def _introduce(name: str, recording: str, clip: Clip, out: TextIOBase) -> None:
    about = f'{name}: {Path(recording).name}, {clip.seconds:.2f} s, "{said(recording)}"'
    print(textwrap.fill(about, COLUMNS, subsequent_indent="  "), file=out, flush=True)


def _conclude(heard: Heard, out: TextIOBase) -> None:
    text = printable(heard.text, getattr(out, "encoding", None))
    verdict = f'"{text}"' if text else "nothing: no digit is said, and it knows no other word"
    speed = f"{heard.partial} partial texts; real-time factor {heard.real_time_factor:.3f}"
    print(f"  heard {verdict}\n  {speed}\n", file=out, flush=True)


def rows(found: Sequence[Heard]) -> list[dict[str, Any]]:
    """For the receipt."""
    return [asdict(one) | {"real_time_factor": one.real_time_factor} for one in found]
