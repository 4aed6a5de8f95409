"""The clear beam search by hand: its own named choices, refusals, and what it promises a user."""

import math
from dataclasses import replace

import pytest
import torch
from rnnt_cases import random_case, unchecked

from vrt.rnnt import BeamConfig, BeamError, Fusion, NBest, Scorer, Trace, malsd
from vrt.rnnt.fusion import FusionModel
from vrt.rnnt.malsd import search
from vrt.rnnt.toy import ToyNgram, ToyScorer, toy_frames
from vrt.rnnt.toy_formula import Formula

INF = math.inf


def formula(vocab=8, seed=3, **changes):
    parts = {"ctx": -1, "bits": 20, "shift": 17, "blank_add": 2.0, "peak_add": 2.0} | changes
    return ToyScorer(vocab, "logits", formula=Formula(seed=seed, **parts))


def run(scorer, lengths, time=None, observer=None, **config):
    lengths = torch.tensor(lengths)
    frames = toy_frames(len(lengths), int(lengths.max()) if time is None else time)
    return malsd(scorer, frames, lengths, BeamConfig(**config), observer)


def texts(nbest):
    return [h.tokens for h in nbest]


def close(left, right, limit=1e-5):
    assert texts(left) == texts(right)
    assert [h.timestamps for h in left] == [h.timestamps for h in right]
    for a, b in zip(left, right, strict=True):
        assert a.score == pytest.approx(b.score, abs=limit)


def test_toys_keep_the_protocols():
    assert isinstance(formula(), Scorer)
    assert isinstance(ToyNgram(1, 7), FusionModel)


def test_two_alignments_of_one_transcript_are_summed():
    # P(label 0) = P(blank) = 1/2 at both frames, then only blank: (0) has two alignments.
    half = math.log(0.5)
    rows = {(None, t, ()): [half, -INF, half] for t in (0, 1)}
    scorer = ToyScorer(3, "logprob", rows, default_row=[-INF, -INF, 0.0])
    (best,) = run(scorer, [2], beam_size=3)
    assert texts(best) == [(0,), ()]
    assert best[0].score == pytest.approx(math.log(0.75), abs=1e-6)
    assert best[0].norm_score == pytest.approx(math.log(0.75) / 2, abs=1e-6)
    assert best[0].timestamps == (0,)  # those of the better alignment, 1/2 against 1/4
    assert best[1].score == pytest.approx(math.log(0.25), abs=1e-6)


def test_what_a_merge_frees_is_refilled_by_the_next_pruning_only():
    scorer, trace = formula(vocab=6, seed=1, tdiv=3, blank_add=3.0), Trace()
    run(scorer, [12], beam_size=4, observer=trace)
    merges = [i for i, step in enumerate(trace.iterations) if any(step.recombined)]
    assert merges
    for i in merges:
        freed = sum(len(group) - 1 for group, _ in trace.iterations[i].recombined[0])
        assert int(trace.iterations[i].alive.sum()) == 4 - freed
    assert all(step.score_pruned.isfinite().sum() == 4 for step in trace.iterations[2:])


def test_score_norm_changes_the_winner_and_never_the_score():
    scorer = ToyScorer(3, "logprob", {}, default_row=[-1.0, -9.0, -0.9])
    by_norm = run(scorer, [3], beam_size=3, max_symbols=1)[0]
    by_score = run(scorer, [3], beam_size=3, max_symbols=1, score_norm=False)[0]
    assert by_norm[0].tokens != by_score[0].tokens
    assert {h.tokens: h.score for h in by_norm} == {h.tokens: h.score for h in by_score}
    assert [h.norm_score for h in by_norm] == sorted((h.norm_score for h in by_norm), reverse=True)
    assert [h.score for h in by_score] == sorted((h.score for h in by_score), reverse=True)


@pytest.mark.parametrize("ties", ["lowest", "torch"])
def test_batch_equals_each_utterance_alone(ties):
    scorer, lengths = formula(), [9, 1, 5, 12]
    together = run(scorer, lengths, beam_size=4, max_symbols=3, ties=ties)
    for row, length in enumerate(lengths):
        frames = toy_frames(4, 12)[row : row + 1, :length]
        config = BeamConfig(beam_size=4, max_symbols=3, ties=ties)
        (alone,) = malsd(scorer, frames, torch.tensor([length]), config)
        close(together[row], alone)


def test_batch_equals_solo_to_the_bit_on_random_problems():
    rows = 0
    with unchecked():
        for seed in range(80):
            case = random_case(seed)
            scorer, frames, lengths, config = case.arguments
            config = replace(config, ties="lowest", zero_length="empty")
            together = malsd(scorer, frames, lengths, config)
            for row in range(len(lengths)):
                length = max(1, case.lengths[row])  # without padding, but for a row of no frames
                alone = scorer, frames[row : row + 1, :length], lengths[row : row + 1], config
                assert malsd(*alone) == [together[row]], (seed, row)
                rows += 1
    assert rows > 160


