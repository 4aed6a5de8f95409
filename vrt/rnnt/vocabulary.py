"""What a transducer's labels stand for: pieces by id, text from ids, ids from text.

Blank is no label: it comes after the last piece.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


class VocabularyError(ValueError):
    """Ids or a text that a vocabulary has nothing for; says what and the way out."""


@dataclass(frozen=True)
class Vocabulary:
    """`pieces` by id. Without a `model` a text is its pieces put together, as in models of
    characters; with one (the bytes of a SentencePiece model) the library sentencepiece says so."""

    pieces: tuple[str, ...]
    model: bytes | None = field(default=None, repr=False)

    @classmethod
    def of_model(cls, model: bytes) -> "Vocabulary":
        """Pieces as the SentencePiece model has them."""
        processor = sentencepiece(model)
        pieces = (processor.id_to_piece(n) for n in range(processor.get_piece_size()))
        return cls(tuple(pieces), model)

    def __len__(self) -> int:
        return len(self.pieces)

    def text(self, tokens: Iterable[int]) -> str:
        """The transcript.

        Raises:
            VocabularyError: an id without a piece, blank among them.
        """
        tokens = [int(token) for token in tokens]
        for token in tokens:
            if not 0 <= token < len(self):
                raise VocabularyError(
                    f"label {token} has no piece: ids are 0..{len(self) - 1}, and blank is to be"
                    " left out"
                )
        if self.model is None:
            return "".join(self.pieces[token] for token in tokens)
        return self._processor.decode(tokens)

    def tokens(self, text: str) -> tuple[int, ...]:
        """The ids that spell a text, as a training transcript or a phrase to look out for.

        Raises:
            VocabularyError: a character without a piece, where there is no SentencePiece model.
        """
        if self.model is not None:
            return tuple(self._processor.encode(text))
        for character in text:
            if character not in self._ids:
                raise VocabularyError(
                    f"{character!r} of {text!r} is not in the vocabulary, which has"
                    f" {''.join(self.pieces)!r}"
                )
        return tuple(self._ids[character] for character in text)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: number for number, piece in enumerate(self.pieces)}

    @cached_property
    def _processor(self) -> Any:
        return sentencepiece(self.model)


def sentencepiece(model: bytes) -> Any:
    """The library's processor of a model's bytes."""
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise VocabularyError(
            "text of SentencePiece ids needs the library sentencepiece (pip install sentencepiece);"
            " ids and pieces are there without it"
        ) from error
    try:
        return SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        raise VocabularyError(
            f"{len(model):,} bytes are no SentencePiece model ({error}); unpack the archive and"
            " look at its tokenizer.model"
        ) from error
