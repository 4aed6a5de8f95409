"""NeMo itself, where it is installed: shipped files come from it to the bit, and vrt equals it.

The default run searches 500 random problems, `-m slow` 5,000; each kind of rejected case is
counted, and the share of compared cases asserted.
"""

import pytest
import torch
from rnnt_cases import DECISION, SCORE, differences, random_case, unchecked

from vrt.golden.malsd_make import make_malsd
from vrt.golden.malsd_recipes import recipes
from vrt.paths import data_dir
from vrt.rnnt import BeamConfig, greedy
from vrt.rnnt.toy import ToyScorer, toy_frames

pytest.importorskip("nemo", reason="NeMo is not installed (pip install 'vrt[nemo]')")
nemo = pytest.importorskip("vrt.oracle.nemo", reason="this NeMo has no malsd_batch")
greedy_reference = pytest.importorskip("vrt.oracle.nemo_greedy").greedy_reference


@pytest.mark.parametrize("recipe", list(recipes()), ids=lambda recipe: recipe.name)
def test_a_shipped_file_is_made_again_to_the_bit(recipe, tmp_path):
    path = tmp_path / f"{recipe.name}.json"
    make_malsd(path, recipe, "nemo")
    assert path.read_bytes() == (data_dir() / "golden" / path.name).read_bytes()


def compare(seeds):
    """Counts by outcome over random problems; any difference fails at once."""
    counts = {"compared": 0, "close decision": 0, "NeMo does not end": 0}
    with unchecked():
        for seed in seeds:
            counts[outcome(seed)] += 1
    return counts


def outcome(seed):
    case = random_case(seed)
    want = nemo.reference(*case.arguments, limit=case.limit)
    if want.error and want.error.startswith("OverrunError"):
        return "NeMo does not end"
    assert want.error is None, (seed, want.error)
    got, margin = case.search()
    if margin < DECISION:
        return "close decision"
    found = differences(got, want.nbest_norm if case.config.score_norm else want.nbest_raw)
    assert found is None, (seed, case, found)
    return "compared"


def test_500_random_problems(record_property):
    counts = compare(range(500))
    record_property("counts", counts)
    assert sum(counts.values()) == 500 and counts["compared"] >= 300, counts


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_5000_random_problems(part, record_property):
    counts = compare(range(10_000 + 500 * part, 10_500 + 500 * part))
    record_property("counts", counts)
    assert sum(counts.values()) == 500 and counts["compared"] >= 300, counts


def test_scores_agree_far_below_the_limit():
    # Both add and take log_softmax in fp32 in the same order.
    worst = 0.0
    for seed in range(20):
        case = random_case(seed)
        want = nemo.reference(*case.arguments, limit=case.limit)
        got, margin = case.search()
        if want.error or margin < DECISION:
            continue
        want = want.nbest_norm if case.config.score_norm else want.nbest_raw
        pairs = [p for a, b in zip(got, want, strict=True) for p in zip(a, b, strict=True)]
        worst = max([worst, *(abs(a.score - b.score) for a, b in pairs)])
    assert worst <= SCORE / 20


def test_greedy_of_200_random_problems():
    with unchecked():
        for seed in range(200):
            scorer, frames, lengths, config = random_case(seed).arguments
            want = greedy_reference(scorer, frames, lengths, config.max_symbols)
            got = greedy(scorer, frames, lengths, config.max_symbols)
            assert [h.tokens for h in got] == [h.tokens for h in want], seed
            assert [h.timestamps for h in got] == [h.timestamps for h in want], seed
            for a, b in zip(got, want, strict=True):
                assert a.score == pytest.approx(b.score, abs=SCORE), seed


def test_a_zero_length_row_at_one_frame_fails_in_nemo():
    scorer = ToyScorer(4, "logprob", default_row=[-0.1, -3.0, -4.0, -6.0])
    config = BeamConfig(beam_size=2, max_symbols=2)
    found = nemo.reference(scorer, toy_frames(2, 1), torch.tensor([1, 0]), config)
    assert found.error.startswith("RuntimeError: index 3 is out of bounds")


def test_nemo_without_a_cap_is_stopped_when_it_does_not_end():
    scorer = ToyScorer(3, "logprob", default_row=[-0.1, -5.0, -9.0])
    config = BeamConfig(beam_size=2, max_symbols=None)
    found = nemo.reference(scorer, toy_frames(1, 2), torch.tensor([2]), config, limit=30)
    assert found.error == "OverrunError: NeMo has not ended after 30 iterations"


def test_the_oracle_leaves_nemo_as_it_was():
    from nemo.collections.asr.parts.submodules import rnnt_malsd_batched_computer as computer

    before = computer.F, computer.BatchedBeamHyps
    scorer = ToyScorer(4, "logprob", default_row=[-1.0] * 4)
    nemo.reference(scorer, toy_frames(1, 2), torch.tensor([2]), BeamConfig(beam_size=8))
    assert (computer.F, computer.BatchedBeamHyps) == before


def test_versions_name_nemo_and_torch():
    assert nemo.versions().keys() == {"nemo", "torch"}
