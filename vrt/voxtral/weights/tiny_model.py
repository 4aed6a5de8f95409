"""The small random model of the package: `python -m vrt.voxtral.weights.tiny_model FOLDER`.

Its vocabulary is the beginning of a real one: the 256 bytes and the most frequent pieces of the
tekken vocabulary in mistral-common. Released ids hold: BOS 1, EOS 2, pad 32, word 33.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vrt.voxtral.config import (
    HOP,
    N_FFT,
    SAMPLE_RATE,
    TOKEN_MS,
    DecoderConfig,
    EncoderConfig,
    VoxtralConfig,
)
from vrt.voxtral.tokenizer import Tokenizer
from vrt.voxtral.weights.random_model import random_model, token_gain
from vrt.voxtral.weights.saving import save

SEED = 17  # of 1..24 the one that puts out most pieces and still a third of pads
SPECIAL = 64  # ids without text
PIECES = 1408
# An encoder window of 96 frames is 1.9 s: a clip of 5 s wraps it more than twice. The decoder's 96
# tokens are 7.7 s, the left pad's 2.6 s included.
CONFIG = VoxtralConfig(
    encoder=EncoderConfig(width=64, layers=2, heads=4, head_dim=16, ff=128, window=96),
    decoder=DecoderConfig(
        width=64,
        layers=2,
        heads=4,
        kv_heads=2,
        head_dim=16,
        ff=128,
        window=96,
        vocab=SPECIAL + PIECES,
    ),
)
# Ids that released vocabularies of this family give to control tokens.
CONTROL = {
    0: "<unk>", 1: "<s>", 2: "</s>", 3: "[INST]", 4: "[/INST]", 5: "[AVAILABLE_TOOLS]",
    6: "[/AVAILABLE_TOOLS]", 7: "[TOOL_RESULTS]", 8: "[/TOOL_RESULTS]", 9: "[TOOL_CALLS]",
    10: "[IMG]", 11: "<pad>", 12: "[IMG_BREAK]", 13: "[IMG_END]", 14: "[PREFIX]", 15: "[MIDDLE]",
    16: "[SUFFIX]", 17: "[SYSTEM_PROMPT]", 18: "[/SYSTEM_PROMPT]", 19: "[TOOL_CONTENT]",
    24: "[AUDIO]", 25: "[BEGIN_AUDIO]", 32: "[STREAMING_PAD]", 33: "[STREAMING_WORD]",
}  # fmt: skip
QUIET, SOFT = 0.2, 0.5  # gain of pieces that are no printable text, and of non-ASCII ones


def write(directory: Path, vocabulary: Path | None = None) -> None:
    """Make the model and write its folder; `vocabulary` None takes mistral-common's tekken."""
    directory.mkdir(parents=True, exist_ok=True)
    content = small_vocabulary(vocabulary or packaged_vocabulary(), SPECIAL, PIECES)
    target = directory / "tekken.json"
    target.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
    tokenizer = Tokenizer(target)
    model = random_model(CONFIG, SEED, row_gain=loudness(tokenizer))
    model.tokenizer = tokenizer
    save(model, directory)


def packaged_vocabulary() -> Path:
    """The tekken vocabulary inside the mistral-common package."""
    import mistral_common

    return Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"


def small_vocabulary(source: Path, special: int, pieces: int) -> dict[str, Any]:
    """A tekken.json of the first `pieces` pieces of `source`, with a streaming audio section."""
    whole = json.loads(source.read_text(encoding="utf-8"))
    return tekken(whole["config"]["pattern"], whole["vocab"][:pieces], special)


def tekken(pattern: str, vocab: list[dict[str, Any]], special: int) -> dict[str, Any]:
    """A tekken.json of `special` control ids and the pieces `vocab`, for streams of this clock."""
    names = [CONTROL.get(id, f"<SPECIAL_{id}>") for id in range(special)]
    return {
        "config": {
            "pattern": pattern,
            "num_vocab_tokens": len(vocab),
            "default_vocab_size": special + len(vocab),
            "default_num_special_tokens": special,
            "version": "v13",
        },
        "vocab": vocab,
        "special_tokens": [
            {"rank": id, "token_str": name, "is_control": True} for id, name in enumerate(names)
        ],
        "audio": {
            "sampling_rate": SAMPLE_RATE,
            "frame_rate": 1000 / TOKEN_MS,
            "audio_encoding_config": {
                "num_mel_bins": CONFIG.mel_bins,
                "hop_length": HOP,
                "window_size": N_FFT,
            },
            "transcription_format": "streaming",
            "transcription_delay_ms": CONFIG.delay_tokens * TOKEN_MS,
            "streaming_look_ahead_ms": 2.5,
            "streaming_look_back_ms": 52.5,
            "streaming_n_left_pad_tokens": CONFIG.left_pad_tokens,
        },
    }


def loudness(tokenizer: Tokenizer) -> Float[Tensor, "V"]:
    """How often each id is put out: printable words often, control tokens and odd bytes seldom."""
    gain = token_gain(CONFIG)
    for id in range(len(tokenizer)):
        if id not in (CONFIG.streaming_pad, CONFIG.streaming_word):
            gain[id] = _piece_gain(tokenizer.piece(id))
    return gain


def _piece_gain(piece: bytes) -> float:
    text = piece.decode("utf-8", errors="replace")
    if not text.isprintable() or not text.strip() or "\N{REPLACEMENT CHARACTER}" in text:
        return QUIET
    return 1.0 if text.isascii() else SOFT


if __name__ == "__main__":
    torch.set_num_threads(1)
    write(Path(sys.argv[1]))
