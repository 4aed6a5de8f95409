"""How a live stream looks: growing text, lines of JSON, growing captions, or one document."""

from dataclasses import dataclass

from vrt import captions
from vrt.cli.documents import Result, render, round_or_none, tokens_json, words_json
from vrt.cli.models import OpenModel
from vrt.cli.options import Format
from vrt.cli.output import as_line, shown
from vrt.cli.sources import Source
from vrt.voxtral.transcript import Transcript


@dataclass(frozen=True)
class Moment:
    """Where a stream stands, in seconds; `behind` the clock is None without a pace."""

    audio: float
    lag: float
    behind: float | None


@dataclass(frozen=True)
class Ending:
    """How a stream ended. `busy_seconds`: of work, without waiting for audio."""

    audio_seconds: float
    busy_seconds: float
    interrupted: bool
    stopped_at_eos: bool
    behind_seconds: float | None

    @property
    def real_time_factor(self) -> float | None:
        return self.busy_seconds / self.audio_seconds if self.audio_seconds else None


class TextScreen:
    """Text as it becomes known; ids where the model has no vocabulary."""

    def __init__(self, has_text: bool):
        self.has_text = has_text

    def show(self, part: Transcript, moment: Moment) -> None:
        ids = "".join(f"{id} " for id in part.ids)
        _put(shown(part.text if self.has_text else ids))

    def end(self, ending: Ending | None) -> None:
        _put("\n")


class JsonScreen:
    """A line for each part that holds a token, and a last one with the whole text."""

    def __init__(self, has_text: bool):
        self.has_text = has_text
        self._texts: list[str] = []
        self._tokens = self._words = 0

    def show(self, part: Transcript, moment: Moment) -> None:
        self._texts.append(part.text)
        self._tokens, self._words = self._tokens + len(part.ids), self._words + len(part.words)
        if not (part.tokens or part.words or part.tail):
            return
        values = {
            "text": part.text if self.has_text else None,
            "tokens": tokens_json(part.tokens),
            "words": words_json(part.words),
            "audio_seconds": moment.audio,
            "lag_seconds": moment.lag,
        }
        if moment.behind is not None:
            values["behind_seconds"] = round_or_none(moment.behind)
        _put(as_line(values) + "\n")

    def end(self, ending: Ending | None) -> None:
        if ending is None:
            return
        values = {
            "final": True,
            "text": "".join(self._texts) if self.has_text else None,
            "token_count": self._tokens,
            "word_count": self._words,
            "audio_seconds": ending.audio_seconds,
            "seconds": round(ending.busy_seconds, 3),
            "real_time_factor": round_or_none(ending.real_time_factor),
            "interrupted": ending.interrupted,
            "stopped_at_eos": ending.stopped_at_eos,
            "behind_seconds": round_or_none(ending.behind_seconds),
        }
        _put(as_line(values) + "\n")


class CaptionScreen:
    """Each cue as soon as the word after it is known."""

    def __init__(self, format: Format):
        self.format = format
        self._cues = captions.CueStream()
        self._count = 0
        if format is Format.VTT:
            _put(captions.VTT_HEADER)

    def show(self, part: Transcript, moment: Moment) -> None:
        self._write(self._cues.feed(part.words))

    def end(self, ending: Ending | None) -> None:
        self._write(self._cues.finish())

    def _write(self, cues: list[captions.Cue]) -> None:
        if not cues:
            return
        srt = self.format is Format.SRT
        _put(captions.srt(cues, self._count + 1) if srt else captions.vtt_cues(cues))
        self._count += len(cues)


class DocumentScreen:
    """Nothing until the end, then the JSON document that `vrt transcribe` writes."""

    def __init__(self, source: str, model: str, has_text: bool, delay_ms: int, changes: tuple):
        self.about = (source, model, delay_ms)
        self.has_text, self.changes = has_text, changes
        self._whole = Transcript()

    def show(self, part: Transcript, moment: Moment) -> None:
        self._whole.tokens += part.tokens
        self._whole.words += part.words
        self._whole.tail = part.tail

    def end(self, ending: Ending | None) -> None:
        if ending is None:
            return
        result = Result(
            *self.about,
            transcript=self._whole,
            has_text=self.has_text,
            audio_seconds=ending.audio_seconds,
            seconds=ending.busy_seconds,
            changes=self.changes,
            interrupted=ending.interrupted,
        )
        _put(render(result, Format.JSON))


Screen = TextScreen | JsonScreen | CaptionScreen | DocumentScreen


def screen_for(
    format: Format, lines: bool, model: OpenModel, source: Source, delay_ms: int
) -> Screen:
    """`lines`: JSON line by line, whatever `format`."""
    if lines:
        return JsonScreen(model.has_text)
    if format in (Format.SRT, Format.VTT):
        return CaptionScreen(format)
    if format is Format.JSON:
        return DocumentScreen(source.name, model.name, model.has_text, delay_ms, source.changes)
    return TextScreen(model.has_text)


def _put(text: str) -> None:
    if text:
        print(text, end="", flush=True)
