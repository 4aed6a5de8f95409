"""Token ids to bytes, through mistral-common's tekken vocabulary.

Ids below the number of special tokens (1000 in released vocabularies) are control tokens without
text; the others index byte pieces, which may split a UTF-8 character.
"""

from os import PathLike
from pathlib import Path


class Tokenizer:
    """The text side of a tekken.json."""

    def __init__(self, path: str | PathLike[str]):
        from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer

        self._tekken = Tekkenizer.from_file(Path(path))
        self._ignore = SpecialTokenPolicy.IGNORE

    def piece(self, id: int) -> bytes:
        """The bytes of a token; none for a special token."""
        if id < self._tekken.num_special_tokens:
            return b""
        return self._tekken.id_to_byte_piece(id, self._ignore)
