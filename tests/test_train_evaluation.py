"""Strings, word errors and intervals, and the command that trains."""

from itertools import pairwise

import numpy as np
import pytest

from vrt.train.corpus import TRAIN_SPEAKERS, WORDS, Digit, Sentence
from vrt.train.evaluation import Errors, false_words, read_strings, word_errors
from vrt.train.strings import Drawer, Example, Recipe, join, test_strings


@pytest.fixture(scope="module")
def pool():
    """Digits that can be told apart by their level: value 3 is 0.03 throughout."""
    return [
        Digit(v, s, t, np.full(800, 0.01 * v + 0.01, dtype=np.float32))
        for s in TRAIN_SPEAKERS[:2]
        for v in range(10)
        for t in range(3)
    ]


def edits(reference, found):
    """Levenshtein's distance of two lists of words, by its recursion."""
    row = list(range(len(found) + 1))
    for i, word in enumerate(reference, start=1):
        before, row[0] = row[0], i
        for j, other in enumerate(found, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != other))
    return row[-1]


def test_join_puts_gaps_between():
    clips = [np.full(3, v, dtype=np.float32) for v in (1, 2)]
    joined = join(clips, [2 / 16_000, 1 / 16_000, 0.0])
    assert joined.tolist() == [0, 0, 1, 1, 1, 0, 2, 2, 2]


def test_strings_say_what_is_heard(pool):
    strings = test_strings(pool, 12, 5, None)
    assert {len(s.text.split()) for s in strings} <= set(range(1, 7))
    assert [s.speaker for s in strings] == [*TRAIN_SPEAKERS[:2]] * 6
    for string in strings:
        heard = [w for w, n in _runs(string.samples) for _ in range(n // 800)]
        assert " ".join(heard) == string.text
    again = test_strings(pool, 12, 5, None)
    assert all(np.array_equal(a.samples, b.samples) for a, b in zip(strings, again, strict=True))


def _runs(samples):
    """Words and how many samples of each level follow one another."""
    edges = np.flatnonzero(np.diff(samples, prepend=-1, append=-1))
    for start, end in pairwise(edges):
        if samples[start] > 0:
            yield WORDS[round(samples[start] * 100) - 1], end - start


def test_noise_of_strings_is_as_loud_as_asked_and_below_4_khz(pool):
    plain, noisy = (test_strings(pool, 4, 5, snr) for snr in (None, 5.0))
    # The generator's place differs after a string with noise: only the first is the same.
    assert plain[0].text == noisy[0].text
    noise = noisy[0].samples - plain[0].samples
    power = np.square(plain[0].samples, dtype=np.float64).mean() / np.square(noise).mean()
    assert 10 * np.log10(power) == pytest.approx(5, abs=0.01)
    spectrum = np.abs(np.fft.rfft(noise)) ** 2
    assert spectrum[len(spectrum) * 11 // 20 :].sum() < 0.01 * spectrum.sum()


def test_training_examples_vary_and_some_are_empty(pool):
    hum = Sentence("hum", np.sin(np.arange(40_000, dtype=np.float32)))
    drawer = Drawer.of(pool, [hum], Recipe())
    rng = np.random.default_rng(1)
    drawn = [drawer.draw(rng, 3) for _ in range(200)]
    empty = [example for example in drawn if not example.text]
    assert 18 <= len(empty) <= 42  # 15% of 200, within 2.4 standard deviations
    for example in drawn:
        words = example.text.split()
        assert len(words) in (0, 3) and {*words} <= {*WORDS}
        assert example.samples.dtype == np.float32 and np.isfinite(example.samples).all()
        assert len(example.samples) < 16_000 * 7
    levels = [20 * np.log10(np.sqrt(np.square(e.samples).mean()) + 1e-9) for e in drawn if e.text]
    low, high = drawer.recipe.level_db
    assert low - 0.1 < min(levels) and max(levels) < high + 0.1 and np.ptp(levels) > 40


def test_word_errors_are_levenshteins():
    rng = np.random.default_rng(1)
    pairs = [[" ".join(rng.choice(WORDS[:4], rng.integers(1, 7))) for _ in "ab"] for _ in range(50)]
    errors = word_errors(*zip(*pairs, strict=True))
    assert errors.edits.tolist() == [edits(a.split(), b.split()) for a, b in pairs]
    assert errors.words == tuple(len(a.split()) for a, _ in pairs)


def test_an_empty_answer_deletes_every_word():
    errors = word_errors(["one two", "three"], ["", " three "])
    assert errors.deletions == (2, 0) and errors.rate == pytest.approx(200 / 3)


def test_intervals_cover_strings_and_pairs():
    some = Errors((4,) * 100, (1,) * 50 + (0,) * 50, (0,) * 100, (0,) * 100)
    low, high = some.interval()
    # 12.5% from a fair coin a string: a standard error of 1.25 points.
    assert (
        some.rate == 12.5
        and low == pytest.approx(10, abs=0.3)
        and high == pytest.approx(15, abs=0.3)
    )
    none = Errors((4,) * 100, (0,) * 100, (0,) * 100, (0,) * 100)
    difference, (low, high) = none.difference(some)
    assert difference == -12.5 and low < -12.5 < high < 0
    assert some.difference(some) == (0.0, (0.0, 0.0))
    with pytest.raises(ValueError, match="same strings"):
        some.difference(Errors((3,) * 100, *[(0,) * 100] * 3))


def test_false_words_are_counted_by_time():
    sentences = [Sentence("a", np.zeros(80_000, dtype=np.float32))] * 2
    found = false_words(lambda samples: "two tw", sentences[:1])
    assert found["words"] == 2 and found["digits"] == 1 and found["words_per_10_s"] == 4.0
    assert found["by_file"] == {"a": "two tw"}


def test_reading_strings_asks_the_reader_of_each():
    examples = [Example(np.full(3, v, dtype=np.float32), WORDS[v]) for v in range(3)]
    assert read_strings(lambda samples: WORDS[int(samples[0])], examples).edits.sum() == 0
    assert read_strings(lambda samples: "nine", examples).substitutions == (1, 1, 1)


def test_command_names_the_missing_folder(tmp_path):
    from typer.testing import CliRunner

    from vrt.cli.app import app

    result = CliRunner().invoke(app, ["train", "digits-rnnt", "--speech", str(tmp_path / "none")])
    assert result.exit_code == 1 and "Traceback" not in result.output
    assert "no recordings" in result.stderr and "--speech or VRT_SPEECH" in result.stderr


def test_command_refuses_a_file_for_a_folder(tmp_path):
    from typer.testing import CliRunner

    from vrt.cli.app import app

    (tmp_path / "taken").touch()
    result = CliRunner().invoke(app, ["train", "digits-rnnt", "-o", str(tmp_path / "taken")])
    assert result.exit_code == 2 and "taken is a file" in result.stderr
