"""What a stream has said: tokens with their times, text that never changes once shown, words.

Times are seconds of the caller's audio, left pad, delay and inserted zeros taken off.
"""

import codecs
import re
from dataclasses import dataclass, field

LONGEST_WORD = 100  # characters; text in a script without spaces is cut there


@dataclass(frozen=True, slots=True)
class Token:
    """One decoder output. `start`..`end` are the 80 ms of audio that it speaks about.

    Tokens about zeros that a flush or the end put in lie at the edge of the caller's audio.

    `text` is what became showable with it: empty for special tokens, and for a token whose bytes
    end inside a UTF-8 character (the token that completes the character carries it).
    """

    id: int
    text: str
    start: float
    end: float
    position: int  # decoder position that put it out


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Update:
    """What one call made final. Nothing in it is ever taken back."""

    text: str
    tokens: tuple[Token, ...]
    words: tuple[Word, ...]  # those that this call completed
    audio_seconds: float  # of the caller's audio, since begin
    lag_seconds: float  # audio received that no token has been decoded for yet
    ended: bool = False  # EOS was met and the session was asked to stop at it


@dataclass
class Transcript:
    """Everything committed since the stream began, or since it was last drained."""

    tokens: list[Token] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    tail: str = ""  # stands for a last character that never got all of its bytes

    @property
    def text(self) -> str:
        return "".join(token.text for token in self.tokens) + self.tail

    @property
    def ids(self) -> list[int]:
        return [token.id for token in self.tokens]

    def said_share(self, *silent: int) -> float:
        """Share of tokens that are none of `silent` (pad, word mark): on silence, what is made up.

        0.0 where there is no token.
        """
        said = sum(token.id not in silent for token in self.tokens)
        return said / len(self.tokens) if self.tokens else 0.0

    def __str__(self) -> str:
        return self.text


class TextStream:
    """Bytes to text: a character is held back until all of its bytes are there."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, piece: bytes) -> str:
        return self._decoder.decode(piece)

    def finish(self) -> str:
        """The replacement character for what was held back and never completed."""
        return self._decoder.decode(b"", final=True)

    @property
    def holds(self) -> bool:
        return bool(self._decoder.getstate()[0])


class WordStream:
    """Groups text into words at white space and where the model says that a word begins."""

    def __init__(self) -> None:
        self._text = ""
        self._start = self._end = 0.0

    def feed(self, text: str, start: float, end: float) -> list[Word]:
        words: list[Word] = []
        for part in re.split(r"(\s+)", text):
            if part.isspace():
                words += self.close()
            elif part:
                self._start = self._start if self._text else start
                self._text, self._end = self._text + part, end
                if len(self._text) >= LONGEST_WORD:
                    words += self.close()
        return words

    def close(self) -> list[Word]:
        if not self._text:
            return []
        word = Word(self._text, self._start, self._end)
        self._text = ""
        return [word]
