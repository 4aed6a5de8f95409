"""The beam lattice: its moves are those of NeMo's golden files, counted another way."""

import math
from pathlib import Path

import pytest
import torch
from chart_values import drawn, layers, rows_of

from vrt.golden.malsd_format import problem_of, read
from vrt.lab.beam_steps import (
    BLANK,
    CARRIED,
    FORCED,
    LABEL,
    LIVES,
    MERGED,
    PRUNED,
    Move,
    beam_steps,
)
from vrt.lab.lattice import LOOKS, beam_lattice
from vrt.lab.lattice_rows import end_rows, line_rows, result_rows
from vrt.rnnt.malsd import search
from vrt.rnnt.toy import toy_frames
from vrt.rnnt.trace import Trace

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
FILES = sorted(path.stem for path in GOLDEN.glob("malsd-*.json"))


def golden(name: str):
    return read(GOLDEN / f"{name}.json")


def moves_of(file) -> list[list[list[Move]]]:
    """Of every utterance."""
    return [beam_steps(file, u) for u in range(len(file.problem["config"]["lengths"]))]


def searched(name: str) -> Trace:
    problem, trace = problem_of(golden(name).problem, name), Trace()
    lengths = torch.tensor(problem.lengths)
    search(
        problem.scorer, toy_frames(len(lengths), problem.max_time), lengths, problem.config, trace
    )
    return trace


WITH_TRACE = [name for name in FILES if golden(name).expected["trace"]]


@pytest.mark.parametrize("name", WITH_TRACE)
def test_living_slots_say_what_the_golden_file_lists(name):
    """Tokens put together from parents and labels against NeMo's own n-best list."""
    file = golden(name)
    for utterance, columns in enumerate(moves_of(file)):
        expected = {(*h["tokens"],): h["score"] for h in file.expected["nbest_raw"][utterance]}
        living = {m.tokens: m.score for m in columns[-1] if m.fate == LIVES}
        assert living.keys() == expected.keys()
        assert all(math.isclose(living[t], s, abs_tol=2e-4) for t, s in expected.items())
        best = next((m.tokens for m in columns[-1] if m.best), None)
        wanted = file.expected["best_norm"][utterance]
        if wanted is not None and "tie" not in name:
            assert best == (*wanted["tokens"],)


@pytest.mark.parametrize("name", WITH_TRACE)
def test_counts_are_those_of_the_arrays(name):
    trace = golden(name).expected["trace"]
    for utterance, columns in enumerate(moves_of(golden(name))):
        merged = sum(
            len(group["slots"]) - len(group["kept"])
            for step in trace
            for group in step["recombined"][utterance]
        )
        moves = [move for column in columns[1:] for move in column]
        assert sum(move.fate == MERGED for move in moves) == merged
        finite = sum(score != "-inf" for step in trace for score in step["score_pruned"][utterance])
        assert len(moves) == finite
        children = [{m.parent for m in column} for column in columns[1:]]
        for column, parents in zip(columns, children, strict=False):
            for move in column:
                assert (move.fate == LIVES) == (move.slot in parents)
                assert (move.fate == PRUNED) == (
                    move.slot not in parents and move.merged_into is None
                )


def test_forced_blanks_are_told_from_free_ones():
    moves = [m for column in beam_steps(golden("malsd-forced-blank")) for m in column]
    kinds = [m.kind for m in moves]
    # max_symbols 2: a blank is forced where its parent has said two labels at its frame.
    assert kinds.count(FORCED) == 5 and kinds.count(BLANK) == 3
    free = [m for c in beam_steps(golden("malsd-all-blank")) for m in c if m.kind == FORCED]
    assert free == []


def test_a_merge_points_at_the_slot_that_was_kept():
    columns = beam_steps(golden("malsd-merge-sums"))
    (loser,) = [m for column in columns for m in column if m.fate == MERGED]
    assert (loser.iteration, loser.slot, loser.merged_into) == (2, 2, 0)
    winner = columns[2][0]
    assert math.isclose(math.exp(winner.score), 0.64, abs_tol=1e-6)  # 0.4 + 0.24
    assert math.isclose(math.exp(loser.score), 0.24, abs_tol=1e-6)
    (end,) = [row for row in end_rows(columns) if row["move"] == MERGED]
    assert (end["slot"], end["into"], end["angle"]) == (2, 0, 0)


