"""The TDT searches by hand: named choices, refusals, and what they promise a user."""

import math
from dataclasses import replace

import pytest
import torch
from rnnt_cases import random_case, unchecked
from rnnt_dictionary_beam import rows_of
from rnnt_tdt_cases import random_tdt_case, tdt_differences

from vrt.rnnt import BeamConfig, BeamError, Fusion, Trace, greedy, malsd
from vrt.rnnt.fast import fast_greedy, fast_malsd
from vrt.rnnt.model import ModelScorer, Transducer, TransducerConfig
from vrt.rnnt.tdt import tdt_malsd
from vrt.rnnt.tdt_config import TdtConfig
from vrt.rnnt.tdt_greedy import tdt_greedy
from vrt.rnnt.tdt_model import TdtModelScorer
from vrt.rnnt.tdt_scorer import DurationScorer
from vrt.rnnt.tdt_toy import ToyDurationScorer
from vrt.rnnt.toy import ToyNgram, ToyScorer, toy_frames
from vrt.rnnt.toy_formula import Formula

INF = math.inf
PARTS = {"ctx": -1, "bits": 20, "shift": 17, "blank_add": 2.0, "peak_add": 2.0}


def toy(row, lengths, durations, row_at=None, lengths_at=None):
    return ToyDurationScorer(
        ToyScorer(len(row), "logprob", row_at or {}, default_row=row),
        ToyScorer(len(lengths), "logprob", lengths_at or {}, default_row=lengths),
        durations,
    )


def formula(seed=3, durations=(0, 1, 2, 3, 4)):
    labels = ToyScorer(8, "logits", formula=Formula(seed=seed, **PARTS))
    lengths = Formula(seed=seed + 1, **PARTS | {"blank_add": 0.0})
    return ToyDurationScorer(
        labels, ToyScorer(len(durations), "logits", formula=lengths), durations
    )


def run(scorer, lengths, time=None, observer=None, finals="merged", jumps="durations", **beam):
    lengths = torch.tensor(lengths)
    frames = toy_frames(len(lengths), int(lengths.max()) if time is None else time)
    config = TdtConfig(BeamConfig(**beam), jumps, finals)
    return tdt_malsd(scorer, frames, lengths, config, observer)


def texts(nbest):
    return [h.tokens for h in nbest]


def test_toys_and_models_keep_the_protocol():
    assert isinstance(formula(), DurationScorer)
    assert isinstance(TdtModelScorer(model()), DurationScorer)
    assert not isinstance(formula().labels, DurationScorer)


# --- beam


def test_a_step_pays_for_label_and_duration_and_moves_by_it():
    # From the empty transcript: label 0, by 3 frames. Then blank, by 2.
    scorer = toy(
        [-9.0, -9.0, -0.25],
        [-8.0, -7.0, -0.5, -6.0],
        (0, 1, 2, 3),
        {(0, 0, ()): [-0.125, -9.0, -9.0]},
        {(0, 0, ()): [-8.0, -7.0, -6.0, -0.5]},
    )
    (found,) = run(scorer, [5], beam_size=1)
    assert found[0].tokens == (0,) and found[0].timestamps == (0,) and found[0].durations == (3,)
    assert found[0].score == pytest.approx(-0.125 - 0.5 - 0.25 - 0.5)


def test_a_blank_of_duration_0_moves_by_one_and_meets_that_of_duration_1():
    log = math.log
    scorer = toy([-INF, 0.0], [log(0.5), log(0.25), log(0.25)], (0, 1, 2))
    trace = Trace()
    (found,) = run(scorer, [1], beam_size=3, observer=trace)
    assert trace.iterations[0].time_index.tolist() == [[1, 1, 2]]
    assert texts(found) == [()] and found[0].score == pytest.approx(0.0, abs=1e-6)
    (apart,) = run(scorer, [1], beam_size=3, finals="nemo")
    assert [round(math.exp(h.score), 6) for h in apart] == [0.75, 0.25]