def test_padding_beyond_the_longest_utterance_changes_nothing():
    scorer = formula()
    short = run(scorer, [9, 5], beam_size=4)
    padded = run(scorer, [9, 5], time=40, beam_size=4)
    assert [texts(n) for n in short] == [texts(n) for n in padded]


def test_an_observer_changes_nothing_and_sees_every_iteration():
    scorer, trace = formula(), Trace()
    seen = run(scorer, [9], beam_size=4, observer=trace)
    assert seen == run(scorer, [9], beam_size=4)
    lengths = [step.length_with_blank for step in trace.iterations]
    assert lengths == list(range(1, len(lengths) + 1))
    assert float(trace.iterations[-1].score.max()) == max(h.score for h in seen[0])


def test_trace_table_lists_living_slots_and_renders():
    trace = Trace()
    run(formula(), [3], beam_size=4, observer=trace)
    table = trace.table()
    assert {"iteration", "slot", "parent", "label", "score", "merged"} <= table.rows[0].keys()
    assert all(row["score_pruned"] > -INF for row in table.rows)
    assert table._repr_html_().count("<tr>") == len(table.rows) + 1
    assert "no iteration" in Trace().table()._repr_html_()


def test_nbest_renders_as_a_small_table():
    (best,) = run(formula(), [6], beam_size=4)
    assert isinstance(best, NBest)
    assert best._repr_html_().count("<tr>") == len(best) + 1
    assert "no hypothesis survived" in NBest()._repr_html_()


def test_seconds_are_frames_times_their_length():
    (best,) = run(formula(), [6], beam_size=4)
    longest = max(best, key=lambda h: len(h.tokens))
    assert longest.tokens
    assert longest.seconds(0.08) == tuple(0.08 * t for t in longest.timestamps)


def test_more_slots_than_classes_are_refused_before_any_work():
    class Untouchable(ToyScorer):
        def start(self, rows):
            raise AssertionError("work was done")

    scorer = Untouchable(4, "logprob", default_row=[-1.0] * 4)
    with pytest.raises(BeamError, match=r"beam_size 5 is larger than the scorer's 4 classes"):
        run(scorer, [2], beam_size=5)


@pytest.mark.parametrize("batch", [0, 2])
def test_no_frames_at_all_are_refused(batch):
    with pytest.raises(BeamError, match=r"T = 0"):
        malsd(formula(), toy_frames(batch, 0), torch.zeros(batch, dtype=torch.int64))


@pytest.mark.parametrize("length", [-1, 4])
def test_a_length_outside_the_frames_is_refused(length):
    with pytest.raises(BeamError, match=rf"length {length} of utterance 1 is outside 0\.\.3"):
        run(formula(), [3, length], time=3)


@pytest.mark.parametrize("bad", [math.nan, INF])
def test_scores_that_are_no_log_probabilities_are_refused_by_place(bad):
    rows = {(1, 2, ()): [-1.0, bad, -1.0, -1.0]}
    scorer = ToyScorer(4, "logprob", rows, default_row=[-5.0, -5.0, -5.0, -0.1])
    with pytest.raises(BeamError, match=r"label 1 at encoder frame 2 of utterance 1"):
        run(scorer, [4, 4], beam_size=2)


def test_nan_that_only_dead_or_final_slots_would_read_is_no_matter():
    # From one label on the toy scores NaN, but no label can be taken.
    rows = {(None, t, (v,)): [math.nan] * 4 for t in range(3) for v in range(3)}
    scorer = ToyScorer(4, "logprob", rows, default_row=[-INF, -INF, -INF, -0.1])
    for ties in ("lowest", "torch"):
        (best,) = run(scorer, [3], beam_size=4, ties=ties)
        assert texts(best) == [()] and best[0].score == pytest.approx(-0.3, abs=1e-6)


def test_without_max_symbols_a_search_that_does_not_end_names_its_guard():
    scorer = ToyScorer(3, "logprob", default_row=[-0.1, -5.0, -9.0])
    with pytest.raises(BeamError, match=r"max_symbols=None: after 14 iterations over 2 encoder"):
        run(scorer, [2], beam_size=2, max_symbols=None, iteration_guard=7)


def test_without_max_symbols_a_search_that_ends_by_itself_does():
    rows = {(None, t, ()): [-0.1, -5.0, -9.0] for t in range(3)}
    rows |= {(None, t, (v,)): [-0.2, -5.0, -4.0] for t in range(3) for v in (0, 1)}
    scorer = ToyScorer(3, "logprob", rows, default_row=[-INF, -INF, -0.5])
    (best,) = run(scorer, [3], beam_size=3, max_symbols=None)
    assert (0, 0) in texts(best)


