"""The beam's bench: what it refuses, counts and compares; times themselves are not asserted."""

import pytest
import torch
from commands import fails, run

from vrt.bench import BeamBenchSettings, BenchError, beam_table, bench_beam
from vrt.bench.beam_arms import differences
from vrt.bench.beam_model import calibrated, label_rate, random_frames
from vrt.bench.beam_rows import (
    DEFAULT_MALLOC,
    INSTALLED,
    KEEPING_MALLOC,
    NO_ONEDNN,
    beam_rows,
    comparison,
)
from vrt.bench.beam_settings import BLANK_RICH_RATE, Case, cases
from vrt.bench.beam_work import floor, joint_weights, predictor_weights
from vrt.bench.rows import OURS
from vrt.bench.timing import Timing
from vrt.receipt import Receipt
from vrt.rnnt import Hypothesis, NBest, Transducer, TransducerConfig
from vrt.rnnt.counters import Work
from vrt.rnnt.model import PARAKEET

SMALL = TransducerConfig(
    vocab=12, encoder_width=8, predictor_width=8, predictor_layers=2, joint_width=8
)
ONE = Case(1, 4)


def timing(cpu_ms):
    return Timing.of([(cpu_ms / 1000, cpu_ms / 1000)])


def small(**changes):
    given = {"cases": (ONE, Case(2, None)), "frames": 20, "repeats": 1, "against": "none"}
    return BeamBenchSettings(**(given | {"model": SMALL} | changes))


def test_the_cases_are_those_asked_for_and_the_blank_rich_one():
    found = cases((0, 8), (1, 2))
    plain = [Case(1, None), Case(1, 8), Case(2, None), Case(2, 8)]
    assert list(found) == [*plain, Case(1, 8, BLANK_RICH_RATE)]
    assert [case.name for case in found[:2]] == ["greedy, B=1", "beam 8, B=1"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"repeats": 0}, "repeats must be at least 1, got 0"),
        ({"cases": ()}, "no case to measure"),
        ({"cases": (Case(1, 13),)}, "K 1 to 12"),
        ({"cases": (Case(0, 4),)}, "B is at least 1"),
        ({"against": "k2"}, "against k2"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, says):
    with pytest.raises(BenchError, match=says):
        small(**changes)


def test_the_blank_bias_is_found():
    model = Transducer.random(SMALL, seed=1)
    frames = random_frames(SMALL, 1, 60, seed=1)
    before = label_rate(model, frames, 10)
    said = calibrated(model, frames, 0.35, 10)
    assert said == label_rate(model, frames, 10)
    assert abs(said - 0.35) < min(0.1, abs(before - 0.35))


def test_a_comparison_takes_the_better_setting_and_the_one_as_installed():
    first = {OURS: timing(10), INSTALLED: timing(90), NO_ONEDNN: timing(60)}
    second = {OURS: timing(11), INSTALLED: timing(80), NO_ONEDNN: timing(55)}
    rows = beam_rows(ONE, first, DEFAULT_MALLOC, 1) + beam_rows(ONE, second, KEEPING_MALLOC, 1)
    found = comparison(ONE, rows, True, 0.5, 1e-6)
    assert (found.better, found.installed) == (pytest.approx(5), pytest.approx(9))
    assert found.better_arm == f"{NO_ONEDNN}, malloc {KEEPING_MALLOC}"


def test_the_floor_of_parakeet():
    # Three matrices of 2560 x 640 and one of 640 x 640; 1033 x 640.
    assert predictor_weights(PARAKEET) == 3 * 2560 * 640 + 640 * 640
    assert joint_weights(PARAKEET) == 1033 * 640
    work = Work(joint_calls=10, joint_rows=80, predictor_calls=2, predictor_rows=3)
    found = floor(work, PARAKEET)
    assert found["weight_bytes"] == 4 * (2 * 5_324_800 + 10 * 661_120)
    assert found["operations"] == 2 * (3 * 5_324_800 + 80 * 661_120)


def test_differences_of_nbest_lists():
    one = NBest([Hypothesis((1, 2), -3.0, -1.0, (0, 4)), Hypothesis((1,), -4.0, -2.0, (0,))])
    near = NBest([Hypothesis((1, 2), -3.5, -1.0, (0, 4)), one[1]])
    assert differences([one], [one]) == (True, 0.0)
    assert differences([one], [near]) == (True, 0.5)
    assert differences([one], [NBest(one[::-1])])[0] is False
    later = Hypothesis((1, 2), -3.0, -1.0, (0, 5))
    assert differences([one], [NBest([later, one[1]])])[0] is False


def test_a_run_without_a_peer_counts_and_measures(tmp_path):
    receipt = bench_beam(small())
    receipt.write(tmp_path / "bench.json")
    numbers = Receipt.load(tmp_path / "bench.json").numbers
    assert {row["arm"] for row in numbers["rows"]} == {OURS}
    counters = numbers["work"]["beam 4, B=1"]["counters"]
    assert counters["iterations"] == counters["joint_calls"] >= 20
    assert counters["predictor_rows"] <= counters["labels"]
    assert numbers["comparisons"] == [] and numbers["work"]["greedy, B=2"] == {}
    parts = numbers["parts"]
    assert {"predictor, 1 rows, packed", "joint output, 8 rows, packed"} < parts.keys()
    assert "8 rows, one traced graph" in parts
    latency = numbers["latency_ms"]["beam 4, B=1"]
    assert latency["predictor_p50"] > 0 and latency["encoder_p50"] is None
    assert len(Receipt.load(tmp_path / "bench.json").digests["weights, beam 4, B=1"]) == 64
    text = beam_table(receipt)
    assert "beam 4, B=1" in text and "floor" in text


def test_nemo_takes_turns_and_finds_the_same():
    pytest.importorskip("nemo", reason="NeMo is not installed (pip install 'vrt[nemo]')")
    before = torch.backends.mkldnn.flags
    receipt = bench_beam(small(against="nemo"))
    assert torch.backends.mkldnn.flags is before
    arms = {row["arm"] for row in receipt.numbers["rows"]}
    assert arms == {OURS, INSTALLED, NO_ONEDNN}
    for one in receipt.numbers["comparisons"]:
        assert one["same_hypotheses"] or one["closest_decision"] < 1e-3, one
        assert one["largest_score_difference"] < 2e-4


def test_the_command_refuses_what_it_cannot_measure(tmp_path):
    fails(run("bench", "beam", "--beams", "4,x"), 2, "--beams")
    fails(run("bench", "beam", "--beams", "2000", "--against", "none"), 2, "1033")
    fails(run("bench", "beam", "--output", tmp_path), 2, "is a folder")
