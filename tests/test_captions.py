"""Captions: grouping, times and escapes, against readers written from the formats' descriptions."""

import html
import re
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrt import captions
from vrt.captions import Cue, CueStream, clock, cues, srt, vtt
from vrt.voxtral.transcript import Word

SRT_TIME = r"(\d{2,}):([0-5]\d):([0-5]\d),(\d{3})"
VTT_TIME = r"(\d{2,}):([0-5]\d):([0-5]\d)\.(\d{3})"


def parse(text, time):
    """[(start ms, end ms, lines)] as a player reads it: a cue ends at an empty line."""
    found = []
    for block in re.split(r"\n{2,}", text.strip("\n")):
        if not block:
            continue
        lines = block.split("\n")
        at = next((i for i, line in enumerate(lines) if "-->" in line), None)
        assert at is not None, block
        match = re.fullmatch(f"{time} --> {time}", lines[at])
        assert match, lines[at]
        numbers = [int(n) for n in match.groups()]
        start, end = (
            ((h * 60 + m) * 60 + s) * 1000 + ms for h, m, s, ms in (numbers[:4], numbers[4:])
        )
        assert "-->" not in "".join(lines[at + 1 :])
        found.append((start, end, lines[at + 1 :]))
    return found


def parse_vtt(text):
    header, _, rest = text.partition("\n\n")
    assert header == "WEBVTT"
    assert not re.search(r"[<>]|&(?!amp;|lt;|gt;)", rest.replace(" --> ", " "))
    return [
        (start, end, [html.unescape(line) for line in lines])
        for start, end, lines in parse(rest, VTT_TIME)
    ]


def spoken(*timed):
    return [Word(text, start, end) for text, start, end in timed]


# --- times ------------------------------------------------------------------------------------


@given(st.integers(0, 400 * 3_600_000))
def test_clock_agrees_with_the_standard_library(milliseconds):
    hours, minutes, rest = clock(milliseconds / 1000, ".").split(":")
    seconds, thousandths = rest.split(".")
    assert len(hours) >= 2 and len(minutes) == len(seconds) == 2 and len(thousandths) == 3
    read = timedelta(hours=int(hours), minutes=int(minutes), seconds=float(rest))
    assert read == timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "00:00:00,000"),
        (0.08, "00:00:00,080"),
        (59.9996, "00:01:00,000"),  # rounding the seconds alone gives 60.000
        (3599.9999, "01:00:00,000"),
        (359_999.9999, "100:00:00,000"),
        (-0.08, "00:00:00,000"),
    ],
)
def test_clock_rounds_as_a_whole(seconds, text):
    assert clock(seconds, ",") == text


def test_a_clock_that_rounds_the_seconds_alone_would_be_caught():
    wrong = f"{int(59.9996 // 60):02}:{59.9996 % 60:06.3f}"
    assert wrong == "00:60.000"
    assert not re.fullmatch(VTT_TIME, f"00:{wrong}")


# --- grouping ---------------------------------------------------------------------------------


def test_a_pause_starts_a_cue():
    gap = captions.PAUSE
    words = spoken(("so", 0.0, 0.4), ("long", 0.4, 0.8), ("then", 0.8 + gap, 2.0))
    assert [cue.text for cue in cues(words)] == ["so long", "then"]
    words[2] = Word("then", 0.8 + gap - 0.08, 2.0)
    assert [cue.text for cue in cues(words)] == ["so long then"]


def test_a_cue_holds_two_lines():
    words = [Word("abcdef", i * 0.1, i * 0.1 + 0.1) for i in range(20)]
    found = cues(words)
    lines = [line for _, _, lines in parse(srt(found), SRT_TIME) for line in lines]
    assert len(found) == 2
    # six words of six letters and five spaces are 41 characters
    assert [len(line.split()) for line in lines] == [6, 6, 6, 2]


def test_a_cue_does_not_last_for_ever():
    words = [Word("a", i * 0.7, i * 0.7 + 0.6) for i in range(30)]  # no pause, few characters
    assert all(cue.end - cue.start <= captions.LONGEST for cue in cues(words))


def test_a_short_word_stays_readable_but_never_covers_the_next():
    alone = cues(spoken(("no", 1.0, 1.08)))
    assert alone == [Cue("no", 1.0, 1.0 + captions.SHORTEST)]
    wide = "x" * captions.LINE
    first, second = cues(spoken((wide, 1.0, 1.08), (wide, 1.08, 1.16), ("yes", 1.2, 2.5)))
    assert (first.end, second.start) == (1.2, 1.2)


