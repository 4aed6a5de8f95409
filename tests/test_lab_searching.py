"""What the notebooks of the transducer lean on, against the engine and against plain arithmetic."""

import math

import pytest
import torch

from vrt.golden.errors import GoldenError
from vrt.lab import golden, receipt
from vrt.lab.beam_steps import beam_steps
from vrt.lab.merge_order import merge_orders
from vrt.lab.searching import clip, heard, problem, searched
from vrt.lab.static_lattice import StaticLattice, rows_after
from vrt.loading import load
from vrt.receipt import ReceiptError
from vrt.rnnt import BeamConfig, ModelScorer, malsd


@pytest.fixture(scope="module")
def model():
    return load("digits-rnnt")


@pytest.fixture(scope="module")
def frames(model):
    return heard(model, clip("five_five.flac"))


def test_files_by_name():
    assert receipt("quality-beam").parameters["strings"] == 200
    assert golden("malsd-merge-sums").name == "malsd-merge-sums"
    with pytest.raises(ReceiptError, match=r"no receipt 'quality-bem' .did you mean quality-beam"):
        receipt("quality-bem")
    with pytest.raises(GoldenError, match="did you mean malsd-merge-sums"):
        golden("malsd-merge-sum")


@pytest.mark.parametrize("name", ["malsd-merge-sums", "malsd-uneven", "malsd-long"])
def test_a_golden_files_search_gives_the_files_answer(name):
    file = golden(name)
    lists, trace = searched(problem(file))
    assert [[list(h.tokens) for h in best] for best in lists] == [
        [h["tokens"] for h in best] for best in file.expected["nbest_norm"]
    ]
    assert len(trace.iterations) == len(file.expected["trace"])


def test_a_row_of_the_lattice_is_the_scorers_own(model, frames):
    scorer = ModelScorer(model.transducer)
    best = malsd(scorer, frames, torch.tensor([frames.shape[1]]))[0][0]
    assert model.text(best.tokens) == "five five"
    rows = rows_after(scorer, frames[0], best.tokens[:2])
    state = scorer.start(1)
    for label in best.tokens[:2]:
        state = scorer.advance(state, torch.tensor([0]), torch.tensor([label]))
    with torch.no_grad():
        assert torch.equal(rows[7], scorer.log_probs(frames[:, 7], state)[0])
    assert not torch.equal(rows, rows_after(scorer, frames[0]))


def test_a_static_lattice_gives_one_row_whatever_was_said():
    table = torch.tensor([[0.7, 0.1, 0.2], [0.15, 0.05, 0.8]]).log()
    lattice, config = StaticLattice(table), BeamConfig(beam_size=3, max_symbols=1)
    (best,) = malsd(lattice, lattice.frames, torch.tensor([2]), config)
    # (0) said at the first frame, then two blanks; or a blank, (0) at the second, and a blank.
    paths = 0.7 * 0.2 * 0.8 + 0.2 * 0.15 * 0.8
    # The sum of fp32 logarithms is exact to 1e-7.
    assert {h.tokens: h.score for h in best}[(0,)] == pytest.approx(math.log(paths), abs=1e-6)


def test_the_two_orders_by_hand():
    """Two alignments of (0), 0.4 * 0.6 each way: with K = 3 both are among the three best, so both
    orders agree; every other file's orders are compared with sums made another way."""
    asked = problem(golden("malsd-merge-sums"))
    _, trace = searched(asked)
    assert not any(orders.differ for orders in merge_orders(trace, asked.scorer.blank))


@pytest.mark.parametrize("name", ["malsd-merge-after-pruning", "malsd-two-alignments"])
def test_merging_first_keeps_what_pruning_drops(name):
    asked = problem(golden(name))
    _, trace = searched(asked)
    found = merge_orders(trace, asked.scorer.blank)
    assert any(orders.differ for orders in found)
    columns = beam_steps(trace)
    for orders in found:
        kept = [m for m in columns[orders.iteration] if m.merged_into is None]
        assert {m.tokens: m.score for m in kept} == orders.pruned_first
        assert len(orders.merged_first) <= asked.config.beam_size
        # What both keep has at least as much probability where all of it was summed.
        both = orders.pruned_first.keys() & orders.merged_first.keys()
        assert all(orders.merged_first[t] >= orders.pruned_first[t] - 1e-5 for t in both)
