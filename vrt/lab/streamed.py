"""A clip through a session in feeds, with the moment at which each token came out.

S samples (16 kHz). Times are seconds of audio received.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32

from vrt.audio import SAMPLE_RATE, Clip
from vrt.voxtral.config import LOOK_AHEAD, SAMPLES_PER_TOKEN, TOKEN_SECONDS
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.session import StreamingSession
from vrt.voxtral.transcript import Token, Transcript

ENVELOPE_STEP = 320  # samples: 20 ms


@dataclass(frozen=True)
class Emitted:
    """A token, and how much audio had been received when it came out."""

    token: Token
    at: float


@dataclass(frozen=True)
class Streamed:
    """`screen` is what could be read after each feed and after the end, with the audio received."""

    transcript: Transcript
    emitted: tuple[Emitted, ...]
    screen: tuple[tuple[float, str], ...]
    feed: int
    delay_ms: int
    clip: Clip

    def growth(self) -> list[tuple[float, str]]:
        """The moments at which the text became another one, space at its ends aside."""
        texts = [(at, text.strip()) for at, text in self.screen]
        before = ["", *(text for _, text in texts[:-1])]
        return [(at, t) for (at, t), b in zip(texts, before, strict=True) if t != b]

    def words(self) -> list[dict[str, Any]]:
        """For each word the audio that its tokens speak about, and `appeared`, when the last of
        them was put out: at the clip's length for what the end of the clip brought out."""
        with_text = [e for e in self.emitted if e.token.text.strip()]
        found = []
        for number, word in enumerate(self.transcript.words, start=1):
            own = (e for e in with_text if word.start <= e.token.start and e.token.end <= word.end)
            last = max(e.at for e in own)
            row = {"number": number, "word": word.text, "start": word.start, "end": word.end}
            found.append(row | {"delay_ms": self.delay_ms, "appeared": last})
        return found

    def timeline(self, said: str) -> dict[str, Any]:
        """What `vrt.lab.plot.delay_timeline` draws; `said` are the words of the clip."""
        starts, at = [e.token.start for e in self.emitted], [e.at for e in self.emitted]
        return timeline(self.clip, said, self.feed, self.delay_ms, starts, at)


def stream_clip(
    model: VoxtralRealtime,
    clip: Clip,
    delay_ms: int | None = None,
    feed: int = SAMPLES_PER_TOKEN,
) -> Streamed:
    """Feed `clip` in pieces of `feed` samples, as fast as the machine goes.

    Raises `DelayError` for a delay that the family of models does not know.
    """
    session = StreamingSession(model, delay_ms)
    session.begin()
    emitted: list[Emitted] = []
    screen: list[tuple[float, str]] = []
    text = ""
    for piece in pieces(clip.samples, feed):
        update = session.feed(piece)
        text += update.text
        emitted += [Emitted(token, update.audio_seconds) for token in update.tokens]
        screen.append((update.audio_seconds, text))
    transcript = session.finalize()
    emitted += [Emitted(token, clip.seconds) for token in transcript.tokens[len(emitted) :]]
    screen.append((clip.seconds, transcript.text))
    return Streamed(transcript, tuple(emitted), tuple(screen), feed, session.delay_ms, clip)


def timeline(
    clip: Clip, said: str, feed: int, delay_ms: int, starts: Sequence[float], at: Sequence[float]
) -> dict[str, Any]:
    """For `delay_timeline`: where the audio of each token starts, and when the token came."""
    return {
        "clip_s": clip.seconds,
        "said": said,
        "feed_s": feed / SAMPLE_RATE,
        "delay_s": delay_ms / 1000,
        "look_ahead_s": LOOK_AHEAD / SAMPLE_RATE,
        "token_s": TOKEN_SECONDS,
        "envelope_step_s": ENVELOPE_STEP / SAMPLE_RATE,
        "envelope": envelope(clip.samples),
        "starts": list(starts),
        "emitted": list(at),
    }


def pieces(samples: Float32[np.ndarray, " S"], feed: int) -> Iterator[Float32[np.ndarray, " n"]]:
    """Consecutive pieces of `feed` samples, the last one shorter."""
    for at in range(0, len(samples), feed):
        yield samples[at : at + feed]


def envelope(samples: Float32[np.ndarray, " S"]) -> list[float]:
    """The peak of every 20 ms."""
    return [round(float(np.abs(piece).max()), 4) for piece in pieces(samples, ENVELOPE_STEP)]
