"""Alignments one by one, their map, losses told by a training, and rates of its tests."""

from math import comb

import pytest
import torch
from chart_values import drawn, layers, rows_of

from vrt.lab.alignment_map import alignment_map, move_rows, node_rows
from vrt.lab.learning import LOOKS, error_rates, loss_curve
from vrt.lab.parity import parity_by_stage
from vrt.train.alignments import alignments, score
from vrt.train.corpus import (
    HEARD_TAKES,
    TRAIN_SPEAKERS,
    TRAIN_TAKES,
    UNHEARD_SPEAKERS,
    VALIDATION_TAKES,
)
from vrt.train.loss import transducer_loss
from vrt.train.progress import Progress, told
from vrt.train.tones import tone_corpus


def problem(frames, labels, seed=0):
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(frames, labels + 1, 4, generator=draw, dtype=torch.float64)
    return logits, torch.randint(0, 3, (labels,), generator=draw)


@pytest.mark.parametrize(("frames", "labels"), [(1, 0), (1, 3), (4, 0), (4, 2), (5, 4)])
def test_alignments_are_all_paths_and_each_once(frames, labels):
    found = list(alignments(frames, labels))
    assert len(found) == len({*found}) == comb(frames - 1 + labels, labels)
    for path in found:
        assert path[0][:2] == (0, 0) and path[-1] == (frames - 1, labels, False)
        assert sum(is_label for *_, is_label in path) == labels
        assert sum(not is_label for *_, is_label in path) == frames


@pytest.mark.parametrize(("frames", "labels"), [(1, 2), (4, 2), (3, 0)])
def test_their_sum_is_the_loss(frames, labels):
    logits, said = problem(frames, labels)
    scores = [score(logits.log_softmax(-1), said, path) for path in alignments(frames, labels)]
    counts = torch.tensor([frames]), torch.tensor([labels])
    (exact,) = transducer_loss(logits[None], said[None], *counts)
    # Measured: 4e-15; sums in another order.
    torch.testing.assert_close(-torch.stack(scores).logsumexp(0), exact, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("frames", "labels"), [(0, 1), (2, -1)])
def test_no_lattice_without_frames(frames, labels):
    with pytest.raises(ValueError, match=rf"1 frame or more .*\({frames}, {labels}\)"):
        list(alignments(frames, labels))


def shared(frames=4, labels=2):
    logits, said = problem(frames, labels)
    paths = list(alignments(frames, labels))
    scores = torch.stack([score(logits.log_softmax(-1), said, path) for path in paths])
    return [*zip(paths, scores.softmax(0).tolist(), strict=True)]


def test_what_flows_into_a_node_flows_out():
    paths = shared()
    nodes = {(row["frame"], row["said"]): row["share"] for row in node_rows(paths)}
    moves = move_rows(paths)
    for (frame, said), share in nodes.items():
        out = sum(m["share"] for m in moves if (m["frame"], m["said"]) == (frame, said))
        into = sum(m["share"] for m in moves if (m["to_frame"], m["to_said"]) == (frame, said))
        assert out == pytest.approx(share) and into == pytest.approx(share if frame + said else 0)
    assert nodes[0, 0] == pytest.approx(1) and nodes[3, 2] == pytest.approx(1)


def test_the_map_draws_every_move_and_says_how_many_alignments(tmp_path):
    chart = alignment_map(shared(), ["a", "b"])
    drawn(chart, tmp_path)
    spec = chart.to_dict()
    assert spec["title"]["text"].startswith("10 alignments say one text; the likeliest has ")
    moves = rows_of(spec, "rule")
    assert len(moves) == 4 * 2 + 3 * 3 + 1  # labels, blanks between frames, the last blank
    assert {row["kind"] for row in moves} == {"label", "blank"}
    names = layers(spec)[0]["encoding"]["y"]["axis"]["labelExpr"]
    assert names == "['nothing', 'a', 'a b'][datum.value]"


