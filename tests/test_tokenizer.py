"""Ids to bytes and text: mistral-common's own vocabulary, its decoding, and unknown ids."""

import base64
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vrt.paths import data_dir
from vrt.voxtral.schedule import Schedule
from vrt.voxtral.tokenizer import STREAMING_PAD, Tokenizer, TokenizerError
from vrt.voxtral.weights import load
from vrt.voxtral.weights.tiny_model import packaged_vocabulary

TINY = data_dir() / "models" / "random-tiny" / "tekken.json"
SENTENCE = "Zoë naïvely paid 5 € for 東京の寿司, then said: здравствуйте, مرحبا, 🎙️👩‍🚀!"


@pytest.fixture(scope="module")
def real() -> Tokenizer:
    path = packaged_vocabulary()
    if not path.is_file():
        pytest.skip(f"this mistral-common carries no {path.name}")
    return Tokenizer(path)


@pytest.fixture(scope="module")
def tiny() -> Tokenizer:
    return Tokenizer(TINY)


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    """By mistral-common itself; this package has no need to encode."""
    return tokenizer._tekken.encode(text, bos=False, eos=False)


def test_released_vocabulary_layout(real: Tokenizer) -> None:
    assert (len(real), real.special_tokens) == (131_072, 1000)
    assert real.special_id("<s>") == 1 and real.special_id("</s>") == 2
    assert real.special_id("[no such token]") is None
    assert real.left_pad_tokens is None and real.delay_tokens is None  # no audio section in it
    assert all(real.piece(id) == b"" for id in range(1000))
    assert [real.piece(1000 + byte) for byte in range(256)] == [bytes([b]) for b in range(256)]


def test_pieces_are_those_of_the_file(real: Tokenizer) -> None:
    vocabulary = json.loads(packaged_vocabulary().read_text(encoding="utf-8"))["vocab"]
    for id in (1000, 1255, 1256, 1400, 2000, 50_000, 131_071):
        assert real.piece(id) == base64.b64decode(vocabulary[id - 1000]["token_bytes"])


def test_real_text_comes_back(real: Tokenizer) -> None:
    ids = encode(real, SENTENCE)
    assert real.decode(ids) == SENTENCE
    split = [id for id in ids if "\ufffd" in real.piece(id).decode("utf-8", errors="replace")]
    assert len(split) > 4, "no piece of this sentence splits a character"


@given(st.text(max_size=40))
def test_any_text_comes_back(tiny: Tokenizer, text: str) -> None:
    assert tiny.decode(encode(tiny, text)) == text


@given(st.lists(st.integers(0, 1471), max_size=30))
def test_decoding_is_mistral_commons_where_no_special_token_splits_a_character(
    tiny: Tokenizer, ids: list[int]
) -> None:
    plain = [id for id in ids if id >= tiny.special_tokens]
    assert tiny.decode(plain) == tiny._tekken.decode(plain)
    assert tiny.decode(ids) == tiny.decode(plain)


def test_a_pad_inside_a_character_does_not_break_it(real: Tokenizer) -> None:
    """mistral-common decodes the runs between special tokens one by one, and loses the sign."""
    first, *rest = (1000 + byte for byte in "€".encode())
    pad = 32
    assert real.decode([first, pad, *rest]) == "€"
    assert "€" not in real._tekken.decode([first, pad, *rest])


@pytest.mark.parametrize("id", [-1, 131_072, 10**12])
def test_ids_outside_are_refused_by_name(real: Tokenizer, id: int) -> None:
    with pytest.raises(TokenizerError, match=f"token id {id} is outside the vocabulary of 131,072"):
        real.piece(id)
    with pytest.raises(TokenizerError, match=str(id)):
        real.decode([1, id])


def test_ids_of_arrays_and_tensors_are_ids(tiny: Tokenizer) -> None:
    assert tiny.piece(np.int64(100)) == tiny.piece(torch.tensor(100)) == tiny.piece(100) == b"$"
    with pytest.raises(TypeError):
        tiny.piece(100.0)  # type: ignore[arg-type]


