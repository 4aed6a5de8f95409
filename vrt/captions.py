"""Words with times as captions: grouped into cues at pauses and at readable lengths, SRT or WebVTT.

Times are seconds of audio. Sources: the SubRip file format; W3C WebVTT, section 4 (syntax).
"""

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

PAUSE = 0.8  # seconds without a word that end a cue
LINE = 42  # characters a line, as broadcasters set them
LINES = 2
LONGEST = 7.0  # seconds of speech in one cue
SHORTEST = 0.5  # seconds a cue stays, where the next one leaves room

ARROW = re.compile("-{2,}>")  # SubRip has no escapes, and readers look for this between two times
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")  # some of these would end a line
VTT_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


@runtime_checkable
class TimedWord(Protocol):
    """Anything that was said from `start` to `end`."""

    @property
    def text(self) -> str: ...
    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Cue:
    """One caption. `start` is never before 0 and `end` always after it."""

    text: str
    start: float
    end: float


class CueStream:
    """Words in order to cues, as soon as each is certain: the word after a cue decides its end.

    The cues do not depend on how the words are split over the calls.
    """

    def __init__(self) -> None:
        self._words: list[TimedWord] = []
        self._free = 0.0  # seconds; where the last cue ended

    def feed(self, words: Iterable[TimedWord]) -> list[Cue]:
        cues: list[Cue] = []
        for word in words:
            if not readable(word.text):
                continue
            if self._words and self._breaks_before(word):
                cues.append(self._close(word.start))
            self._words.append(word)
        return cues

    def finish(self) -> list[Cue]:
        """The last cue, where any word is left."""
        return [self._close(None)] if self._words else []

    def _close(self, until: float | None) -> Cue:
        cue = _cue(self._words, self._free, until)
        self._words, self._free = [], cue.end
        return cue

    def _breaks_before(self, word: TimedWord) -> bool:
        first, last = self._words[0], self._words[-1]
        return (
            word.start - last.end >= PAUSE
            or word.end - first.start > LONGEST
            or len(_lines(_joined([*self._words, word]))) > LINES
        )


def cues(words: Iterable[TimedWord]) -> list[Cue]:
    """All cues of a finished transcript."""
    stream = CueStream()
    return stream.feed(words) + stream.finish()


def srt(found: Sequence[Cue], first: int = 1) -> str:
    """SubRip text of the cues, numbered from `first`; an empty string where there are none."""
    return "".join(
        f"{number}\n{_span(cue, ',')}\n{ARROW.sub('->', _set(cue.text))}\n\n"
        for number, cue in enumerate(found, first)
    )


def vtt(found: Sequence[Cue]) -> str:
    """A whole WebVTT file; a live one is `VTT_HEADER` and then `vtt_cues` of each part."""
    return VTT_HEADER + vtt_cues(found)


VTT_HEADER = "WEBVTT\n\n"


def vtt_cues(found: Sequence[Cue]) -> str:
    """The cues as they stand after the header; `&`, `<` and `>` are escaped, so is `-->`."""
    return "".join(f"{_span(cue, '.')}\n{_escaped(_set(cue.text))}\n\n" for cue in found)


def clock(seconds: float, point: str) -> str:
    """HH:MM:SS and milliseconds after `point`; hours go on past 99."""
    # Rounded once, as a whole: 59.9996 s is a minute, not 60.000 s.
    minutes, milliseconds = divmod(round(max(seconds, 0.0) * 1000), 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{milliseconds // 1000:02}{point}{milliseconds % 1000:03}"


def _cue(words: Sequence[TimedWord], free: float, until: float | None) -> Cue:
    """One cue from `free` on, for at least `SHORTEST` unless the next one starts at `until`.

    Where both start in one moment this one lasts a millisecond, and the next one starts after it.
    """
    start = max(words[0].start, free)
    end = max(start, *(word.end for word in words))
    end = max(end, start + SHORTEST)
    if until is not None and until < end:
        end = max(until, start + 0.001)  # both formats want an end after the start
    return Cue(_joined(words), start, end)


def readable(text: str) -> str:
    """`text` without control characters; empty where nothing else is in it."""
    return CONTROLS.sub(" ", text).strip()


def _joined(words: Sequence[TimedWord]) -> str:
    return " ".join(readable(word.text) for word in words)


def _span(cue: Cue, point: str) -> str:
    return f"{clock(cue.start, point)} --> {clock(cue.end, point)}"


def _set(text: str) -> str:
    """In lines, none of them empty: an empty one would end the cue."""
    return "\n".join(_lines(text))


def _lines(text: str) -> list[str]:
    return textwrap.wrap(text, LINE, break_long_words=False, break_on_hyphens=False)


def _escaped(text: str) -> str:
    return "".join(VTT_ESCAPES.get(character, character) for character in text)