def test_max_symbols_forces_blank_also_outside_the_best_labels():
    # Blank is the least likely class by far, so never among the 2 best labels of a slot.
    scorer, trace = ToyScorer(4, "logprob", default_row=[-0.1, -3.0, -4.0, -20.0]), Trace()
    (best,) = run(scorer, [2], beam_size=2, max_symbols=3, observer=trace)
    assert best[0].tokens == (0,) * 6 and best[0].timestamps == (0, 0, 0, 1, 1, 1)
    assert best[0].score == pytest.approx(-40.6, abs=1e-4)
    assert any(step.forced_blank_parent.any() for step in trace.iterations)


def test_max_symbols_0_permits_blanks_only():
    (best,) = run(formula(), [5], beam_size=4, max_symbols=0)
    assert texts(best) == [()]


def test_a_beam_that_dies_gives_an_empty_list_and_ends():
    scorer = ToyScorer(3, "logprob", default_row=[-INF, -INF, -INF])
    for config in (BeamConfig(beam_size=2), BeamConfig(beam_size=2).as_nemo()):
        assert malsd(scorer, toy_frames(2, 3), torch.tensor([3, 2]), config) == [[], []]


def test_a_blank_of_probability_0_at_the_cap_kills_the_slot():
    scorer = ToyScorer(3, "logprob", default_row=[-0.1, -3.0, -INF])
    assert run(scorer, [2], beam_size=2, max_symbols=2) == [[]]


@pytest.mark.parametrize("beam", [1, 2, 4, 8])
def test_an_all_blank_utterance_is_one_empty_hypothesis_at_rank_1(beam):
    scorer = ToyScorer(8, "logprob", default_row=[-9.0] * 7 + [-0.001])
    (best,) = run(scorer, [50], beam_size=beam)
    assert best[0].tokens == () and best[0].score == pytest.approx(-0.05, abs=1e-3)
    assert best[0].norm_score == best[0].score  # length + 1 is 1: no division by zero


def test_a_row_of_length_0_stays_empty():
    lone = run(formula(), [9], beam_size=4)
    two = run(formula(), [9, 0], beam_size=4)
    assert texts(two[1]) == [()] and two[1][0].score == 0.0 and two[1][0].timestamps == ()
    close(two[0], lone[0])


@pytest.mark.parametrize("ties", ["lowest", "torch"])
def test_only_rows_of_length_0_take_no_iteration(ties):
    beam = search(
        formula(), toy_frames(2, 3), torch.tensor([0, 0]), BeamConfig(zero_length="nemo", ties=ties)
    )
    assert beam.iterations == 0
    assert [texts(n) for n in run(formula(), [0, 0], time=3)] == [[()], [()]]


def test_zero_length_nemo_decodes_the_padding():
    kept = run(formula(seed=5, blank_add=0.0), [9, 0], beam_size=4)
    woken = run(formula(seed=5, blank_add=0.0), [9, 0], beam_size=4, zero_length="nemo")
    assert texts(kept[1]) == [()]
    assert any(tokens for tokens in texts(woken[1]))
    close(kept[0], woken[0])


def test_zero_length_nemo_beside_one_frame_fails_by_name():
    scorer = ToyScorer(4, "logprob", default_row=[-0.1, -3.0, -4.0, -6.0])
    with pytest.raises(BeamError, match=r"zero_length='nemo'"):
        run(scorer, [1, 0], beam_size=2, max_symbols=2, zero_length="nemo")
    assert texts(run(scorer, [1, 0], beam_size=2, max_symbols=2)[1]) == [()]


def test_ties_lowest_takes_the_lower_index_and_torch_takes_torchs():
    row = [-1.0] * 6 + [-1.0]
    scorer, trace = ToyScorer(7, "logprob", default_row=row), Trace()
    run(scorer, [1], beam_size=3, max_symbols=1, observer=trace)
    assert trace.iterations[0].label.tolist() == [[0, 1, 2]]
    trace = Trace()
    run(scorer, [1], beam_size=3, max_symbols=1, ties="torch", observer=trace)
    first = torch.tensor(row).topk(3).indices
    candidates = torch.full((3, 3), -INF)
    candidates[0] = -1.0
    assert trace.iterations[0].label.tolist() == [first[candidates.flatten().topk(3)[1]].tolist()]


def test_scores_have_the_dtype_of_the_frames():
    scorer, lengths = formula(), torch.tensor([9])
    exact = search(scorer, toy_frames(1, 9, torch.float64), lengths, BeamConfig())
    rough = search(scorer, toy_frames(1, 9), lengths, BeamConfig())
    assert exact.hyps.scores.dtype == torch.float64 and rough.hyps.scores.dtype == torch.float32
    # 20 additions of numbers near 10, each rounded to 24 bits.
    assert (exact.hyps.scores - rough.hyps.scores).abs().max() < 2e-5