def test_the_shipped_vocabulary_is_the_beginning_of_the_real_one(
    real: Tokenizer, tiny: Tokenizer
) -> None:
    assert (len(tiny), tiny.special_tokens) == (1472, 64)
    assert [tiny.piece(64 + n) for n in range(1408)] == [real.piece(1000 + n) for n in range(1408)]


def test_shipped_vocabulary_is_a_streaming_one_to_mistral_common(tiny: Tokenizer) -> None:
    """Its `AudioEncoder` makes the prompt and the paddings that our schedule has."""
    from mistral_common.tokens.tokenizers.audio import Audio, AudioEncoder, SpecialAudioIDs

    audio, special = tiny._tekken.audio, tiny.special_id
    ids = SpecialAudioIDs(
        audio=special("[AUDIO]"),
        begin_audio=special("[BEGIN_AUDIO]"),
        streaming_pad=special(STREAMING_PAD),
        text_to_audio=None,
        audio_to_text=None,
    )
    encoder = AudioEncoder(audio, ids)
    config = load("random-tiny").config
    assert (tiny.left_pad_tokens, tiny.delay_tokens) == (32, 6)
    for delay in (1, 6, 30):
        for samples in (1, 1279, 1280, 48_000):
            schedule = Schedule.of(config, delay)
            clip = Audio(np.zeros(samples, dtype=np.float32), 16_000, "wav")
            encoded = encoder.encode_audio(clip, transcription_delay_ms=80 * delay)
            assert [tiny.special_id("<s>"), *encoded.tokens] == schedule.prompt
            assert len(encoded.audio.audio_array) == 1280 * schedule.positions(samples)


def changed(tmp_path: Path, change: Callable[[dict], object]) -> Path:
    content = json.loads(TINY.read_text(encoding="utf-8"))
    change(content)
    path = tmp_path / "tekken.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda c: c["audio"].update(sampling_rate=24_000), "(24000, 1920.0, 160, 400)"),
        (lambda c: c["audio"].update(frame_rate=25.0, transcription_delay_ms=40), "640.0, 160"),
        (lambda c: c["audio"]["audio_encoding_config"].update(hop_length=320), "320, 400)"),
        (lambda c: c["config"].update(version="v99"), "Unknown version: v99"),
        (lambda c: c["vocab"].pop(300), "no usable tekken vocabulary (AssertionError"),
        (lambda c: c.pop("vocab"), "no usable tekken vocabulary (KeyError"),
        (
            lambda c: c["audio"].update(streaming_n_left_pad_tokens=520),
            "tokens is 520, not a whole",
        ),
        (lambda c: c["audio"].update(streaming_n_left_pad_tokens=-5), "tokens is -5, not a whole"),
        (
            lambda c: c["audio"].update(streaming_n_left_pad_tokens="x"),
            "tokens is 'x', not a whole",
        ),
        (
            lambda c: c["audio"].update(transcription_delay_ms=7920),
            "delay_ms: delay_ms=7920 is not",
        ),
        (lambda c: c["audio"].update(surprise=1), "no usable tekken vocabulary (TypeError"),
    ],
)
def test_unusable_vocabularies_are_refused_by_name(
    tmp_path: Path, change: Callable[[dict], object], complaint: str
) -> None:
    path = changed(tmp_path, change)
    with pytest.raises(TokenizerError) as error:
        Tokenizer(path)
    assert complaint in str(error.value) and str(path) in str(error.value)


def test_files_that_are_no_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"tekken\.json is not there"):
        Tokenizer(tmp_path / "tekken.json")
    (tmp_path / "tekken.json").write_text("not json")
    with pytest.raises(TokenizerError, match="no usable tekken vocabulary"):
        Tokenizer(tmp_path / "tekken.json")
    (tmp_path / "tekken.json").write_text("[" * 100_000)
    with pytest.raises(TokenizerError, match="RecursionError"):
        Tokenizer(tmp_path / "tekken.json")
    (tmp_path / "tekken.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TokenizerError, match="no usable tekken vocabulary"):
        Tokenizer(tmp_path / "tekken.json")