def test_words_inside_inserted_zeros_have_no_length_and_still_make_a_cue():
    (cue,) = cues(spoken(("ah", 3.0, 3.0), ("so", 3.0, 3.0)))
    assert cue.start == 3.0 and cue.end > cue.start


def test_cues_of_one_moment_still_end_after_they_start():
    wide = "x" * captions.LINE
    found = cues(spoken(*[(wide, 3.0, 3.0)] * 5))
    times = [(start, end) for start, end, _ in parse(srt(found), SRT_TIME)]
    assert times == [(3000, 3001), (3001, 3002), (3002, 3502)]


def test_no_words_no_cues():
    assert cues([]) == [] and srt([]) == "" and vtt([]) == "WEBVTT\n\n"


def test_words_of_control_characters_only_are_no_cue():
    assert cues(spoken(("\x00", 0.0, 0.1), ("\x1b", 0.1, 0.2))) == []


# --- what may stand in the text ---------------------------------------------------------------

NASTY = ["a&b", "<i>x</i>", "-->", "--->", "x-->y", "&amp;", "\x1b[31m", "a\x00b", "é", "語", "1"]


def test_vtt_escapes_are_undone_by_html():
    words = [Word(text, i * 0.2, i * 0.2 + 0.2) for i, text in enumerate(NASTY)]
    texts = " ".join(" ".join(lines) for _, _, lines in parse_vtt(vtt(cues(words))))
    kept = " ".join(re.sub(r"[\x00-\x1f]", " ", text).strip() for text in NASTY)
    assert texts == kept


def test_srt_text_holds_no_arrow_and_no_empty_line():
    words = [Word(text, i * 0.2, i * 0.2 + 0.2) for i, text in enumerate(NASTY)]
    found = parse(srt(cues(words)), SRT_TIME)
    assert found and all(line.strip() for _, _, lines in found for line in lines)
    assert "x->y" in " ".join(" ".join(lines) for _, _, lines in found)


def test_srt_numbers_count_up():
    words = [Word("word", i * 2.0, i * 2.0 + 0.5) for i in range(12)]
    numbers = [int(block.split("\n")[0]) for block in srt(cues(words)).strip().split("\n\n")]
    assert numbers == list(range(1, 13))


# --- any words at all -------------------------------------------------------------------------

texts = st.sampled_from(["x" * 30, "y" * 50, "so"]) | st.text(min_size=1, max_size=9).filter(
    lambda text: not re.search(r"\s", text)
)


@st.composite
def timelines(draw):
    """Words in order; as in a transcript, one may start in the 80 ms in which the last ended."""
    now, words = 0, []
    for text in draw(st.lists(texts, max_size=25)):
        start = max(0, now + draw(st.integers(-1, 30)))
        end = start + draw(st.integers(0, 20))
        words.append(Word(text, start * 0.08, end * 0.08))
        now = end
    return words


@given(timelines(), st.integers(1, 7))
def test_cues_do_not_depend_on_how_the_words_come(words, step):
    stream = CueStream()
    live = [c for i in range(0, len(words), step) for c in stream.feed(words[i : i + step])]
    assert live + stream.finish() == cues(words)


@given(timelines())
def test_every_word_is_in_a_cue_that_both_formats_carry(words):
    found = cues(words)
    said = " ".join(filter(None, (captions.readable(word.text) for word in words))).split()
    assert " ".join(cue.text for cue in found).split() == said
    as_vtt, as_srt = parse_vtt(vtt(found)), parse(srt(found), SRT_TIME)
    assert len(as_vtt) == len(as_srt) == len(found)
    assert " ".join(" ".join(lines) for _, _, lines in as_vtt).split() == said
    assert [(start, end) for start, end, _ in as_vtt] == [(s, e) for s, e, _ in as_srt]
    assert all(start < end for start, end, _ in as_vtt)


@given(timelines())
def test_cues_come_in_order_and_fit_the_screen(words):
    found = cues(words)
    starts = [cue.start for cue in found]
    assert starts == sorted(starts)
    for cue, following in pairwise(found):
        assert cue.end <= following.start
    for cue in found:
        (_, _, lines) = parse(srt([cue]), SRT_TIME)[0]
        assert len(lines) <= captions.LINES or " " not in cue.text
        assert all(len(line) <= captions.LINE or " " not in line for line in lines)
        assert cue.end - cue.start <= captions.LONGEST or " " not in cue.text