def test_final_hypotheses_are_carried_or_lost():
    kept = [m for c in beam_steps(golden("malsd-final-not-first")) for m in c]
    assert any(m.kind == CARRIED for m in kept)
    for name in ("malsd-final-not-first", "malsd-beam-v"):
        (length,) = golden(name).problem["config"]["lengths"]
        lost = [m for c in beam_steps(golden(name)) for m in c if m.fate == PRUNED]
        assert sum(m.frame == length for m in lost) == 1  # it had read all frames


@pytest.mark.parametrize("name", ["malsd-merge-two-groups", "malsd-uneven", "malsd-forced-blank"])
def test_a_live_trace_gives_the_moves_of_the_file(name):
    trace, file = searched(name), golden(name)
    for utterance in range(len(file.problem["config"]["lengths"])):
        live, stored = beam_steps(trace, utterance), beam_steps(file, utterance)
        # The reference goes on for a while after the last slot is final.
        for ours, theirs in zip(live, stored, strict=False):
            assert [(m.slot, m.parent, m.tokens, m.frame) for m in ours] == [
                (m.slot, m.parent, m.tokens, m.frame) for m in theirs
            ]


def test_width_is_probability_over_the_best_of_the_column():
    columns = beam_steps(golden("malsd-merge-sums"))
    lines = [row for row in line_rows(columns) if row["to"] == 1]
    assert [round(row["share"], 4) for row in lines] == [1.0, round(0.4 / 0.6, 4)]


def test_the_chart_holds_every_line_slot_and_end():
    columns = beam_steps(golden("malsd-merge-two-groups"))
    spec = beam_lattice(golden("malsd-merge-two-groups")).to_dict()
    moves = [move for column in columns for move in column]
    lines = [row for row in rows_of(spec, "rule") if "to_slot" in row]
    assert len(lines) == len(moves) - 1
    assert sum(row["best"] for row in lines) == len(columns) - 1
    dots = next(layer for layer in layers(spec) if "tooltip" in layer["encoding"])
    assert len(dots["data"]["values"]) == len(moves)
    signs = [row["sign"] for row in dots["data"]["values"] if row["move"] == LABEL]
    assert signs == [str(m.label) for m in moves if m.kind == LABEL]
    assert spec["title"]["text"].startswith("15 iterations, 15 merged, 10 pruned, 3 blanks forced")
    scale = dots["encoding"]["color"]["scale"]
    assert scale["domain"] == dots["encoding"]["shape"]["scale"]["domain"] == list(LOOKS)
    assert len(set(dots["encoding"]["shape"]["scale"]["range"])) == 5  # label and blank share one


def test_names_of_labels_are_written():
    file, names = golden("malsd-merge-sums"), {0: "ja"}
    assert '"ja"' in beam_lattice(file, names=names).to_json()
    assert result_rows(beam_steps(file)[-1], names)[0]["said"] == "ja"


def test_a_part_of_a_long_search_says_which():
    spec = beam_lattice(golden("malsd-long"), first=11, count=10).to_dict()
    assert "iterations 11 to 20" in spec["title"]["subtitle"][0]
    at = {row["to"] for row in rows_of(spec, "rule") if "to_slot" in row}
    assert at == set(range(11, 21))


@pytest.mark.parametrize(
    "name", ["malsd-merge-sums", "malsd-beam-64", "malsd-all-dead", "malsd-long"]
)
def test_a_lattice_is_drawn(name, tmp_path):
    drawn(beam_lattice(golden(name)), tmp_path)


def test_what_cannot_be_shown_is_refused():
    with pytest.raises(ValueError, match="index k out of range"):
        beam_lattice(golden("malsd-beam-over-v"))
    with pytest.raises(ValueError, match="the trace is empty"):
        beam_lattice(Trace())
    with pytest.raises(ValueError, match=r"utterance 2: the search has 0\.\.1"):
        beam_lattice(golden("malsd-padded"), utterance=2)
    with pytest.raises(ValueError, match=r"iterations 4\.\.21: the search has 1\.\.3"):
        beam_lattice(golden("malsd-merge-sums"), first=4)
