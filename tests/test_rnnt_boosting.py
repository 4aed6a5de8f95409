"""The boosting tree against its rule worked out from tuples, what it does to results, and `why`.

The tolerance of 4e-6 is fp32's: sums of up to six numbers below 32 (measured: 1.9e-6).
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from rnnt_cases import unchecked
from rnnt_fusion_cases import PhraseRule, random_phrases, random_weights
from rnnt_noisy import edits, noisy

from vrt.rnnt import BeamConfig, BeamError, BeamSession, BoostingTree, Fusion, malsd, tokenized, why
from vrt.rnnt.backoff import BackoffGraph
from vrt.rnnt.toy import ToyNgram, ToyScorer, toy_frames
from vrt.rnnt.toy_formula import Formula

MODES = [(p, b) for p in ("late", "early") for b in ("no_score", "lm_weighted_full")]


def drift(tree, rule, random, steps=12):
    """Largest difference over every label after every beginning of random sayings."""
    worst = 0.0
    for _ in range(4):
        state, said = tree.start(1), ()
        for label in random.integers(0, tree.labels, steps).tolist():
            row, after = tree.advance(state)
            want = [rule.step(said, other)[0] for other in range(tree.labels)]
            worst = max(worst, float((row[0].double() - torch.tensor(want)).abs().max()))
            state, said = after[:, label], rule.step(said, label)[1]
    return worst


def random_tree(seed):
    random = np.random.default_rng(seed)
    labels = int(random.integers(2, 7))
    phrases, weights = random_phrases(random, labels), random_weights(random)
    return phrases, labels, weights, random


def worst_drift(seeds):
    worst = 0.0
    for seed in seeds:
        phrases, labels, weights, random = random_tree(seed)
        tree = BoostingTree.from_phrases(phrases, labels, **weights)
        worst = max(worst, drift(tree, PhraseRule(phrases, **weights), random))
    return worst


def test_random_trees_by_definition():
    assert worst_drift(range(60)) <= 4e-6


def said(tree, labels):
    """Score of each label in turn."""
    state, scores = tree.start(1), []
    for label in labels:
        row, after = tree.advance(state)
        scores.append(round(float(row[0, label]), 4))
        state = after[:, label]
    return scores


A, B, C, D, X = range(5)


def test_a_phrase_broken_off_pays_back_all_it_had_earned():
    tree = BoostingTree.from_phrases([(A, B, C)], 5)
    assert said(tree, [A, B, X, X]) == [1.0, 2.6931, -3.6931, 0.0]
    assert said(tree, [A, B, C, X]) == [1.0, 2.6931, 3.0986, 0.0]


def test_an_ending_that_begins_a_phrase_is_kept():
    tree = BoostingTree.from_phrases([(A, B, C), (B, D)], 5)
    # B goes on to D, so "A B" pays back all but what B earns as a first token.
    assert said(tree, [A, B, D, X]) == [1.0, 2.6931, round(1 - 3.6931 + 2.6931, 4), 0.0]


def test_the_three_consequences_of_the_rule():
    longer = BoostingTree.from_phrases([(A, B), (A, B, C, D)], 5)
    assert sum(said(longer, [A, B, X])) == pytest.approx(3.6931)
    assert sum(said(longer, [A, B, C, X])) == pytest.approx(0.0, abs=1e-3)
    begins = BoostingTree.from_phrases([(A, B), (B, C)], 5)
    assert sum(said(begins, [A, B, X])) == pytest.approx(3.6931 - 1.0)
    again = BoostingTree.from_phrases([(A, B)], 5)
    assert sum(said(again, [A, B, A, B])) == pytest.approx(2 * 3.6931)


def test_a_token_that_no_phrase_begins_with_scores_unk():
    tree = BoostingTree.from_phrases([(A, B)], 5, unk_score=-0.5)
    assert said(tree, [X, A, X]) == [-0.5, 1.0, -1.5]


def test_a_token_shared_by_phrases_has_the_greatest_score_in_any_order():
    phrases, scores = [(A, B, C), (A, D), (B,)], [1.0, 2.0, 0.5]
    orders = [(0, 1, 2), (1, 0, 2), (2, 1, 0)]
    trees = [
        BoostingTree.from_phrases([phrases[n] for n in o], 5, scores=[scores[n] for n in o])
        for o in orders
    ]
    for tree in trees:
        assert said(tree, [A, B, C]) == [2.0, 2.6931, 3.0986]
        assert said(tree, [A, B, X]) == [2.0, 2.6931, -4.1931]  # all but the phrase B
        assert said(tree, [B]) == [0.5]


def test_1000_phrases_over_1024_tokens_are_arcs_not_rows():
    random = np.random.default_rng(0)
    phrases = list({tuple(row) for row in random.integers(0, 1024, (1000, 4)).tolist()})
    tree = BoostingTree.from_phrases(phrases, 1024)
    assert sum(part.nbytes for part in vars(tree.graph).values()) < 300_000
    assert said(tree, phrases[17]) == [1.0, 2.6931, 3.0986, 3.3863]


# --- mistakes made on purpose


def no_backoff_score(monkeypatch):
    kept = BackoffGraph.of

    def of(root, backoffs, arcs):
        return kept(root, [(state, 0.0) for state, _ in backoffs], arcs)

    monkeypatch.setattr(BackoffGraph, "of", of)


def every_fail_arc_to_the_root(monkeypatch):
    kept = BackoffGraph.of

    def of(root, backoffs, arcs):
        return kept(root, [(0, score) for _, score in backoffs], arcs)

    monkeypatch.setattr(BackoffGraph, "of", of)


def partial_score_kept(monkeypatch):
    monkeypatch.setattr("vrt.rnnt.boosting._left", lambda node, uniform: 0.0)


def whole_phrase_taken_back(monkeypatch):
    monkeypatch.setattr(
        "vrt.rnnt.boosting._left", lambda node, uniform: node.fail.total - node.total
    )


def fail_arc_of_the_parent(monkeypatch):
    def link(levels):
        for level in levels:
            for node in level:
                node.fail = node.parent

    monkeypatch.setattr("vrt.rnnt.boosting._link", link)


def depth_forgotten(monkeypatch):
    monkeypatch.setattr("vrt.rnnt.boosting.log", lambda depth: 0.0)


@pytest.mark.parametrize(
    "mistake",
    [
        no_backoff_score,
        every_fail_arc_to_the_root,
        partial_score_kept,
        whole_phrase_taken_back,
        fail_arc_of_the_parent,
        depth_forgotten,
    ],
)
def test_a_mistake_is_caught(monkeypatch, mistake):
    mistake(monkeypatch)
    assert worst_drift(range(20)) > 0.1


# --- what it does to results


def errors(alpha, seeds=range(8), share=0.35, **modes):
    """Edits in a hundred tokens of the best hypotheses."""
    wrong = total = 0
    with unchecked():
        for seed in seeds:
            scorer = noisy(seed, share)
            tree = BoostingTree.from_phrases(scorer.phrases, scorer.vocab - 1)
            config = BeamConfig(fusion=(Fusion(tree, alpha),), **modes)
            time = len(scorer.logits)
            (found,) = malsd(scorer, toy_frames(1, time), torch.tensor([time]), config)
            wrong += edits(found[0].tokens, scorer.said)
            total += len(scorer.said)
    return 100 * wrong / total


def test_errors_fall_with_alpha_up_to_1():
    # NVIDIA-NeMo/Speech issue 14500: errors grew with alpha.
    none, half, one = (errors(alpha, blank_lm_score_mode="no_score") for alpha in (0.0, 0.5, 1.0))
    assert half < 0.95 * none and one < 0.95 * none


def test_too_large_an_alpha_inserts():
    one, four = (errors(alpha, blank_lm_score_mode="no_score") for alpha in (1.0, 4.0))
    assert four > 2 * one


def test_phrases_that_nobody_says_do_harm_in_the_language_models_mode_only():
    # The same report. Over 25 such sets: 62.0 edits a hundred tokens without the tree, 59.4 with
    # no_score, 69.1 with lm_weighted_full, which rescales blank whatever the tree says.
    seeds = {"seeds": range(12), "share": 0.0}
    none = errors(0.0, **seeds)
    assert errors(1.0, blank_lm_score_mode="no_score", **seeds) <= none + 1
    assert errors(1.0, blank_lm_score_mode="lm_weighted_full", **seeds) > none + 3


def test_a_rare_word_is_heard_for_its_common_rival_only_with_boosting():
    # "0 1 2" is said, and "0 1 3" a little more likely.
    rows = {
        (None, t, p): [-30.0] * 6 + [0.0]
        for t in range(3)
        for p in [(), (0,), (0, 1), (0, 1, 2), (0, 1, 3)]
    }
    rows[None, 0, ()] = [-0.1, *[-30.0] * 5, -4.0]
    rows[None, 1, (0,)] = [-30.0, -0.1, *[-30.0] * 4, -4.0]
    rows[None, 2, (0, 1)] = [-30.0, -30.0, -1.2, -0.4, -30.0, -30.0, -4.0]
    scorer = ToyScorer(7, "logprob", rows, default_row=[-40.0] * 6 + [0.0])
    tree = BoostingTree.from_phrases([(0, 1, 2)], 6)
    heard = {}
    for alpha in (0.0, 0.5):
        config = BeamConfig(fusion=(Fusion(tree, alpha),), blank_lm_score_mode="no_score")
        heard[alpha] = malsd(scorer, toy_frames(1, 3), torch.tensor([3]), config)[0][0].tokens
    assert heard == {0.0: (0, 1, 3), 0.5: (0, 1, 2)}


class Sure:
    """Label n has probability 0.9 at encoder frame 3 n, unless it was the last; else blank has."""

    vocab, blank = 12, 11

    def start(self, rows):
        return torch.full((rows,), -1)

    def log_probs(self, frames, state):
        t = frames[:, 1].long()
        due = (t // 3).where((t % 3 == 0) & (state != t // 3), self.blank)
        return (torch.eye(12)[due] * (0.9 - 0.1 / 11) + 0.1 / 11).log().to(frames.dtype)

    def advance(self, state, parents, labels):
        return labels.where((labels >= 0) & (labels != self.blank), state[parents])


class Flat(ToyNgram):
    """A language model that knows nothing."""

    def advance(self, states):
        scores = torch.full((len(states), self.labels), -float(np.log(self.labels)))
        return scores, torch.zeros(len(states), self.labels, dtype=torch.int64)


def fused(alpha, mode, keep=False):
    scorer = Sure()
    config = BeamConfig(
        fusion=(Fusion(Flat(1, 11), alpha),),
        blank_lm_score_mode=mode,
        score_norm=False,
        preserve_alignments=keep,
    )
    frames = toy_frames(1, 24)
    (found,) = malsd(scorer, frames, torch.tensor([24]), config)
    return scorer, frames[0], found[0], config


def test_a_language_model_deletes_labels_where_blank_is_left_alone():
    # NVIDIA-NeMo/Speech issue 14907: whole phrases were lost with fusion. A normalised model's
    # scores count against every label; the default mode charges blank as well.
    for alpha in (0.5, 1.0, 2.0, 4.0):
        assert fused(alpha, "lm_weighted_full")[2].tokens == tuple(range(8))
    assert fused(1.0, "no_score")[2].tokens == tuple(range(8))
    assert len(fused(4.0, "no_score")[2].tokens) < 8


def test_why_shows_what_blank_won_against():
    scorer, frames, best, config = fused(4.0, "no_score", keep=True)
    rows = why(scorer, frames, best, config).rows
    lost = next(row for row in rows if row["is_blank"] and row["best_acoustic"] > row["blank"])
    assert lost["frame"] == lost["best_label"] * 3
    assert lost["best_fusion"] == pytest.approx(-4 * np.log(11))
    assert lost["best_total"] < lost["blank_total"] == lost["blank"]


def formula(seed=1, vocab=8):
    return ToyScorer(vocab, "logits", formula=Formula(seed=seed, ctx=-1, bits=22, shift=18))


def two_models(seed, vocab=8):
    phrases = random_phrases(np.random.default_rng(seed), vocab - 1)
    tree = BoostingTree.from_phrases(phrases, vocab - 1, unk_score=-0.2)
    return Fusion(tree, 0.7), Fusion(ToyNgram(seed, vocab - 1), 0.4)


@pytest.mark.parametrize("mode", MODES, ids="-".join)
def test_the_parts_that_why_names_add_up_to_the_score(mode):
    # Beam 1: no other alignment adds to a hypothesis. A cap of 1 makes forced blanks.
    forced = 0
    for seed in range(6):
        config = BeamConfig(
            beam_size=1,
            max_symbols=1,
            fusion=two_models(seed),
            pruning_mode=mode[0],
            blank_lm_score_mode=mode[1],
            preserve_alignments=True,
        )
        frames = toy_frames(1, 6)
        ((best,),) = malsd(formula(seed), frames, torch.tensor([6]), config)
        rows = why(formula(seed), frames[0], best, config).rows
        assert sum(row["total"] for row in rows) == pytest.approx(best.score, abs=1e-4)
        assert sum(row["acoustic"] for row in rows) == pytest.approx(
            sum(step.log_prob for step in best.alignment), abs=1e-4
        )
        forced += sum(row["is_blank"] and row["best_total"] > row["blank_total"] for row in rows)
    assert forced > 0


def test_why_without_fusion_is_acoustic():
    config = BeamConfig(beam_size=1, preserve_alignments=True)
    frames = toy_frames(1, 6)
    ((best,),) = malsd(formula(), frames, torch.tensor([6]), config)
    table = why(formula(), frames[0], best, config)
    assert all(row["total"] == row["acoustic"] and row["fusion"] == 0 for row in table.rows)
    assert "<th>blank_total</th>" in table._repr_html_()


def test_why_needs_an_alignment():
    config = BeamConfig()
    frames = toy_frames(1, 3)
    ((best, *_),) = malsd(formula(), frames, torch.tensor([3]), config)
    with pytest.raises(BeamError, match=r"BeamConfig\(preserve_alignments=True\)"):
        why(formula(), frames[0], best, config)


def test_a_stream_in_pieces_equals_the_whole():
    for seed in range(2):
        config = BeamConfig(fusion=two_models(seed), blank_lm_score_mode="no_score")
        frames = toy_frames(1, 10)
        (whole,) = malsd(formula(seed), frames, torch.tensor([10]), config)
        session = BeamSession(formula(seed), config)
        session.begin()
        for start in range(0, 10, 3):
            session.feed(frames[0, start : start + 3])
        assert session.finalize() == whole


def test_a_batch_equals_its_utterances_alone():
    config = BeamConfig(fusion=two_models(3))
    frames = toy_frames(3, 7)
    lengths = torch.tensor([7, 4, 6])
    together = malsd(formula(3), frames, lengths, config)
    for row in range(3):
        assert malsd(formula(3), frames[row : row + 1], lengths[row : row + 1], config) == [
            together[row]
        ]


# --- what is refused


@pytest.mark.parametrize(
    ("phrases", "message"),
    [
        ([], "no phrases to boost"),
        ([(0,), ()], "phrase 1 is empty"),
        ([(0, 5)], "token 5 of phrase 0 is blank"),
        ([(0,), (1, 6)], r"token 6 of phrase 1 is outside 0\.\.4"),
        ([(0,), (1, -1)], r"token -1 of phrase 1 is outside 0\.\.4"),
        ([(0, 1), (2,), (0, 1)], r"phrase 2 is the same as phrase 0, tokens \[0, 1\]"),
    ],
)
def test_phrases_of_no_sense_are_refused(phrases, message):
    with pytest.raises(BeamError, match=message):
        BoostingTree.from_phrases(phrases, 5)


def test_text_in_place_of_tokens_is_refused():
    with unchecked(), pytest.raises(BeamError, match=r"phrase 0 is text, 'hello': give `tokenized"):
        BoostingTree.from_phrases(["hello"], 5)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"context_score": -1.0}, "context_score must be 0 or more and finite, got -1.0"),
        ({"context_score": float("nan")}, "context_score must be .* got nan"),
        ({"context_score": float("inf")}, "context_score must be .* got inf"),
        ({"depth_scaling": 0.5}, "depth_scaling must be at least 1 and finite, got 0.5"),
        ({"depth_scaling": float("nan")}, "depth_scaling must be .* got nan"),
        ({"unk_score": float("nan")}, "unk_score must be finite, got nan"),
        ({"scores": [1.0]}, "1 scores for 2 phrases"),
        ({"scores": [1.0, -2.0]}, "score -2.0 of phrase 1 must be above 0"),
        ({"scores": [float("nan"), 2.0]}, "score nan of phrase 0 must be above 0"),
    ],
)
def test_weights_of_no_sense_are_refused(weights, message):
    with pytest.raises(BeamError, match=message):
        BoostingTree.from_phrases([(0, 1), (2,)], 5, **weights)


def test_labels_must_be_some():
    with pytest.raises(BeamError, match="labels must be at least 1"):
        BoostingTree.from_phrases([(0,)], 0)


def letters(text):
    return [ord(letter) - ord("a") for letter in text.lower()]


def test_text_becomes_tokens():
    assert tokenized(["ab", "cab"], letters) == [(0, 1), (2, 0, 1)]


@pytest.mark.parametrize(
    ("phrases", "message"),
    [
        (["ab", " "], "phrase ' ' has no tokens"),
        (["ab", "AB"], "phrases 'ab' and 'AB' have the same tokens"),
    ],
)
def test_text_of_no_sense_is_refused(phrases, message):
    with pytest.raises(BeamError, match=message):
        tokenized(phrases, letters)


def test_a_tree_of_another_vocabulary_is_refused_before_any_work():
    class Untouched(ToyScorer):
        def start(self, rows):
            raise AssertionError("work has begun")

    tree = BoostingTree.from_phrases([(0,)], 5)
    scorer = Untouched(8, "logits", formula=formula().formula)
    config = BeamConfig(fusion=(two_models(1)[1], Fusion(tree, 1.0)))
    with pytest.raises(BeamError, match=r"fusion model 1 \(BoostingTree\) scores 5 labels, .* 7"):
        malsd(scorer, toy_frames(1, 3), torch.tensor([3]), config)
    with pytest.raises(BeamError, match="scores 5 labels"):
        BeamSession(scorer, config)
    with pytest.raises(BeamError, match=r"alpha of fusion model 0 \(BoostingTree\) is nan"):
        malsd(
            scorer,
            toy_frames(1, 3),
            torch.tensor([3]),
            replace(config, fusion=(Fusion(tree, float("nan")),)),
        )