def test_the_same_labels_at_different_frames_are_not_merged_before_the_end():
    scorer = toy([-9.0, -0.1], [-0.7, -0.8], (1, 2))
    trace = Trace()
    (found,) = run(scorer, [6], beam_size=2, observer=trace)
    first = trace.iterations[0]
    assert first.time_index.tolist() == [[1, 2]] and first.alive.all()
    assert len(set(texts(found))) == len(found)


def test_a_step_may_go_beyond_the_end_and_its_duration_is_told_in_full():
    scorer = toy([-0.1, -9.0, -9.0], [-9.0, -0.1], (1, 4))
    (found,) = run(scorer, [6], beam_size=1)
    assert found[0].timestamps == (0, 4) and found[0].durations == (4, 4)


def test_max_symbols_counts_labels_that_stay_and_the_forced_blank_moves_by_its_best_duration():
    scorer = toy(
        [-0.1, -5.0, -4.0],
        [-0.1, -3.0, -2.0],
        (0, 1, 3),
        None,
        {(0, t, (0, 0)): [-4.0, -3.0, -0.5] for t in range(9)},
    )
    trace = Trace()
    (found,) = run(scorer, [3], beam_size=1, max_symbols=2, observer=trace)
    assert found[0].tokens == (0, 0) and found[0].durations == (0, 0)
    assert [step.forced_blank_parent.item() for step in trace.iterations] == [False, False, True]
    assert trace.iterations[-1].time_index.item() == 3
    assert found[0].score == pytest.approx(-0.1 * 4 - 4.0 - 0.5, abs=1e-6)


def test_a_label_that_moves_on_starts_the_count_again():
    scorer = toy([-0.1, -5.0, -4.0], [-5.0, -0.1], (0, 1))
    trace = Trace()
    (found,) = run(scorer, [4], beam_size=1, max_symbols=1, observer=trace)
    assert found[0].timestamps == (0, 1, 2, 3)
    assert not any(step.forced_blank_parent.any() for step in trace.iterations)


def test_durations_of_0_alone_are_an_rnn_t():
    """Blank moves by one frame and labels stay: the search is malsd, to the bit."""
    with unchecked():
        for seed in range(50):
            scorer, frames, lengths, config = random_case(seed).arguments
            config = replace(config, zero_length="empty")
            timed = ToyDurationScorer(scorer, ToyScorer(1, "logprob", default_row=[0.0]), (0,))
            got = tdt_malsd(timed, frames, lengths, TdtConfig(config))
            want = malsd(scorer, frames, lengths, config)
            assert [[replace(h, durations=None) for h in n] for n in got] == want, seed
            assert all(set(h.durations) <= {0} for n in got for h in n)


def test_durations_of_1_alone_take_one_class_a_frame():
    """The best of all sequences of one class a frame, blanks taken out, by brute force."""
    rows = rows_of(formula().labels, 0)
    scorer = ToyDurationScorer(formula().labels, ToyScorer(1, "logprob", default_row=[0.0]), (1,))
    (found,) = run(scorer, [3], beam_size=8, score_norm=False, time=3)
    sums = {}
    for a in range(8):
        for b in range(8):
            for c in range(8):
                tokens, score = (), 0.0
                for t, label in enumerate((a, b, c)):
                    score += rows(t, tokens)[label]
                    tokens = tokens if label == 7 else (*tokens, label)
                sums.setdefault(tokens, []).append(score)
    truth = {k: math.log(math.fsum(math.exp(s) for s in v)) for k, v in sums.items()}
    assert found[0].tokens == max(truth, key=truth.get)
    assert found[0].score <= truth[found[0].tokens] + 1e-5
    assert all(len(h.tokens) <= 3 for h in found)


def test_batch_equals_solo_to_the_bit_on_random_problems():
    rows = 0
    with unchecked():
        for seed in range(30):
            case = random_tdt_case(seed)
            scorer, frames, lengths, config = case.arguments
            config = TdtConfig(replace(config.beam, ties="lowest"))
            together = tdt_malsd(scorer, frames, lengths, config)
            greedy = tdt_greedy(scorer, frames, lengths, 3)
            for row in range(len(lengths)):
                length = max(1, case.lengths[row])
                alone = scorer, frames[row : row + 1, :length], lengths[row : row + 1]
                assert tdt_malsd(*alone, config) == [together[row]], (seed, row)
                assert tdt_greedy(*alone, 3) == [greedy[row]], (seed, row)
                rows += 1
    assert rows > 60