def test_shares_that_are_no_shares_are_refused():
    path, share = shared()[0]
    with pytest.raises(ValueError, match="1 alignments add up to"):
        alignment_map([(path, share / 2)], ["a", "b"])
    with pytest.raises(ValueError, match="0 alignments"):
        alignment_map([], [])


def test_told_reads_what_progress_tells():
    lines = []
    progress = Progress(250, lines.append)
    for step in range(250):
        progress.step(100.0 / (step + 1))
    assert [told(line)[0] for line in lines] == list(range(2, 251, 2))
    assert told(lines[0])[1] == 75.0 and told(lines[1])[1] == pytest.approx(29.167)
    with pytest.raises(ValueError, match="no line of progress: 'unheard_15_db: 3'"):
        told("unheard_15_db: 3")


def test_tones_have_the_parts_of_the_recorded_corpus():
    corpus = tone_corpus()
    parts = corpus.train(), corpus.validation(), corpus.heard(), corpus.unheard()
    assert all({digit.value for digit in part} == {*range(10)} for part in parts)
    assert {digit.speaker for digit in corpus.unheard()} == {*UNHEARD_SPEAKERS}
    assert {digit.speaker for digit in corpus.train()} == {*TRAIN_SPEAKERS}
    takes = [{digit.take for digit in part} for part in parts[:3]]
    wanted = (TRAIN_TAKES, VALIDATION_TAKES, HEARD_TAKES)
    assert all(found <= {*of} for found, of in zip(takes, wanted, strict=True))
    assert corpus.train_sentences() and corpus.misc_sentences() and corpus.test_sentences()
    assert len({digit.samples.tobytes() for digit in corpus.train()}) == 10


ROWS = [
    {"arm": arm, "step": step, "loss": loss / step}
    for arm, loss in (("a", 3), ("b", 2))
    for step in (1, 2)
]
RATE = {"wer_percent": 17.0, "wer_percent_95": [13.5, 20.5], "words": 653}


def test_a_loss_curve_shows_each_arm_by_colour_and_dash(tmp_path):
    chart = loss_curve(ROWS, "nats", "It falls")
    drawn(chart, tmp_path)
    spec = chart.to_dict()
    assert spec["title"] == "It falls" and rows_of(spec, "line") == ROWS
    line, point = layers(spec)
    assert line["encoding"]["strokeDash"]["scale"]["domain"] == ["a", "b"]
    assert point["encoding"]["shape"]["field"] == "arm"
    assert line["encoding"]["y"]["title"] == "loss (nats)"


def test_error_rates_show_rate_and_interval(tmp_path):
    rows = [{"test": "new_voices at 15_db", "group": "new"} | RATE]
    chart = error_rates(rows, "Some errors")
    drawn(chart, tmp_path)
    spec = chart.to_dict()
    (row,) = rows_of(spec, "rule")
    assert row == {
        "test": "new voices at 15 dB",
        "group": "new",
        "percent": 17.0,
        "low": 13.5,
        "high": 20.5,
    }
    assert "653 to 653 words" in spec["title"]["subtitle"][0]


def test_nothing_and_too_many_are_refused():
    with pytest.raises(ValueError, match="1 to 4 of arm can be told apart, got 0"):
        loss_curve([], "nats", "")
    many = [{"test": "t", "group": str(n)} | RATE for n in range(len(LOOKS) + 1)]
    with pytest.raises(ValueError, match="1 to 4 of group can be told apart, got 5"):
        error_rates(many, "")


def test_parity_says_what_its_axis_shows():
    rows = [{"stage": "scores", "relative": 1e-6, "tolerance": 1e-4}]
    for given, title in (({"axis_title": "absolute"}, "absolute"), ({}, "relative")):
        dots = layers(parity_by_stage(rows, **given).to_dict())[-1]
        assert title in dots["encoding"]["x"]["title"]
