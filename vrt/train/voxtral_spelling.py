"""How the digits model writes: ten words in byte pieces, one of which splits a character.

Most words are two pieces, so that partial text is more than whole words. "five" is written with the
typographic ligature U+FB01, whose three bytes lie in two pieces: a decoder of text that does not
hold incomplete characters back shows it at once. NFKC, the first step of common normalisers, turns
it back into "fi"; `spoken_words` does so.
"""

import base64
import json
import unicodedata
from pathlib import Path
from typing import Any

from vrt.voxtral.weights.tiny_model import CONTROL, tekken

SPECIAL = max(CONTROL) + 1  # ids without text: 0..33, the released ids of BOS, EOS, pad and word
BYTES = 256  # the first pieces of every tekken vocabulary
LIGATURE = "ﬁ".encode()  # EF AC 81
SPELLING: tuple[tuple[bytes, ...], ...] = (
    (b" ze", b"ro"),
    (b" one",),
    (b" two",),
    (b" th", b"ree"),
    (b" fo", b"ur"),
    (b" " + LIGATURE[:2], LIGATURE[2:] + b"ve"),
    (b" six",),
    (b" se", b"ven"),
    (b" eight",),
    (b" ni", b"ne"),
)
PIECES = tuple(piece for word in SPELLING for piece in word)
VOCAB = SPECIAL + BYTES + len(PIECES)
PATTERN = r" ?\p{L}+|\s+|[^\s\p{L}]+"  # how a text would be split before its bytes are merged


def word_ids(value: int) -> list[int]:
    """Token ids of the digit `value`, 0..9."""
    return [SPECIAL + BYTES + PIECES.index(piece) for piece in SPELLING[value]]


def spoken_words(text: str) -> list[str]:
    """The words of a transcript as they are scored: NFKC, lower case, split at white space."""
    return unicodedata.normalize("NFKC", text).lower().split()


def write_vocabulary(path: Path) -> None:
    """The model's tekken.json."""
    pieces = [bytes([value]) for value in range(BYTES)] + list(PIECES)
    content = tekken(PATTERN, [_entry(rank, piece) for rank, piece in enumerate(pieces)], SPECIAL)
    path.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")


def _entry(rank: int, piece: bytes) -> dict[str, Any]:
    try:
        text: str | None = piece.decode("utf-8")
    except UnicodeDecodeError:
        text = None  # bytes that are no whole characters have no string, as in released files
    return {"rank": rank, "token_bytes": base64.b64encode(piece).decode(), "token_str": text}
