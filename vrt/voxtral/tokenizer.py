"""Token ids to bytes, through mistral-common's tekken vocabulary.

Ids below the number of special tokens (1000 in released vocabularies) are control tokens without
text; the others index byte pieces, which may split a UTF-8 character.
"""

import operator
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import SupportsIndex

from vrt.voxtral import schedule
from vrt.voxtral.config import HOP, MOST_LEFT_PAD, N_FFT, SAMPLE_RATE, SAMPLES_PER_TOKEN

BOS, EOS = "<s>", "</s>"
STREAMING_PAD, STREAMING_WORD = "[STREAMING_PAD]", "[STREAMING_WORD]"

# What mistral-common lets through from a damaged file.
DAMAGED = (AssertionError, AttributeError, KeyError, TypeError, ValueError, OSError, RecursionError)


class TokenizerError(ValueError):
    """A vocabulary that cannot be read, or an id that is not in it."""


class Tokenizer:
    """The text side of a tekken.json, and what that file says about the audio side.

    Raises `TokenizerError` for a file that mistral-common does not take, or whose audio section
    means another clock, padding or delay than this engine's.
    """

    def __init__(self, path: str | PathLike[str]):
        from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer

        self.path = Path(path)
        if not self.path.is_file():
            raise TokenizerError(f"{self.path} is not there; a vocabulary is a tekken.json")
        try:
            self._tekken = Tekkenizer.from_file(self.path)
        except DAMAGED as error:
            cause = f"{type(error).__name__}: {str(error)[:200]}"
            raise TokenizerError(f"{self.path} is no usable tekken vocabulary ({cause})") from error
        self._ignore = SpecialTokenPolicy.IGNORE
        self._check_audio()

    def __len__(self) -> int:
        """How many ids there are, special ones included."""
        return self._tekken.n_words

    @property
    def special_tokens(self) -> int:
        """How many ids at the beginning are control tokens without text."""
        return self._tekken.num_special_tokens

    def piece(self, id: SupportsIndex) -> bytes:
        """The bytes of a token; none for a special token."""
        index = operator.index(id)
        if not 0 <= index < len(self):
            raise TokenizerError(
                f"token id {index} is outside the vocabulary of {len(self):,} ids in {self.path}"
            )
        return self._tekken.id_to_byte_piece(index, self._ignore)

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """Text of a whole sequence; bytes that form no character become U+FFFD.

        Special tokens between the bytes of a character do not break it.
        """
        return b"".join(self.piece(id) for id in ids).decode("utf-8", errors="replace")

    def special_id(self, name: str) -> int | None:
        """The id of a special token such as `[STREAMING_PAD]`; None where the file has none."""
        return self._tekken.get_special_token(name) if self._tekken.is_special(name) else None

    @property
    def left_pad_tokens(self) -> int | None:
        """Tokens of zeros before the audio; None in a vocabulary without a streaming section."""
        audio = self._tekken.audio
        return audio.streaming_n_left_pad_tokens if audio else None

    @property
    def delay_tokens(self) -> int | None:
        """The delay (tokens of 80 ms) of a session that asks for none; None as above."""
        audio = self._tekken.audio
        delay_ms = audio.transcription_delay_ms if audio else None
        return None if delay_ms is None else schedule.delay_tokens(delay_ms)

    def _check_audio(self) -> None:
        audio = self._tekken.audio
        if audio is None:
            return
        spectrogram = audio.encoding_config
        found = (
            audio.sampling_rate,
            audio.sampling_rate / audio.frame_rate,
            spectrogram.hop_length,
            spectrogram.window_size,
        )
        if found != (SAMPLE_RATE, SAMPLES_PER_TOKEN, HOP, N_FFT):
            raise TokenizerError(
                f"{self.path}: (Hz, samples a token, hop, window) are {found}; this engine runs at"
                f" {(SAMPLE_RATE, SAMPLES_PER_TOKEN, HOP, N_FFT)}"
            )
        pad = audio.streaming_n_left_pad_tokens
        if pad is not None and not (isinstance(pad, int) and 0 <= pad <= MOST_LEFT_PAD):
            raise TokenizerError(
                f"{self.path}: streaming_n_left_pad_tokens is {pad!r}, not a whole number of"
                f" 0..{MOST_LEFT_PAD}"
            )
        try:
            _ = self.delay_tokens
        except schedule.DelayError as error:
            raise TokenizerError(f"{self.path}: transcription_delay_ms: {error}") from error
