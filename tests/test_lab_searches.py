"""Charts of searches: n-best lists, counted work and word errors hold what they were given."""

import json
import math

import pytest
from chart_values import drawn, layers, rows_of

from vrt.lab.nbest_table import BAR, nbest_rows, nbest_table
from vrt.lab.wer import BETTER, UNSHOWN, WORSE, verdict, word_error_rows, word_errors
from vrt.lab.work import work_counts, work_rows
from vrt.receipt import Receipt
from vrt.rnnt.counters import Counters, Work
from vrt.rnnt.nbest import Hypothesis, NBest

LISTED = NBest(
    [
        Hypothesis((5, 5), math.log(0.2), math.log(0.2) / 3, (3, 9)),
        Hypothesis((5,), math.log(0.3), math.log(0.3) / 2, (3,)),
    ]
)
COUNTED = Counters(Work(iterations=10, joint_rows=40, labels=6), utterances=2, frames=9, tokens=6)


@pytest.fixture(scope="module")
def quality(repo_root) -> Receipt:
    return Receipt.load(repo_root / "data" / "receipts" / "quality-beam.json")


@pytest.fixture(scope="module")
def approximations(repo_root) -> Receipt:
    return Receipt.load(repo_root / "data" / "receipts" / "quality-approximations.json")


# --- n-best


def test_shares_are_of_the_lists_probability():
    rows = nbest_rows(LISTED)
    assert [row["share"] for row in rows] == pytest.approx([0.4, 0.6])
    assert [row["text"] for row in rows] == ["5 5", "5"]
    golden = {"tokens": [], "score": -3.0, "norm_score": -3.0, "timestamps": []}
    assert nbest_rows([golden])[0] == {
        "rank": 1,
        "text": "(nothing)",
        "score": -3.0,
        "norm_score": -3.0,
        "share": 1.0,
    }


@pytest.mark.parametrize(("normalised", "bold"), [(True, "-0.5365"), (False, "-1.6094")])
def test_the_column_that_ranks_is_bold(normalised, bold):
    spec = nbest_table(LISTED, ["five five", "five"], normalised).to_dict()
    (found,) = [m for m in layers(spec) if m["mark"].get("fontWeight") == "bold"]
    assert found["data"]["values"][0]["text"] == bold
    assert len(found["data"]["values"]) == 2
    assert spec["title"]["text"] == "“five five”: 40% of the list's probability"
    bars = rows_of(spec, "bar")
    assert [bar["to"] - bar["x"] for bar in bars] == pytest.approx([0.4 * BAR, 0.6 * BAR])


def test_lists_that_cannot_be_shown_are_refused():
    with pytest.raises(ValueError, match="no hypothesis survived"):
        nbest_table(NBest())
    with pytest.raises(ValueError, match="1 texts for 2 hypotheses"):
        nbest_table(LISTED, ["five"])


# --- work


def test_counters_are_shown_per_utterance_and_counts_as_they_are():
    rows = work_rows({"one": COUNTED, "two": {"iterations": 20, "labels": 0}}, ("iterations",))
    assert [(row["value"], row["ratio"]) for row in rows] == [(5.0, 1.0), (20, 4.0)]
    zero = work_rows({"a": {"labels": 0}, "b": {"labels": 3}}, ("labels",))
    assert [row["ratio"] for row in zero] == [None, None]


def test_the_title_names_the_largest_change():
    searches = {
        "greedy": {"joint_rows": 10, "labels": 4},
        "beam": {"joint_rows": 2130, "labels": 8},
    }
    spec = work_counts(searches, ("labels", "joint_rows")).to_dict()
    assert spec["title"]["text"] == "beam against greedy: 210 times the joint rows"
    assert [row["value"] for row in spec["data"]["values"]] == [4, 8, 10, 2130]
    assert spec["facet"]["sort"] == ["labels", "joint rows"]
    less = work_counts({"a": {"labels": 8}, "b": {"labels": 1}}, ("labels",)).to_dict()
    assert less["title"]["text"] == "b against a: 0.12 times the labels"
    same = work_counts({"a": {"labels": 8}, "b": {"labels": 8}}, ("labels",)).to_dict()
    assert same["title"]["text"] == "b does the same work as a"


def test_a_count_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="'two' has no count 'labels'; all have iterations"):
        work_counts({"one": COUNTED, "two": {"iterations": 1}}, ("labels",))
    with pytest.raises(ValueError, match="no search"):
        work_counts({})


# --- word errors


def test_rows_are_the_receipts_numbers(quality):
    found = quality.numbers["unheard_15_db"]
    rows = word_error_rows(quality, "unheard_15_db")
    assert len(rows) == len(found) and rows[0]["arm"] == "greedy"
    names = [row["arm"] for row in rows]
    assert names.index("beam 2") < names.index("beam 8") < names.index("beam 16")
    for row in rows[1:]:
        arm = found[row["arm"].replace(" ", "_")]
        assert row["percent"] == arm["wer_percent"]
        assert [row["low"], row["high"]] == arm["wer_percent_95"]
        assert row["points"] == arm["less_greedy"]["points"]
        assert [row["points_low"], row["points_high"]] == arm["less_greedy"]["points_95"]
    assert rows[0]["points"] == 0.0


def test_only_an_interval_beside_zero_shows_something():
    assert [verdict(-2, -1), verdict(1, 2), verdict(-1, 1)] == [BETTER, WORSE, UNSHOWN]
    assert verdict(-1, 0.0) == verdict(0.0, 0.0) == UNSHOWN


def test_the_title_counts_what_was_shown(quality):
    arms = ["greedy", "beam_2", "beam_8", "beam_8_max_symbols_1"]
    chart = word_errors(quality, "unheard_15_db", arms=arms)
    said = chart.to_dict()
    assert said["title"]["text"].startswith("1 of 3 make fewer errors than greedy, 1 more")
    order = layers(said)[0]["encoding"]["y"]["sort"]
    assert order == ["greedy", "beam 2", "beam 8", "beam 8 max symbols 1"]
    assert "unheard 15 dB" in json.dumps(said)


def test_approximations_compare_with_their_teacher(approximations):
    rows = word_error_rows(approximations, "unheard_5_db", "teacher", ["top_2", "teacher"])
    arm = approximations.numbers["unheard_5_db"]["arms"]["top_2"]
    assert rows[0]["points"] == arm["less_teacher"]["points"]
    assert rows[1]["points"] == 0.0


def test_what_a_receipt_lacks_is_named(quality):
    with pytest.raises(ValueError, match="condition 'quiet': the receipt has heard_15_db"):
        word_errors(quality, "quiet")
    with pytest.raises(ValueError, match="arm 'beam_99': unheard_5_db has beam_16"):
        word_errors(quality, "unheard_5_db", arms=["beam_99"])
    with pytest.raises(ValueError, match="beam_2 was not compared with 'beam_4', only with beam_8"):
        word_errors(quality, "unheard_5_db", against="beam_4", arms=["beam_2"])


@pytest.mark.parametrize("name", ["nbest", "work", "errors"])
def test_each_is_drawn(name, quality, tmp_path):
    charts = {
        "nbest": lambda: nbest_table(LISTED, ["five five", "five"]),
        "work": lambda: work_counts({"a": COUNTED, "b": COUNTED}),
        "errors": lambda: word_errors(quality, "unheard_15_db"),
    }
    drawn(charts[name](), tmp_path)
