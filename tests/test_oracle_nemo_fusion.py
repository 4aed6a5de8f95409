"""NeMo's own boosting tree and n-gram, where NeMo is installed: rows to the bit, and its fused
search with them against vrt's with vrt's.

`compare` counts the cases that are rejected for a close decision; the share compared is asserted.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from rnnt_cases import DECISION, differences, random_case, unchecked
from rnnt_fusion_cases import random_arpa, random_phrases, random_weights

from vrt.rnnt.boosting import BoostingTree
from vrt.rnnt.config import Fusion
from vrt.rnnt.ngram import Ngram

pytest.importorskip("nemo", reason="NeMo is not installed (pip install 'vrt[nemo]')")
nemo = pytest.importorskip("vrt.oracle.nemo", reason="this NeMo has no malsd_batch")
fusion = pytest.importorskip("vrt.oracle.nemo_fusion")

MODES = [(p, b) for p in ("late", "early") for b in ("no_score", "lm_weighted_full")]


@pytest.fixture(scope="module", autouse=True)
def quiet_nemo():
    """It warns of a missing Triton at every model."""
    from nemo.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    yield
    logging.set_verbosity(level)


def walk(ours, theirs, random, rows=6, steps=12):
    """Every score and state along random walks, to the bit; returns the states seen."""
    left, right, seen = ours.start(rows), theirs.start(rows), set()
    for _ in range(steps):
        seen |= set(left.tolist())
        (scores, after), (want, want_after) = ours.advance(left), theirs.advance(right)
        assert torch.equal(scores, want) and torch.equal(after, want_after)
        column = torch.from_numpy(random.integers(0, ours.labels, (rows, 1)))
        left, right = (states.gather(1, column)[:, 0] for states in (after, want_after))
    return seen


def two_trees(random, labels):
    phrases, weights = random_phrases(random, labels), random_weights(random)
    return (
        BoostingTree.from_phrases(phrases, labels, **weights),
        fusion.nemo_boosting_tree(phrases, labels, **weights),
    )


def two_ngrams(random, labels, path, normalize=True):
    order = int(random.integers(2, 5))
    rule = random_arpa(random, labels, order, unknown=int(random.integers(0, labels)))
    path.write_text(rule.text(lambda token: chr(token + 100)), encoding="utf-8")
    return (
        Ngram.from_nemo_arpa(path, labels, normalize_unk=normalize),
        fusion.nemo_ngram(path, labels, normalize_unk=normalize),
    )


def test_100_random_trees_along_random_walks():
    deepest = 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        ours, theirs = two_trees(random, int(random.integers(2, 9)))
        deepest = max(deepest, *walk(ours, theirs, random))
    assert deepest > 10


def test_every_state_of_a_tree():
    random = np.random.default_rng(1)
    ours, theirs = two_trees(random, 3)
    states = torch.arange(len(ours.graph.backoff_to))
    for got, want in zip(ours.advance(states), theirs.advance(states), strict=True):
        assert torch.equal(got, want)


def test_phrases_with_scores_of_their_own():
    # NeMo is given them by falling score, the order in which vrt adds them.
    for seed in range(40):
        random = np.random.default_rng(seed)
        labels = int(random.integers(2, 6))
        phrases = random_phrases(random, labels)
        scores = random.uniform(0.1, 3, len(phrases)).round(1).tolist()
        order = sorted(range(len(phrases)), key=lambda place: -scores[place])
        ours = BoostingTree.from_phrases(phrases, labels, scores=scores)
        theirs = fusion.nemo_boosting_tree(
            [phrases[n] for n in order], labels, scores=[scores[n] for n in order]
        )
        walk(ours, theirs, random)


def broken_off(model):
    """What is left of the score after "0 1" was begun, and 3 was said instead of the end."""
    state, total = model.start(1), 0.0
    for label in (0, 1, 3):
        scores, after = model.advance(state)
        total, state = total + float(scores[0, label]), after[:, label]
    return total


def test_nemo_keeps_a_stale_total_where_a_later_phrase_raises_a_shared_token():
    phrases, scores = [(0, 1, 2), (0, 3)], [1.0, 2.0]
    stale = fusion.nemo_boosting_tree(phrases, 4, scores=scores)
    assert broken_off(stale) == pytest.approx(1.0)
    ours = BoostingTree.from_phrases(phrases, 4, scores=scores)
    assert broken_off(ours) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("normalize", [True, False])
def test_50_random_ngrams_along_random_walks(tmp_path, normalize):
    deepest = 0
    for seed in range(50):
        random = np.random.default_rng(seed)
        labels = int(random.integers(2, 9))
        ours, theirs = two_ngrams(random, labels, tmp_path / "lm.arpa", normalize)
        deepest = max(deepest, *walk(ours, theirs, random))
    assert deepest > 20


def test_an_ngram_without_unk_leaves_tokens_impossible_in_nemo(tmp_path):
    rule = random_arpa(np.random.default_rng(3), 6, 3, unknown=2)
    del rule.probs[("<unk>",)]
    path = tmp_path / "lm.arpa"
    path.write_text(rule.text(lambda token: chr(token + 100)), encoding="utf-8")
    ours = Ngram.from_nemo_arpa(path, 6, unk_log_prob=-torch.inf)
    walk(ours, fusion.nemo_ngram(path, 6), np.random.default_rng(4))
    assert (ours.advance(ours.start(1))[0][0, 4:] == -torch.inf).all()


def models(random, labels, path, kinds):
    """Pairs of ours and NeMo's with their alphas."""
    made = {"tree": lambda: two_trees(random, labels), "ngram": None}
    made["ngram"] = lambda: two_ngrams(random, labels, path)
    return [(*made[kind](), float(random.uniform(0.05, 1.0))) for kind in kinds]


