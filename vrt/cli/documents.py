"""A finished transcript as text, JSON or captions."""

from dataclasses import asdict, dataclass
from typing import Any

from vrt import captions
from vrt.cli.options import Format
from vrt.cli.output import as_line
from vrt.voxtral.transcript import Token, Transcript, Word


@dataclass(frozen=True)
class Result:
    """A transcript, and how it came about. `seconds` is the time that it took."""

    source: str
    model: str
    delay_ms: int
    transcript: Transcript
    has_text: bool  # False: the model has no vocabulary, so there are token ids only
    audio_seconds: float
    seconds: float
    changes: tuple[str, ...] = ()
    interrupted: bool = False

    @property
    def real_time_factor(self) -> float | None:
        """Seconds of work a second of audio; None without audio."""
        return self.seconds / self.audio_seconds if self.audio_seconds else None


def render(result: Result, format: Format) -> str:
    """The whole document, with its last line feed."""
    words = result.transcript.words
    if format is Format.JSON:
        return as_line(document(result)) + "\n"
    if format is Format.SRT:
        return captions.srt(captions.cues(words))
    if format is Format.VTT:
        return captions.vtt(captions.cues(words))
    if result.has_text:
        return result.transcript.text + "\n"
    return " ".join(map(str, result.transcript.ids)) + "\n"


def document(result: Result) -> dict[str, Any]:
    """Plain values for JSON. Times are seconds of audio, but for `seconds`: those of the clock."""
    return {
        "file": result.source,
        "model": result.model,
        "delay_ms": result.delay_ms,
        "text": result.transcript.text if result.has_text else None,
        "words": words_json(result.transcript.words),
        "tokens": tokens_json(result.transcript.tokens),
        "audio_seconds": result.audio_seconds,
        "seconds": round(result.seconds, 3),
        "real_time_factor": round_or_none(result.real_time_factor),
        "changes": list(result.changes),
        "interrupted": result.interrupted,
    }


def words_json(words: list[Word] | tuple[Word, ...]) -> list[dict[str, Any]]:
    return [asdict(word) for word in words]


def tokens_json(tokens: list[Token] | tuple[Token, ...]) -> list[dict[str, Any]]:
    return [{"id": t.id, "text": t.text, "start": t.start, "end": t.end} for t in tokens]


def round_or_none(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
