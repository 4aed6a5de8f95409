"""NeMo's own TDT searches, where it is installed, and vrt equal to them.

The default run searches 300 random problems with the beam and 150 greedily, `-m slow` 2,000; each
kind of rejected case is counted, and the share of compared cases asserted.
"""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from rnnt_cases import DECISION, SCORE, unchecked
from rnnt_tdt_cases import random_tdt_case, tdt_differences, traced

from vrt.rnnt import BeamConfig
from vrt.rnnt.model import Transducer, TransducerConfig
from vrt.rnnt.tdt import tdt_malsd
from vrt.rnnt.tdt_config import TdtConfig
from vrt.rnnt.tdt_greedy import tdt_greedy
from vrt.rnnt.tdt_model import TdtModelScorer
from vrt.rnnt.tdt_toy import ToyDurationScorer
from vrt.rnnt.toy import ToyScorer, toy_frames

pytest.importorskip("nemo", reason="NeMo is not installed (pip install 'vrt[nemo]')")
nemo = pytest.importorskip("vrt.oracle.nemo_tdt", reason="this NeMo has no TDT malsd_batch")


def asked(case):
    scorer, frames, lengths, config = case.arguments
    networks = nemo.Networks.toy(scorer)
    return nemo.tdt_reference(networks, frames, lengths, config.beam, limit=case.limit)


def compare(seeds):
    """Counts by outcome over random problems; any difference fails at once."""
    with unchecked():
        return Counter(outcome(seed) for seed in seeds)


def outcome(seed):
    case = random_tdt_case(seed)
    want = asked(case)
    if want.error and want.error.startswith("OverrunError"):
        return "NeMo does not end"
    assert want.error is None, (seed, want.error)
    got, margin, trace = case.traced()
    if margin < DECISION:
        return "close decision"
    by_norm = case.config.beam.score_norm
    found = tdt_differences(got, want.nbest_norm if by_norm else want.nbest_raw)
    assert found is None, (seed, case, found)
    if not all_apart(trace):
        return "result compared"
    assert_every_iteration(trace, want.trace, case.config.beam.max_symbols, seed)
    return "every iteration compared"


def checked(counts, total):
    every, result = counts["every iteration compared"], counts["result compared"]
    assert counts.total() == total and every + result >= 0.7 * total, counts
    assert every >= 0.5 * total, counts


def all_apart(trace):
    """Whether no slot was within rounding of its neighbour, so that slots are in one order."""
    gaps = [
        (step.score_pruned[:, :-1] - step.score_pruned[:, 1:])[step.score_pruned[:, 1:].isfinite()]
        for step in trace.iterations
    ]
    return all(float(gap.min()) > DECISION for gap in gaps if gap.numel())


def assert_every_iteration(ours, theirs, cap, seed):
    """Without a cap NeMo goes on over dead slots alone, where vrt has ended."""
    extra = len(theirs) - len(ours.iterations)
    assert extra == 0 or (cap is None and extra > 0), (seed, extra)
    for step, other in zip(ours.iterations, theirs, strict=False):
        live = step.score_pruned.isfinite()
        assert torch.equal(live, other["score_pruned"].isfinite()), seed
        assert torch.equal(step.alive, other["score"].isfinite()), seed
        for name in ("parent", "label", "last_label", "length_nonblank", "symbols_at_time"):
            assert torch.equal(getattr(step, name)[live], other[name][live]), (seed, name)
        for name in ("time_index", "hash"):
            assert torch.equal(getattr(step, name)[live], other[name][live]), (seed, name)
        for name, which in (("score_pruned", live), ("score", step.alive)):
            apart = (getattr(step, name)[which] - other[name][which]).abs()
            assert not len(apart) or float(apart.max()) <= SCORE, (seed, name)


def test_300_random_problems(record_property):
    counts = compare(range(300))
    record_property("counts", dict(counts))
    checked(counts, 300)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_2000_random_problems(part, record_property):
    counts = compare(range(10_000 + 500 * part, 10_500 + 500 * part))
    record_property("counts", dict(counts))
    checked(counts, 500)


# --- NeMo's ways that are a named choice here


def toy(row, lengths, durations, row_at=None, lengths_at=None):
    return ToyDurationScorer(
        ToyScorer(len(row), "logprob", row_at or {}, default_row=row),
        ToyScorer(len(lengths), "logprob", lengths_at or {}, default_row=lengths),
        durations,
    )