def test_padding_beyond_the_longest_utterance_changes_nothing():
    assert run(formula(), [9, 5], beam_size=4) == run(formula(), [9, 5], time=40, beam_size=4)


def test_transcripts_are_unique_and_ranked():
    with unchecked():
        for seed in range(20):
            scorer, frames, lengths, config = random_tdt_case(seed).arguments
            for by_norm in (True, False):
                beam = replace(config.beam, score_norm=by_norm)
                for nbest in tdt_malsd(scorer, frames, lengths, TdtConfig(beam)):
                    assert len(set(texts(nbest))) == len(nbest)
                    keys = [h.norm_score if by_norm else h.score for h in nbest]
                    assert keys == sorted(keys, reverse=True)


def test_an_alignment_is_a_path_whose_steps_follow_one_another():
    (found,) = run(formula(), [12], beam_size=4, preserve_alignments=True)
    (plain,) = run(formula(), [12], beam_size=4)
    assert texts(found) == texts(plain)
    for h in found:
        steps = [step for step in h.alignment if step.label != 7]
        assert tuple(step.label for step in steps) == h.tokens
        assert tuple(step.frame for step in steps) == h.timestamps
        assert sum(step.log_prob for step in h.alignment) <= h.score + 1e-4
        frames = [step.frame for step in h.alignment]
        assert frames == sorted(frames)
        moved = dict(zip(h.timestamps, h.durations, strict=True))
        assert all(start + moved[start] in {*frames, *range(12, 17)} for start in h.timestamps)
        assert len(h.confidence) == len(h.tokens) and all(0 <= c <= 1 for c in h.confidence)


def test_the_right_path_survives_a_beam_of_4():
    """sherpa-onnx 3267: the TDT beam came back empty, or with one word, where greedy was right."""
    spoken = [(3, 0, 4), (1, 4, 2), (5, 6, 0), (2, 6, 4), (4, 12, 3)]  # label, frame, duration
    row_at, lengths_at, prefix = {}, {}, ()
    for label, frame, duration in spoken:
        row_at[None, frame, prefix] = [-0.4 if v == label else -3.0 for v in range(7)]
        lengths_at[None, frame, prefix] = [-0.4 if d == duration else -3.0 for d in range(5)]
        prefix = (*prefix, label)
    silence = [-5.0] * 6 + [-0.3]
    scorer = toy(silence, [-3.0, -0.3, -3.0, -3.0, -3.0], (0, 1, 2, 3, 4), row_at, lengths_at)
    (greedy,) = tdt_greedy(scorer, toy_frames(1, 15), torch.tensor([15]))
    assert greedy.tokens == prefix and greedy.timestamps == (0, 4, 6, 6, 12)
    for by_norm in (True, False):
        (found,) = run(scorer, [15], beam_size=4, score_norm=by_norm)
        assert found[0].tokens == prefix and found[0].timestamps == greedy.timestamps
        assert found[0].durations == greedy.durations == (4, 2, 0, 4, 3)


def test_beam_timestamps_are_those_of_greedy():
    """NeMo pull request 14912: beam timestamps failed, or lay late by the token's duration."""
    same = 0
    for seed in range(20):
        scorer = formula(seed)
        (greedy,) = tdt_greedy(scorer, toy_frames(1, 15), torch.tensor([15]), None)
        (found,) = run(scorer, [15], beam_size=1, max_symbols=None)
        assert (found[0].tokens, found[0].timestamps, found[0].durations) == (
            greedy.tokens,
            greedy.timestamps,
            greedy.durations,
        )
        same += len(greedy.tokens)
    assert same > 40


def test_utterances_of_no_frames_stay_empty():
    found = run(formula(), [6, 0], beam_size=4)
    assert texts(found[1]) == [()] and found[1][0].score == 0.0 and found[1][0].durations == ()
    assert run(formula(), [0, 0], time=2, beam_size=4)[0][0].durations == ()


# --- refusals


