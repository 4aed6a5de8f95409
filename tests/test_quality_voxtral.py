"""Words' ends in test strings, a string encoded once for all delays, and when text can be there."""

import numpy as np
import pytest
from quality_cases import tones

import vrt
from vrt.quality import delay, stability
from vrt.quality.clips import strings_of
from vrt.quality.errors import QualityError
from vrt.quality.hearing import hear, needed_seconds, said_at, scored_text, write
from vrt.quality.timed import latencies, timed, timed_strings
from vrt.train.corpus import Digit
from vrt.train.strings import test_strings as joined
from vrt.train.voxtral_streams import audible_end
from vrt.voxtral.schedule import Schedule
from vrt.voxtral.session import StreamingSession
from vrt.voxtral.transcript import Token


@pytest.fixture(scope="module")
def model():
    return vrt.load("random-tiny")


@pytest.fixture(scope="module")
def samples():
    return joined(tones().unheard(), 1, 2, 20.0)[0].samples


def test_ends_of_words_are_where_the_sound_ends():
    """Clips of full scale, then of silence: the sound's end is known, and plain to see."""
    pool = []
    for value in range(10):
        clip = np.zeros(3000 + 100 * value, dtype=np.float32)
        clip[: 1600 + 160 * value] = 1
        pool.append(Digit(value, "lucas", 0, clip))
    for string in timed(pool, 4, 7, 60.0):
        loud = np.abs(string.example.samples) > 0.5
        falls = np.flatnonzero(np.diff(loud.astype(int)) < 0) + 1
        assert string.ends == tuple(falls.tolist())
        assert len(string.ends) == len(string.example.text.split())


def test_timed_strings_are_the_strings_of_the_set():
    corpus = tones()
    plain, with_ends = (f(corpus, "unheard_5_db", 4) for f in (strings_of, timed_strings))
    for one, two in zip(plain, with_ends, strict=True):
        assert one.text == two.example.text
        assert np.array_equal(one.samples, two.example.samples)
    first = with_ends[0].ends[0]
    digits = {d.word: d for d in corpus.unheard()}
    end = audible_end(digits[plain[0].text.split()[0]].samples)
    assert first == 3200 + end  # after the 0.2 s before every string


def test_latencies_are_of_words_in_strings_without_errors():
    strings = timed_strings(tones(), "unheard_5_db", 3)
    texts = [s.example.text for s in strings]
    times = [[end / 16_000 + 0.3 for end in s.ends] for s in strings]
    late = latencies(strings, texts, times)
    assert len(late) == sum(len(s.ends) for s in strings)
    assert late == pytest.approx([0.3] * len(late))
    assert len(latencies(strings, [texts[0], "", "no"], times)) == len(strings[0].ends)


@pytest.mark.parametrize("tokens", [1, 6, 30])
def test_encoded_once_is_encoded_for_each(model, samples, tokens):
    once = write(model, hear(model, samples), tokens)
    whole = vrt.transcribe(model, samples, tokens * 80)
    assert once == whole


def test_conditioning_changes_the_embedding_alone(model, samples):
    """With its own delay it is the plain transcript and what comes of more zeros; with another one
    only the gains differ from it."""
    heard = hear(model, samples)
    plain, same, other = (write(model, heard, 6, conditioned) for conditioned in (None, 6, 20))
    assert same.ids[: len(plain.ids)] == plain.ids and len(same.ids) == len(plain.ids) + 24
    assert other.ids != same.ids and len(other.ids) == len(same.ids)
    assert Schedule.of(model.config, 6).prompt_len == 39  # whatever is conditioned


def test_a_position_needs_the_audio_that_a_stream_needs(model, samples):
    """The formula against a session fed a hop at a time: a token is there after no less audio."""
    session = StreamingSession(model, 80)
    session.begin()
    came = {}
    for first in range(0, len(samples), 40):
        for token in session.feed(samples[first : first + 40]).tokens:
            came[token.position] = (first + 40) / 16_000
    assert len(came) > 5
    left_pad = model.config.left_pad_tokens
    for position, seconds in came.items():
        assert seconds == pytest.approx(needed_seconds(position, left_pad), abs=1e-9)


def test_words_are_whole_with_their_last_piece():
    pieces = [" th", "", "ree", "", " ", "ﬁve", " one"]
    tokens = [Token(n, text, 0.0, 0.0, 40 + n) for n, text in enumerate(pieces)]
    assert said_at(tokens, 32) == [needed_seconds(p, 32) for p in (42, 45, 46)]
    assert needed_seconds(32, 32) == pytest.approx(0.0825)  # 80 ms, and 2.5 ms of the window


def test_shown_text_never_changes(model, samples):
    found = stability.stability(model, [samples] * 2, np.random.default_rng(1))
    assert found["strings"] == 2 and found["committed_changes"] == 0
    assert found["pieces"] > 0 and found["feeds_with_text"] <= found["feeds"]


def test_a_stream_that_is_not_the_offline_one_is_caught(model, samples, monkeypatch):
    def fed(session, _samples, _rng):
        session.reset()
        session.begin()
        session.feed(np.zeros(8000, dtype=np.float32))
        return [session.finalize().text]

    monkeypatch.setattr(stability, "_fed", fed)
    with pytest.raises(QualityError, match="not the offline ones"):
        stability.stability(model, [samples], np.random.default_rng(1))


def test_shown_text_that_is_taken_back_is_caught(model, samples, monkeypatch):
    honest = stability._fed
    monkeypatch.setattr(stability, "_fed", lambda *given: ["never said", *honest(*given)])
    with pytest.raises(QualityError, match="string 0: shown 'never said', in the end"):
        stability.stability(model, [samples], np.random.default_rng(1))


def test_a_word_that_grows_is_counted():
    inside = stability._inside
    assert inside(" th", " three one") and not inside(" three", " three one")
    assert not inside("", " three") and not inside(" three one", " three one")


def test_outcomes_by_delay(model, monkeypatch):
    """Three strings through all of `vrt quality delay`."""
    monkeypatch.setattr(delay, "DELAYS", (1, 6))
    strings = timed_strings(tones(), "unheard_15_db", 2)
    heard = [hear(model, s.example.samples) for s in strings]
    lines = []
    found = delay.by_delay(model, strings, heard, lines.append)
    assert list(found) == ["80_ms", "480_ms"] and len(lines) == 2
    assert found["480_ms"]["less_480_ms"] == {"points": 0.0, "points_95": [0.0, 0.0]}
    texts = [scored_text(vrt.transcribe(model, s.example.samples, 80)) for s in strings]
    assert texts == [scored_text(write(model, h, 1)) for h in heard]