def both(scorer, time, config):
    """NeMo's n-best list of one utterance, and ours as NeMo has it and by default."""
    frames, lengths = toy_frames(1, time), torch.tensor([time])
    networks = nemo.Networks.toy(scorer)
    want = nemo.tdt_reference(networks, frames, lengths, config).nbest_norm
    as_nemo = tdt_malsd(scorer, frames, lengths, TdtConfig(config).as_nemo())
    assert tdt_differences(as_nemo, want) is None
    return want[0], tdt_malsd(scorer, frames, lengths, TdtConfig(config))[0]


def test_nemos_beam_moves_by_the_number_of_the_column_and_its_greedy_by_the_duration():
    scorer = toy([-0.1, -4.0, -3.0], [-9.0, -9.0, -9.0, -9.0, -0.1], (0, 1, 2, 4, 8))
    theirs, ours = both(scorer, 20, BeamConfig(1))
    assert theirs[0].timestamps == (0, 4, 8, 12, 16)
    assert ours[0].timestamps == (0, 8, 16)
    networks = nemo.Networks.toy(scorer)
    arguments = toy_frames(1, 20), torch.tensor([20])
    (greedy,) = nemo.tdt_greedy_reference(networks, *arguments, 10)
    assert greedy.timestamps == (0, 8, 16) and greedy.durations == (8, 8, 8)


def test_nemo_has_a_transcript_once_for_each_frame_that_it_ended_at():
    scorer = toy([-0.5, -9.0, -1.0], [-9.0, -1.0, -1.1, -1.2], (0, 1, 2, 3))
    theirs, ours = both(scorer, 3, BeamConfig(8))
    assert len({h.tokens for h in theirs}) < len(theirs)
    assert len({h.tokens for h in ours}) == len(ours)


def test_an_utterance_without_frames_stays_empty_in_nemo_too():
    scorer = toy([-0.1, -3.0, -4.0, -6.0], [-0.5, -0.9], (0, 1))
    frames, lengths, config = toy_frames(2, 3), torch.tensor([3, 0]), BeamConfig(2)
    want = nemo.tdt_reference(nemo.Networks.toy(scorer), frames, lengths, config).nbest_norm
    for choice in (TdtConfig(config), TdtConfig(config).as_nemo()):
        got = tdt_malsd(scorer, frames, lengths, choice)
        assert got[1] == want[1] and [h.tokens for h in got[1]] == [()] and got[1][0].score == 0.0


def test_nemos_token_durations_of_a_beam_are_the_frames_moved_on():
    with unchecked():
        found = [asked(random_tdt_case(seed)).nbest_norm for seed in range(30)]
    for nbest in [one for batch in found for one in batch]:
        for h in nbest:
            steps = zip(h.timestamps, h.durations, h.timestamps[1:], strict=False)
            assert all(start + moved <= after for start, moved, after in steps)


@pytest.mark.parametrize(
    ("time", "beam", "error"),
    [(0, 2, "ValueError: Initial hypothesis lengths"), (2, 9, "RuntimeError: selected index k")],
)
def test_what_nemo_fails_on(time, beam, error):
    scorer = toy([-0.1, -3.0, -4.0, -6.0], [-0.5, -0.9], (0, 1))
    networks, lengths = nemo.Networks.toy(scorer), torch.tensor([time])
    found = nemo.tdt_reference(networks, toy_frames(1, time), lengths, BeamConfig(beam))
    assert found.error.startswith(error)


def test_nemo_without_a_cap_is_stopped_when_it_does_not_end():
    scorer = toy([-0.1, -5.0, -9.0], [-0.1, -9.0], (0, 1))
    config = BeamConfig(beam_size=2, max_symbols=None)
    networks, lengths = nemo.Networks.toy(scorer), torch.tensor([2])
    found = nemo.tdt_reference(networks, toy_frames(1, 2), lengths, config, limit=30)
    assert found.error == "OverrunError: NeMo has not ended after 30 iterations"


def test_the_oracle_leaves_nemo_as_it_was():
    before = nemo.computer.F, nemo.computer.BatchedBeamHyps
    scorer = toy([-1.0] * 4, [-1.0], (0,))
    networks = nemo.Networks.toy(scorer)
    nemo.tdt_reference(networks, toy_frames(1, 2), torch.tensor([2]), BeamConfig(beam_size=8))
    assert (nemo.computer.F, nemo.computer.BatchedBeamHyps) == before


# --- greedy


def alone(networks, frames, lengths, cap):
    """NeMo's greedy search of each utterance in a batch of one, where its durations are right."""
    found = []
    for row, length in enumerate(lengths.tolist()):
        part = frames[row : row + 1, : max(length, 1)], lengths[row : row + 1]
        found += nemo.tdt_greedy_reference(networks, *part, cap)
    return found