def test_alignments_and_confidences():
    scorer = formula(seed=11)
    (best,) = run(scorer, [9], beam_size=4, preserve_alignments=True)
    assert best == run(scorer, [9], beam_size=4, preserve_alignments=True)[0]
    frames = toy_frames(1, 9)[0]
    for h in best:
        labels = [s.label for s in h.alignment if s.label != scorer.blank]
        blanks = [s.frame for s in h.alignment if s.label == scorer.blank]
        assert tuple(labels) == h.tokens and blanks == list(range(9))
        assert sum(s.log_prob for s in h.alignment) <= h.score + 1e-5
        assert [s.frame for s in h.alignment] == sorted(s.frame for s in h.alignment)
        prefix = ()
        for s in h.alignment:
            row = scorer.log_probs(frames[s.frame][None], [prefix])[0]
            assert s.log_prob == pytest.approx(float(row[s.label]), abs=1e-6)
            prefix += () if s.label == scorer.blank else (s.label,)
        taken = [math.exp(s.log_prob) for s in h.alignment if s.label != scorer.blank]
        assert h.confidence == tuple(taken) and all(0 <= p <= 1 for p in taken)


def test_confidence_is_acoustic_under_fusion():
    scorer, fusion = formula(seed=11), (Fusion(ToyNgram(5, 7), 5.0),)
    (best,) = run(scorer, [9], beam_size=4, preserve_alignments=True, fusion=fusion)
    frames = toy_frames(1, 9)[0]
    assert any(h.tokens for h in best)
    for h in best:
        prefix = ()
        for s in h.alignment:
            row = scorer.log_probs(frames[s.frame][None], [prefix])[0]
            assert s.log_prob == pytest.approx(float(row[s.label]), abs=1e-6)
            prefix += () if s.label == scorer.blank else (s.label,)


def test_alignments_are_not_kept_unasked_and_are_empty_without_frames():
    (best,) = run(formula(), [9], beam_size=4)
    assert best[0].alignment is None and best[0].confidence is None
    (best,) = run(formula(), [0], time=3, beam_size=4, preserve_alignments=True)
    assert best[0].alignment == () and best[0].confidence == ()


def test_blank_need_not_be_the_last_class_unless_there_is_fusion():
    class BlankFirst:
        """A toy of 4 classes with blank moved to the front."""

        def __init__(self):
            self.inner, self.vocab, self.blank = formula(vocab=4), 4, 0

        def start(self, rows):
            return self.inner.start(rows)

        def log_probs(self, frames, state):
            return self.inner.log_probs(frames, state).roll(1, dims=-1)

        def advance(self, state, parents, labels):
            return self.inner.advance(state, parents, labels.where(labels > 0, 4) - 1)

    (moved,) = run(BlankFirst(), [9], beam_size=3)
    (plain,) = run(formula(vocab=4), [9], beam_size=3)
    assert texts(moved) == [tuple(v + 1 for v in tokens) for tokens in texts(plain)]
    with pytest.raises(BeamError, match=r"fusion needs blank as the last class, 3; it is 0"):
        run(BlankFirst(), [9], beam_size=3, fusion=(Fusion(ToyNgram(1, 3), 0.5),))


def test_no_gradient_is_recorded():
    class Learning(ToyScorer):
        def log_probs(self, frames, state):
            return super().log_probs(frames, state) * torch.ones(1, requires_grad=True)

    scorer = Learning(8, "logits", formula=formula().formula)
    beam = search(scorer, toy_frames(1, 4), torch.tensor([4]), BeamConfig())
    assert not beam.hyps.scores.requires_grad


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beam_size": 0}, "beam_size must be at least 1, got 0"),
        ({"max_symbols": -1}, "max_symbols must be at least 0, got -1"),
        ({"iteration_guard": 0}, "iteration_guard must be at least 1"),
    ],
)
def test_a_config_of_no_sense_is_refused(change, message):
    with pytest.raises(BeamError, match=message):
        BeamConfig(**change)


@pytest.mark.parametrize(
    "name", ["ties", "collisions", "zero_length", "pruning_mode", "blank_lm_score_mode"]
)
def test_a_choice_that_does_not_exist_is_refused(name):
    config = BeamConfig()
    object.__setattr__(config, name, "best")  # past the type check, which tests alone have
    with pytest.raises(BeamError, match=f"{name} must be one of .*, got 'best'"):
        config.__post_init__()


def test_as_nemo_changes_the_three_rules_only():
    config = BeamConfig(beam_size=7, max_symbols=3, score_norm=False).as_nemo()
    assert (config.ties, config.collisions, config.zero_length) == ("torch", "nemo", "nemo")
    assert (config.beam_size, config.max_symbols, config.score_norm) == (7, 3, False)
