"""Intervals by hand, the nearest of an n-best list, verdicts, and the n-gram over characters."""

from itertools import product
from math import exp

import numpy as np
import pytest
import torch
from quality_cases import random_model

from vrt.quality import errors as quality_errors
from vrt.quality.approximations import RETAIN_AT_LEAST, judged, retained, verdict
from vrt.quality.beam import digit_ngram, hotwords
from vrt.quality.errors import QualityError, need_tools
from vrt.quality.scoring import difference, oracle, right_share
from vrt.quality.speakers import over_speakers
from vrt.quality.spelling import BEGIN, END, TOKEN_OFFSET, WittenBell, digit_texts, symbols
from vrt.quality.timed import spread_ms
from vrt.rnnt.ngram import Ngram
from vrt.train.corpus import WORDS
from vrt.train.evaluation import Errors


def errors(edits, words=None):
    nothing = (0,) * len(edits)
    return Errors(tuple(words or (1,) * len(edits)), tuple(edits), nothing, nothing)


def enumerated(edits, words):
    """The exact percentiles of all n^n resamples, each as likely."""
    places = product(range(len(edits)), repeat=len(edits))
    rates = [100 * sum(edits[p] for p in ps) / sum(words[p] for p in ps) for ps in places]
    return tuple(np.percentile(rates, [2.5, 97.5], method="inverted_cdf"))


def test_paired_interval_is_that_of_all_resamples():
    # One edit in four strings: 0, 1, 2, 3 of them in 32, 42, 21, 4.7% of resamples, so 0 to 75%.
    one, none = errors([1, 0, 0, 0]), errors([0, 0, 0, 0])
    found = difference(one, none)
    assert found == {"points": 25.0, "points_95": [0.0, 75.0]}
    assert enumerated([1, 0, 0, 0], [1] * 4) == (0.0, 75.0)
    assert difference(none, one)["points_95"] == [-75.0, 0.0]
    # Strings of other lengths: their words are resampled with them.
    words = (1, 3, 2, 5)
    found = difference(errors([1, 2, 0, 0], words), errors([0, 0, 1, 0], words))
    exact = enumerated([1, 2, -1, 0], words)
    assert found["points"] == pytest.approx(200 / 11)
    assert found["points_95"] == pytest.approx(exact, abs=2.5)  # measured: 0 and 1.2 points


def test_pairing_matters():
    """Arms that err on the same strings differ by nothing, for certain."""
    some = errors([1, 0, 1, 0])
    assert difference(some, some) == {"points": 0.0, "points_95": [0.0, 0.0]}
    low, high = difference(some, errors([0, 1, 0, 1]))["points_95"]
    assert low < 0 < high


def test_oracle_takes_the_nearest():
    lists = [["one", "one two"], ["tree", "four three"], []]
    found = oracle(["one two", "three", "six"], lists)
    assert found.edits.tolist() == [0, 1, 1]
    assert found.insertions == (0, 0, 0)  # the first of equally near ones
    assert right_share(found) == pytest.approx(1 / 3)


def test_retained_share_of_the_gain():
    floor, top = errors([5, 5]), errors([3, 2])
    assert retained(errors([3, 3]), floor, top) == pytest.approx(0.8)
    assert retained(top, floor, top) == 1.0 and retained(floor, floor, top) == 0.0
    assert retained(errors([1, 2]), floor, top) == pytest.approx(7 / 5)
    assert retained(top, top, floor) is None and retained(top, top, top) is None


def test_verdicts():
    gained = [-3.0, -1.0]
    assert verdict(gained, [-0.5, 0.5], RETAIN_AT_LEAST) == "kept"
    assert verdict(gained, [-0.5, 0.5], RETAIN_AT_LEAST - 0.01).startswith("rejected: retains")
    assert verdict(gained, [0.1, 0.5], 0.95) == "rejected: shown worse than the beam"
    assert verdict([-3.0, 0.0], [-0.5, 0.5], 1.0).startswith("open")
    assert verdict([-3.0, 0.2], [0.1, 0.5], None) == "rejected: shown worse than the beam"