@pytest.mark.parametrize("search", [tdt_malsd, tdt_greedy])
@pytest.mark.parametrize(
    ("durations", "message"),
    [
        ((), "durations are empty"),
        ((0, -1), r"-1 is not"),
        ((0, 1.5), r"1\.5 is not"),
        ((1, 1), "one is named twice"),
        ((0, 1), "it says it has 3 \\(blank included\\) and 2: split the joint's 5 outputs"),
    ],
)
def test_durations_that_are_none_are_refused(search, durations, message):
    scorer = toy([-1.0] * 3, [-1.0, -1.0, -1.0], (0, 1, 2))
    object.__setattr__(scorer, "durations", durations)
    with pytest.raises(BeamError, match=message):
        search(scorer, toy_frames(1, 2), torch.tensor([2]))


def test_classes_of_another_width_are_refused():
    class Wide(ToyDurationScorer):
        def log_probs(self, frames, state):
            labels, lengths = super().log_probs(frames, state)
            return torch.cat([labels, lengths], dim=-1), lengths

    scorer = Wide(*vars(toy([-1.0] * 3, [-1.0, -1.0], (0, 1))).values())
    with pytest.raises(BeamError, match="gave 5 classes and 2 durations a row"):
        run(scorer, [2], beam_size=2)


@pytest.mark.parametrize("bad", [math.nan, INF])
def test_scores_that_are_no_log_probabilities_are_refused_by_place(bad):
    silent, one = [-5.0, -5.0, -0.1], [-9.0, -0.1]
    scorer = toy(silent, one, (0, 1), {(1, 2, ()): [-1.0, bad, -1.0]})
    with pytest.raises(BeamError, match="label 1 at encoder frame 2 of utterance 1"):
        run(scorer, [4, 4], beam_size=2)
    with pytest.raises(BeamError, match="scores at encoder frame 2 of utterance 1 are NaN"):
        tdt_greedy(scorer, toy_frames(2, 4), torch.tensor([4, 4]))
    scorer = toy(silent, one, (0, 1), None, {(1, 2, ()): [-1.0, bad]})
    with pytest.raises(BeamError, match="duration number 1 at encoder frame 2 of utterance 1"):
        run(scorer, [4, 4], beam_size=2)
    with pytest.raises(BeamError, match="duration scores at encoder frame 2 of utterance 1"):
        tdt_greedy(scorer, toy_frames(2, 4), torch.tensor([4, 4]))


@pytest.mark.parametrize("search", [malsd, greedy, fast_malsd, fast_greedy])
def test_searches_of_an_rnnt_refuse_a_tdts_scorer_by_name(search):
    scorer = toy([-1.0] * 3, [-1.0, -1.0], (0, 1))
    with pytest.raises(BeamError, match=r"ToyDurationScorer scores durations .* for vrt.rnnt.tdt"):
        search(scorer, toy_frames(1, 2), torch.tensor([2]))


def test_beams_that_are_too_wide_are_refused():
    scorer = toy([-1.0] * 3, [-1.0, -1.0], (0, 1))
    assert len(run(scorer, [2], beam_size=6)[0]) > 0
    with pytest.raises(BeamError, match=r"beam_size 7 is larger than 3 classes .* times 2 dur"):
        run(scorer, [2], beam_size=7)
    fusion = {"fusion": (Fusion(ToyNgram(1, 2), 0.5),)}
    assert len(run(scorer, [2], beam_size=6, pruning_mode="late", **fusion)[0]) > 0
    with pytest.raises(BeamError, match="beam_size 4 is larger than the scorer's 3 classes"):
        run(scorer, [2], beam_size=4, pruning_mode="early", **fusion)


@pytest.mark.parametrize("search", [tdt_malsd, tdt_greedy])
def test_no_frames_and_wrong_lengths_are_refused(search):
    with pytest.raises(BeamError, match="T = 0"):
        search(formula(), toy_frames(1, 0), torch.tensor([0]))
    with pytest.raises(BeamError, match=r"length 4 of utterance 0 is outside 0\.\.3"):
        search(formula(), toy_frames(1, 3), torch.tensor([4]))


