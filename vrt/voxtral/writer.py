"""From token ids to a transcript: text, times and words, the same for a stream and offline."""

from collections.abc import Iterable

from vrt.voxtral.config import SAMPLES_PER_TOKEN
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.schedule import AudioClock, Schedule
from vrt.voxtral.transcript import TextStream, Token, Transcript, Word, WordStream


class TranscriptWriter:
    """Takes tokens in order and keeps the transcript; `clock` maps stream time to the caller's."""

    def __init__(self, model: VoxtralRealtime, schedule: Schedule):
        self.tokenizer, self.schedule = model.tokenizer, schedule
        self.streaming_word = model.config.streaming_word
        self.next_position = schedule.prompt_len - 1  # the prompt's last gives the first token
        self.transcript = Transcript()
        self.clock = AudioClock()
        self._text, self._words = TextStream(), WordStream()
        self._held_since: float | None = None  # start of a character that is not complete
        self._end = 0.0  # seconds, of the last token

    def write(self, ids: Iterable[int]) -> tuple[list[Token], list[Word]]:
        """Commit tokens as they come; returns them with their text, and the words they close."""
        tokens: list[Token] = []
        words: list[Word] = []
        for id in ids:
            tokens.append(self._token(id))
            closed = self._word(tokens[-1])
            self.transcript.tokens.append(tokens[-1])
            self.transcript.words += closed
            words += closed
        return tokens, words

    def close_word(self) -> list[Word]:
        """The word that is under way, if any, as a word that ends here."""
        words = self._words.close()
        self.transcript.words += words
        return words

    def finish(self) -> tuple[str, list[Word]]:
        """The end of the stream: an incomplete character is replaced, the last word closed."""
        tail = self._text.finish()
        since = self._end if self._held_since is None else self._held_since
        words = self._words.feed(tail, since, self._end) + self._words.close()
        self.transcript.tail = tail
        self.transcript.words += words
        return tail, words

    def drain(self) -> Transcript:
        """Hand over what was committed and keep nothing of it."""
        drained, self.transcript = self.transcript, Transcript()
        return drained

    def _token(self, id: int) -> Token:
        piece = self.tokenizer.piece(id) if self.tokenizer else b""
        sample = self.schedule.audio_start(self.next_position)
        start = self.clock.seconds(sample)
        self._end = self.clock.seconds(sample + SAMPLES_PER_TOKEN)
        self.next_position += 1
        return Token(id, self._text.feed(piece), start, self._end, self.next_position - 1)

    def _word(self, token: Token) -> list[Word]:
        """Words that `token` closes; a word starts with the token that held its first byte."""
        if token.id == self.streaming_word:
            return self._words.close()
        held = self._held_since
        if not self._text.holds:
            self._held_since = None
        elif token.text or held is None:
            self._held_since = token.start
        if held is None:
            return self._words.feed(token.text, token.start, token.end)
        # The first character began with an earlier token, those behind it with this one.
        first, rest = token.text[:1], token.text[1:]
        begun = self._words.feed(first, held, token.end)
        return begun + self._words.feed(rest, token.start, token.end)
