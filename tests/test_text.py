"""Committed text only grows, is whole characters, and has the times of the tokens it came from."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vrt
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.schedule import Schedule
from vrt.voxtral.tokenizer import Tokenizer
from vrt.voxtral.transcript import TextStream, Transcript, WordStream
from vrt.voxtral.weights.tiny_model import packaged_vocabulary
from vrt.voxtral.writer import TranscriptWriter

PAD, WORD = 32, 33
STEP = 0.08  # seconds a token


@dataclass
class Pieces:
    """A vocabulary for a test: ids from 64 on are the given pieces, others have no text."""

    pieces: list[bytes]

    def piece(self, id: int) -> bytes:
        return self.pieces[id - 64] if id >= 64 else b""


@pytest.fixture(scope="module")
def model() -> VoxtralRealtime:
    return vrt.load("random-tiny")


def writer(model: VoxtralRealtime, pieces: list[bytes]) -> TranscriptWriter:
    model.tokenizer = Pieces(pieces)  # type: ignore[assignment]
    return TranscriptWriter(model, Schedule.of(model.config, 6))


def written(model: VoxtralRealtime, *tokens: bytes | int) -> Transcript:
    """The transcript of pieces (bytes) and special tokens (ids)."""
    pieces = [token for token in tokens if isinstance(token, bytes)]
    numbers = iter(range(64, 64 + len(pieces)))
    out = writer(model, pieces)
    out.write([next(numbers) if isinstance(token, bytes) else token for token in tokens])
    out.finish()
    return out.transcript


def spans(transcript: Transcript) -> list[tuple[str, int, int]]:
    """Words with the numbers of their first token and of the one after their last."""
    return [(w.text, round(w.start / STEP), round(w.end / STEP)) for w in transcript.words]


# Characters of one to four bytes, a zero-width joiner, white space of several kinds, controls.
CHARACTERS = st.sampled_from("aé€🎙\u200d\u0301\u3000 \n\tx\x00ß")
TEXTS = st.text(st.one_of(CHARACTERS, st.characters(exclude_categories=["Cs"])), max_size=25)


@st.composite
def streams(draw: st.DrawFn) -> tuple[str, list[bytes | int]]:
    """A text cut into pieces anywhere, with pads and word marks between them."""
    text = draw(TEXTS)
    data = text.encode()
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(data) - 1)), max_size=20)))
    edges = [0, *(cut for cut in cuts if cut < len(data)), len(data)]
    tokens: list[bytes | int] = []
    for start, end in pairwise(edges):
        tokens += draw(st.lists(st.sampled_from([PAD, WORD, 0, 2]), max_size=2))
        tokens.append(data[start:end])
    return text, tokens


@given(streams(), st.lists(st.integers(1, 5), min_size=1))
def test_committed_text_grows_by_whole_characters(
    model: VoxtralRealtime, stream: tuple[str, list[bytes | int]], groups: list[int]
) -> None:
    text, tokens = stream
    pieces = [token for token in tokens if isinstance(token, bytes)]
    numbers = iter(range(64, 64 + len(pieces)))
    ids = [next(numbers) if isinstance(token, bytes) else token for token in tokens]
    out = writer(model, pieces)
    heard, shown, at = b"", "", 0
    while at < len(ids):
        group = ids[at : at + groups[at % len(groups)]]
        at += len(group)
        new, _ = out.write(group)
        shown += "".join(token.text for token in new)
        heard += b"".join(out.tokenizer.piece(id) for id in group)
        assert shown == heard.decode("utf-8", errors="ignore")  # all that is whole, nothing more
        assert out.transcript.text == shown and text.startswith(shown)
    assert out.finish()[0] == "" and out.transcript.text == text
    assert out.transcript.ids == ids


@given(streams())
def test_words_are_the_text_between_white_space_and_word_marks(
    model: VoxtralRealtime, stream: tuple[str, list[bytes | int]]
) -> None:
    """The oracle goes by characters: each has the token of its first byte and of its last."""
    text, tokens = stream
    owner = [n for n, t in enumerate(tokens) if isinstance(t, bytes) for _ in t]
    expected: list[list] = []
    last_token, at, open_word = -1, 0, False
    for character in text:
        first, last = owner[at], owner[at + len(character.encode()) - 1]
        at += len(character.encode())
        if WORD in tokens[last_token + 1 : last]:
            open_word = False
        if character.isspace():
            open_word = False
        elif open_word:
            expected[-1] = [expected[-1][0] + character, expected[-1][1], last + 1]
        else:
            expected.append([character, first, last + 1])
            open_word = True
        last_token = last
    assert spans(written(model, *tokens)) == [tuple(word) for word in expected]


@given(st.lists(st.binary(min_size=1, max_size=4), max_size=15))
def test_any_bytes_become_what_python_makes_of_the_whole(
    model: VoxtralRealtime, pieces: list[bytes]
) -> None:
    whole = b"".join(pieces).decode("utf-8", errors="replace")
    transcript = written(model, *pieces)
    assert transcript.text == whole == str(transcript)
    assert "".join(word.text for word in transcript.words) == "".join(whole.split())


def test_a_character_over_three_tokens_belongs_to_the_last_and_starts_with_the_first(
    model: VoxtralRealtime,
) -> None:
    transcript = written(model, b"a ", b"\xe2", PAD, b"\x82", b"\xac5", b" b")
    assert [token.text for token in transcript.tokens] == ["a ", "", "", "", "€5", " b"]
    assert spans(transcript) == [("a", 0, 1), ("€5", 1, 5), ("b", 5, 6)]


def test_text_behind_a_split_character_starts_with_its_own_token(model: VoxtralRealtime) -> None:
    transcript = written(model, b"\xe2\x82", b"\xac b\xc3", b"\xa9")
    assert spans(transcript) == [("€", 0, 2), ("bé", 1, 3)]


def test_word_marks_split_without_white_space_and_leave_no_text(model: VoxtralRealtime) -> None:
    transcript = written(model, b"to", b"day", WORD, b"is", WORD, WORD, PAD, b" so")
    assert transcript.text == "todayis so"
    assert spans(transcript) == [("today", 0, 2), ("is", 3, 4), ("so", 7, 8)]
    assert [token.id for token in transcript.tokens if not token.text] == [WORD, WORD, WORD, PAD]


def test_an_incomplete_end_is_one_replacement_character(model: VoxtralRealtime) -> None:
    transcript = written(model, b"ok ", b"\xf0\x9f", PAD)
    assert transcript.text == "ok \ufffd" and transcript.tail == "\ufffd"
    assert "".join(token.text for token in transcript.tokens) == "ok "
    assert spans(transcript) == [("ok", 0, 1), ("\ufffd", 1, 3)]


def test_drained_parts_make_the_whole(model: VoxtralRealtime) -> None:
    pieces = [b"one tw", b"o", b" thr\xc3", b"\xa9e four"]
    whole, out = written(model, *pieces), writer(model, pieces)
    parts = []
    for id in range(64, 68):
        out.write([id])
        parts.append(out.drain())
        assert out.transcript == Transcript()
    out.finish()
    parts.append(out.drain())
    assert "".join(part.text for part in parts) == whole.text == "one two thrée four"
    assert [t for part in parts for t in part.tokens] == whole.tokens
    assert [w for part in parts for w in part.words] == whole.words


def test_token_times_are_those_of_the_audio_they_speak_about(model: VoxtralRealtime) -> None:
    """Left pad and delay taken off: the prompt's last position speaks about the first 80 ms."""
    transcript = written(model, *[b"x"] * 4)
    assert [(t.start, t.end) for t in transcript.tokens] == [
        (0.0, 0.08),
        (0.08, 0.16),
        (0.16, 0.24),
        (0.24, 0.32),
    ]
    assert [token.position for token in transcript.tokens] == [38, 39, 40, 41]


