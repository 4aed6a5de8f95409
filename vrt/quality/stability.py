"""Whether text that a Voxtral stream has shown ever changes, and what is shown in between.

S samples (16 kHz).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from vrt.quality.errors import QualityError
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.offline import transcribe
from vrt.voxtral.session import StreamingSession

LARGEST_FEED = 4000  # samples: 250 ms


def stability(
    model: VoxtralRealtime,
    strings: Sequence[Float32[ndarray, " S"]],
    rng: np.random.Generator,
    delay_ms: int | None = None,
) -> dict[str, Any]:
    """Feed each string in pieces of random sizes.

    `feeds_inside_a_word`: what was on the screen after them ended in a word that then grew.
    `pieces_held_back`: tokens of which not all bytes were shown at once, since a character was not
    complete.

    Raises:
        QualityError: text that was shown changed, or the end differs from the offline transcript.
    """
    totals = {"strings": 0, "feeds": 0, "feeds_with_text": 0, "feeds_inside_a_word": 0}
    totals |= {"pieces": 0, "pieces_held_back": 0, "characters": 0, "committed_changes": 0}
    session = StreamingSession(model, delay_ms)
    for place, samples in enumerate(strings):
        shown = _fed(session, samples, rng)
        transcript = session.transcript
        if transcript.ids != transcribe(model, samples, delay_ms).ids:
            raise QualityError(f"string {place}: the stream's tokens are not the offline ones")
        final = transcript.text
        for text in shown:
            if not final.startswith(text):
                raise QualityError(f"string {place}: shown {text!r}, in the end {final!r}")
        sizes = [(_size(model, t.id), len(t.text.encode())) for t in transcript.tokens]
        totals["strings"] += 1
        totals["feeds"] += len(shown)
        before = ["", *shown[:-1]]
        totals["feeds_with_text"] += sum(a != b for a, b in zip(before, shown, strict=True))
        totals["feeds_inside_a_word"] += sum(_inside(text, final) for text in shown)
        totals["pieces"] += sum(size > 0 for size, _ in sizes)
        totals["pieces_held_back"] += sum(seen < size for size, seen in sizes)
        totals["characters"] += len(final)
    return totals


def _fed(
    session: StreamingSession, samples: Float32[ndarray, " S"], rng: np.random.Generator
) -> list[str]:
    """What was on the screen after each feed and at the end: the updates put together."""
    session.reset()
    session.begin()
    screen, shown, at = "", [], 0
    while at < len(samples):
        size = int(rng.integers(1, LARGEST_FEED + 1))
        screen += session.feed(samples[at : at + size]).text
        shown.append(screen)
        at += size
    shown.append(session.finalize().text)
    return shown


def _size(model: VoxtralRealtime, id: int) -> int:
    """Bytes of a token."""
    return len(model.tokenizer.piece(id)) if model.tokenizer else 0


def _inside(text: str, final: str) -> bool:
    """The screen ended in the middle of a word."""
    following = final[len(text) : len(text) + 1]
    return bool(text.strip()) and bool(following) and not following.isspace()