def compare(seeds, mode, path):
    """Counts by outcome over random problems; any difference fails at once."""
    counts = {"compared": 0, "close decision": 0, "NeMo does not end": 0}
    kinds = [("tree",), ("ngram",), ("ngram", "tree")]
    with unchecked():
        for seed in seeds:
            random = np.random.default_rng(seed + 77)
            case = random_case(seed)
            parts = models(random, case.scorer.vocab - 1, path, kinds[seed % 3])
            counts[outcome(case, parts, mode)] += 1
    return counts


def outcome(case, parts, mode):
    modes = {"pruning_mode": mode[0], "blank_lm_score_mode": mode[1]}
    ours, theirs = (
        replace(case.config, fusion=tuple(Fusion(pair[n], pair[2]) for pair in parts), **modes)
        for n in (0, 1)
    )
    scorer, frames, lengths, _ = case.arguments
    want = nemo.reference(scorer, frames, lengths, theirs, limit=case.limit)
    if want.error and want.error.startswith("OverrunError"):
        return "NeMo does not end"
    assert want.error is None, (case, want.error)
    got, margin = replace(case, config=ours).search()
    if margin < DECISION:
        return "close decision"
    found = differences(got, want.nbest_norm if case.config.score_norm else want.nbest_raw)
    assert found is None, (case, mode, found)
    return "compared"


@pytest.mark.parametrize("mode", MODES, ids="-".join)
def test_40_fused_searches(mode, tmp_path, record_property):
    counts = compare(range(40), mode, tmp_path / "lm.arpa")
    record_property("counts", counts)
    assert sum(counts.values()) == 40 and counts["compared"] >= 20, counts


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES, ids="-".join)
def test_200_fused_searches(mode, tmp_path, record_property):
    counts = compare(range(20_000, 20_200), mode, tmp_path / "lm.arpa")
    record_property("counts", counts)
    assert sum(counts.values()) == 200 and counts["compared"] >= 100, counts