def test_searches_that_do_not_end_name_their_guard():
    scorer = toy([-0.1, -5.0, -9.0], [-0.1, -9.0], (0, 1))
    with pytest.raises(BeamError, match="max_symbols=None: after 14 iterations"):
        run(scorer, [2], beam_size=2, max_symbols=None, iteration_guard=7)
    with pytest.raises(BeamError, match="more than 7 labels per encoder frame"):
        tdt_greedy(scorer, toy_frames(1, 2), torch.tensor([2]), None, iteration_guard=7)
    with pytest.raises(BeamError, match="max_symbols must be at least 1 or None, got 0"):
        tdt_greedy(scorer, toy_frames(1, 2), torch.tensor([2]), 0)


def test_unknown_choices_are_refused():
    with unchecked():
        with pytest.raises(BeamError, match="finals must be one of merged, nemo, got 'all'"):
            TdtConfig(finals="all")
        with pytest.raises(BeamError, match="jumps must be one of durations, nemo, got 'index'"):
            TdtConfig(jumps="index")


# --- greedy


def test_greedy_after_the_cap_moves_on_by_one_frame_without_paying():
    scorer = toy([-0.1, -3.0, -5.0], [-0.1, -3.0], (0, 2))
    (found,) = tdt_greedy(scorer, toy_frames(1, 3), torch.tensor([3]), max_symbols=2)
    assert found.tokens == (0,) * 6 and found.timestamps == (0, 0, 1, 1, 2, 2)
    assert found.durations == (0,) * 6 and found.score == pytest.approx(-0.6, abs=1e-6)


def test_greedy_ends_with_a_label_that_leaves_the_last_frame():
    scorer = toy([-0.1, -3.0, -5.0], [-3.0, -0.1], (0, 2))
    (found,) = tdt_greedy(scorer, toy_frames(1, 3), torch.tensor([3]))
    assert found.timestamps == (0, 2) and found.durations == (2, 2)


def test_nan_beyond_an_utterances_end_is_no_matter():
    rows = {(0, t, ()): [math.nan] * 3 for t in (1, 2)}
    scorer = toy([-5.0, -5.0, -0.1], [-9.0, -0.1], (0, 1), rows)
    found = tdt_greedy(scorer, toy_frames(2, 3), torch.tensor([1, 3]))
    assert [h.tokens for h in found] == [(), ()]
    assert texts(run(scorer, [1, 3], beam_size=2)[0])[0] == ()


# --- models


def model(durations=(0, 1, 2, 3, 4)):
    return Transducer.random(TransducerConfig(9, 6, 8, 2, 7, durations=durations), seed=1)


def test_a_model_splits_its_joint_and_normalises_each_part():
    scorer = TdtModelScorer(model())
    frames = scorer.project(torch.randn(3, 6, generator=torch.Generator().manual_seed(1)))
    labels, durations = scorer.log_probs(frames, scorer.start(3))
    assert labels.shape == (3, 9) and durations.shape == (3, 5)
    for part in (labels, durations):
        assert torch.allclose(part.exp().sum(-1), torch.ones(3), atol=1e-6)
    logits = model().joint.joint(frames, scorer.start(3).predicted)
    assert torch.equal(durations, logits[:, 9:].log_softmax(-1))


def test_a_model_of_one_kind_is_refused_by_the_scorer_of_the_other():
    with pytest.raises(BeamError, match="no durations"):
        TdtModelScorer(model(()))
    with pytest.raises(BeamError, match="needs a search that skips frames"):
        ModelScorer(model())


def test_a_models_batch_is_each_utterance_alone():
    scorer = TdtModelScorer(model())
    frames = scorer.project(torch.randn(3, 11, 6, generator=torch.Generator().manual_seed(2)))
    lengths, config = torch.tensor([11, 0, 7]), TdtConfig(BeamConfig(4))
    together = tdt_malsd(scorer, frames, lengths, config)
    for row in range(3):
        alone = tdt_malsd(scorer, frames[row : row + 1], lengths[row : row + 1], config)
        # Products of three rows of slots and of one differ in fp32 rounding.
        assert tdt_differences(alone, [together[row]], limit=1e-4) is None
    assert len(together[0][0].tokens) > 0