def test_an_arm_is_judged_against_both():
    floor, top, arm = (errors([n] * 20) for n in (3, 1, 2))
    found = judged(arm, floor, top)
    assert found["retained"] == 0.5 and found["less_teacher"]["points"] == 100.0
    assert found["verdict"] == "rejected: shown worse than the beam"


def test_speakers_have_a_t_interval():
    # Mean 2, standard error 1 / sqrt(3), t of two degrees of freedom 4.3027.
    found = over_speakers([1.0, 2.0, 3.0])
    assert found["mean"] == 2.0
    assert found["mean_95"] == pytest.approx([2 - 2.4841, 2 + 2.4841], abs=1e-3)


def test_spread_is_of_tenths_and_none_of_nothing():
    assert spread_ms([0.1 * n for n in range(11)]) == {
        "timed": 11,
        "p10_ms": pytest.approx(100),
        "p50_ms": pytest.approx(500),
        "p90_ms": pytest.approx(900),
    }
    assert spread_ms([])["p50_ms"] is None


def test_witten_bell_by_hand():
    counted = WittenBell([[0], [0], [1]], labels=2, order=2)
    a, b = symbols([0, 1])
    # 1-grams: a 2, b 1, end 3 of 6, three different: p(a) = (2 + 3/3) / 9.
    assert counted.probability((), a) == pytest.approx(3 / 9)
    assert counted.probability((), END) == pytest.approx(4 / 9)
    # After the beginning: a 2, b 1 of 3, two different: p(a) = (2 + 2 * 3/9) / 5.
    assert counted.probability((BEGIN,), a) == pytest.approx((2 + 2 / 3) / 5)
    # After b only the end was met: p(a) = 1/2 * 3/9.
    assert counted.probability((b,), a) == pytest.approx(1 / 6)
    assert counted.backoff((b,)) == pytest.approx(1 / 2)


def test_ngram_sums_to_one_and_its_file_says_the_same(tmp_path):
    model = random_model()
    spell = model.transducer.vocabulary.tokens
    sentences = [spell(text) for text in digit_texts(60, 3)]
    counted = WittenBell(sentences, labels=16, order=4)
    for context in list(counted.counts)[::7]:
        total = sum(counted.probability(context, s) for s in counted.vocabulary)
        assert total == pytest.approx(1, abs=1e-12)
    file = counted.write(tmp_path / "digits.arpa")
    ngram = Ngram.from_nemo_arpa(file, 16, token_offset=TOKEN_OFFSET)
    state, line = ngram.start(1), [BEGIN]
    for token in spell("nine zero two"):
        scores, following = ngram.advance(state)
        for other, symbol in enumerate(symbols(range(16))):
            wanted = counted.probability(tuple(line[-3:]), symbol)
            # 7 decimals of log10 in the file, fp32 sums of up to four: measured 4e-7 relative.
            assert exp(scores[0, other]) == pytest.approx(wanted, rel=3e-6)
        line.append(symbols([token])[0])
        state = following[:, token]


def test_ngram_and_hotwords_know_the_words():
    model = random_model()
    spell = model.transducer.vocabulary.tokens
    ngram = digit_ngram(model)

    def score(text):
        state, total = ngram.start(1), 0.0
        for token in spell(text):
            scores, following = ngram.advance(state)
            total, state = total + float(scores[0, token]), following[:, token]
        return total

    assert score("seven two") > score("sevne two") + 3
    tree = hotwords(model)
    assert tree.labels == 16
    scores, _ = tree.advance(tree.start(1))
    begin = {spell(word)[0] for word in WORDS}
    assert {int(n) for n in torch.nonzero(scores[0]).flatten()} == begin


def test_texts_are_as_the_training_has_them():
    texts = digit_texts(500, 1)
    assert {len(text.split()) for text in texts} == set(range(1, 7))
    assert {*" ".join(texts).split()} == {*WORDS}
    assert digit_texts(5, 1) == digit_texts(5, 1) != digit_texts(5, 2)


@pytest.mark.parametrize(("name", "what"), [("jiwer", "word error rates"), ("scipy", "intervals")])
def test_a_missing_library_is_named(monkeypatch, name, what):
    monkeypatch.setattr(quality_errors, "find_spec", lambda n: None if n == name else object())
    with pytest.raises(QualityError, match=rf"{what} need {name}: pip install 'vrt\[quality\]'"):
        need_tools()