def assert_equal(got, want, names, seed):
    for name in names:
        assert [getattr(h, name) for h in got] == [getattr(h, name) for h in want], (seed, name)
    for a, b in zip(got, want, strict=True):
        assert a.score == pytest.approx(b.score, abs=SCORE), seed


def test_greedy_of_150_random_problems():
    labels = 0
    with unchecked():
        for seed in range(150):
            case = random_tdt_case(seed)
            scorer, frames, lengths, config = case.arguments
            cap, networks = config.beam.max_symbols, nemo.Networks.toy(scorer)
            got = tdt_greedy(scorer, frames, lengths, cap)
            want = nemo.tdt_greedy_reference(networks, frames, lengths, cap)
            assert_equal(got, want, ("tokens", "timestamps"), seed)
            want = alone(networks, frames, lengths, cap)
            assert_equal(got, want, ("tokens", "timestamps", "durations"), seed)
            labels += sum(len(h.tokens) for h in got)
    assert labels > 500


def test_nemos_greedy_durations_in_a_batch_are_those_of_the_slowest_utterances_step():
    # Utterance 0 takes label 0 at once, by 2 frames; 1 reads a blank first, meanwhile 0's joint
    # says duration 1.
    label = {(0, 0, ()): [-0.1, -3.0, -4.0]}
    scorer = toy([-0.5, -3.0, -0.4], [-0.1, -9.0], (1, 2), label, {(0, 0, ()): [-9.0, -0.1]})
    frames, ends = toy_frames(2, 4), torch.tensor([4, 4])
    networks = nemo.Networks.toy(scorer)
    together = nemo.tdt_greedy_reference(networks, frames, ends, 10)
    apart = alone(networks, frames, ends, 10)
    ours = tdt_greedy(scorer, frames, ends, 10)
    assert together[0].timestamps == apart[0].timestamps == ours[0].timestamps == (0,)
    assert (together[0].durations, apart[0].durations, ours[0].durations) == ((1,), (2,), (2,))


def test_greedy_without_a_cap():
    for seed in range(400, 500):
        case = random_tdt_case(seed)
        if case.scorer.labels.mode != "logprob":
            continue
        scorer, frames, lengths, _ = case.arguments
        want = alone(nemo.Networks.toy(scorer), frames, lengths, None)
        got = tdt_greedy(scorer, frames, lengths, None)
        assert_equal(got, want, ("tokens", "timestamps", "durations"), seed)


# --- NeMo's own networks


def random_model(seed, durations=(0, 1, 2, 3, 4)):
    config = TransducerConfig(12, 10, 8, 1 + seed % 2, 9, durations=durations)
    model = Transducer.random(config, seed)
    model.joint.output.bias.data[config.blank] += seed % 4
    return model


def test_beam_and_greedy_of_nemos_own_decoder_and_joint():
    with unchecked():
        outcomes = [outcome_of_networks(seed) for seed in range(40)]
    assert outcomes.count("compared") >= 20, outcomes


def outcome_of_networks(seed):
    model, generator = random_model(seed), torch.Generator().manual_seed(seed)
    encoded = torch.randn(2, 14, 10, generator=generator)
    lengths, networks = torch.tensor([14, 9]), nemo.Networks.of(model)
    scorer, beam = TdtModelScorer(model), BeamConfig(4, max_symbols=3)
    frames = scorer.project(encoded)
    greedy, wanted = tdt_greedy(scorer, frames, lengths, 3), alone(networks, encoded, lengths, 3)
    for name in ("tokens", "timestamps", "durations"):
        assert [getattr(h, name) for h in greedy] == [getattr(h, name) for h in wanted], seed
    config = TdtConfig(beam).as_nemo()
    got, margin, _ = traced(scorer, frames, lengths, config)
    if margin < DECISION:
        return "close decision"
    want = nemo.tdt_reference(networks, encoded, lengths, beam)
    assert tdt_differences(got, want.nbest_norm) is None, seed
    return "compared"


def test_greedy_score_on_a_cpu_is_normalised_over_classes_and_durations_in_nemo():
    model = random_model(0)
    generator = torch.Generator().manual_seed(1)
    encoded, lengths = torch.randn(1, 14, 10, generator=generator), torch.tensor([14])
    scorer = TdtModelScorer(model)
    (ours,) = tdt_greedy(scorer, scorer.project(encoded), lengths)
    (theirs,) = nemo.tdt_greedy_reference(nemo.Networks.of(model), encoded, lengths, 10)
    assert ours.tokens == theirs.tokens and len(ours.tokens) > 0
    assert theirs.score < ours.score - 0.1
    changed = replace(ours, score=theirs.score, norm_score=theirs.norm_score)
    assert changed == theirs