def test_without_a_vocabulary_there_are_ids_and_times_but_no_text(model: VoxtralRealtime) -> None:
    model.tokenizer = None
    out = TranscriptWriter(model, Schedule.of(model.config, 6))
    out.write([70, 71, WORD])
    out.finish()
    assert (out.transcript.text, out.transcript.words) == ("", [])
    assert out.transcript.ids == [70, 71, WORD] and out.transcript.tokens[-1].end == 3 * STEP


def test_real_pieces_split_real_characters(model: VoxtralRealtime) -> None:
    path = packaged_vocabulary()
    if not path.is_file():
        pytest.skip(f"this mistral-common carries no {path.name}")
    real = Tokenizer(path)
    sentence = "Übergrößen: 東京の寿司 и здоровье 🎙️ ไทย"
    ids = real._tekken.encode(sentence, bos=False, eos=False)
    transcript = written(model, *[real.piece(id) for id in ids])
    assert transcript.text == sentence
    held = [
        t for t, id in zip(transcript.tokens, ids, strict=True) if not t.text and real.piece(id)
    ]
    assert len(held) > 3, "no character of this sentence is split over pieces"
    assert [word.text for word in transcript.words] == sentence.split()
    assert all(a.end <= b.start for a, b in pairwise(transcript.words))


def test_text_stream_holds_no_more_than_one_character() -> None:
    text = TextStream()
    assert (text.feed(b"\xf0\x9f\x8e"), text.holds) == ("", True)
    assert (text.feed(b"\x99z"), text.holds) == ("🎙z", False)
    assert (text.feed(b"\xff"), text.holds) == ("\ufffd", False)  # never valid: not waited for
    assert (text.feed(b"\xe2\x82"), text.feed(b"A"), text.holds) == ("", "\ufffdA", False)
    assert text.finish() == ""


def test_word_stream_closes_once() -> None:
    words = WordStream()
    assert words.feed("ab", 0.0, 0.1) == []
    assert [w.text for w in words.feed("c d", 0.1, 0.2)] == ["abc"]
    assert [(w.text, w.start, w.end) for w in words.close()] == [("d", 0.1, 0.2)]
    assert words.close() == []


def test_a_stream_and_the_offline_path_have_one_text() -> None:
    """Greedy output of a random model: pads, word marks, pieces that split characters."""
    model = vrt.load("random-tiny")
    clip = np.random.default_rng(0).normal(size=48_000).astype(np.float32) * 0.1
    offline = vrt.transcribe(model, clip)
    session = vrt.StreamingSession(model)
    session.begin()
    updates = [session.feed(clip[at : at + 777]) for at in range(0, len(clip), 777)]
    shown = "".join(update.text for update in updates)
    assert session.transcript.text == shown and offline.text.startswith(shown)
    assert session.finalize() == offline and len(shown) > 20
    words = [word for update in updates for word in update.words]
    assert words == offline.words[: len(words)]


def test_text_without_spaces_is_cut_into_words_of_bounded_length():
    """A script without spaces, or a model that puts none: memory stays bounded, captions come."""
    words = WordStream()
    done = [word for n in range(1000) for word in words.feed("語", n * 0.08, n * 0.08 + 0.08)]
    assert {len(word.text) for word in done} == {100} and len(done) == 10
    assert (done[1].start, done[1].end) == (100 * 0.08, 199 * 0.08 + 0.08)
