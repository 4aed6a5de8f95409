"""Work counted by hand and by another search, and approximations that save nothing or all."""

from dataclasses import replace
from math import log

import pytest
import torch
from quality_cases import quiet, random_model, tones

from vrt.quality.approximate import (
    approximate_search,
    blank_above,
    entropy_below,
    greedy_where,
    keep_all,
    make_all,
    margin_above,
    only_best,
    within,
)
from vrt.quality.approximate_half import HalfJoint, HalfPredictor
from vrt.quality.approximations import arms, compare, saved
from vrt.quality.clips import batches, encode, strings_of
from vrt.quality.counts import Work, mean_work
from vrt.quality.scoring import equal_share
from vrt.quality.searches import beam_search, greedy_search, run_over
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.hypotheses import DEAD
from vrt.rnnt.model import ModelScorer
from vrt.rnnt.toy import ToyScorer, toy_frames

LENGTHS = torch.tensor
SMALL = BeamConfig(beam_size=4, max_symbols=3)


@pytest.fixture(scope="module")
def model():
    return random_model()


@pytest.fixture(scope="module")
def clips(model):
    """Half a second of each, where the tones are."""
    made = encode(model, strings_of(tones(), "unheard_5_db", 3))
    lengths = (12, 9, 11)
    return [
        replace(clip, encoded=clip.encoded[10 : 10 + n], frames=clip.frames[10 : 10 + n])
        for clip, n in zip(made, lengths, strict=True)
    ]


@pytest.fixture(scope="module")
def scorer(model):
    return ModelScorer(model.transducer)


def lists(found):
    return [[(h.tokens, h.score, h.timestamps) for h in answer.nbest] for answer in found]


def works(found):
    return [answer.work for answer in found]


def test_the_random_model_gives_a_beam_something_to_do(scorer, clips):
    greedy = run_over(greedy_search(scorer), clips)
    beam = run_over(beam_search(scorer, SMALL), clips)
    assert equal_share(greedy, beam) < 1
    total = mean_work(works(beam))
    assert total["merged"] > 1 and total["labels"] > 20 and total["active_slots"] > 2


def test_work_of_a_beam_of_one_by_hand():
    """Two frames: a label and a blank at the first, a blank at the second."""
    sure = {True: [log(0.9), log(0.1)], False: [log(0.1), log(0.9)]}
    table = {(None, t, p): sure[t == 0 and p == ()] for t in (0, 1) for p in ((), (0,))}
    search = beam_search(ToyScorer(2, "logprob", table), BeamConfig(beam_size=1))
    (found,) = search(toy_frames(1, 2), LENGTHS([2]))
    assert found.tokens == (0,)
    assert found.work == Work(
        iterations=3,
        joint_rows=3,
        predictor_rows=1,
        blanks=2,
        labels=1,
        carried=0,
        merged=0,
        forced=0,
        candidates=3,
        tokens=1,
    )
    (greedy,) = greedy_search(ToyScorer(2, "logprob", table))(toy_frames(1, 2), LENGTHS([2]))
    assert replace(greedy.work, candidates=3) == replace(found.work, forced=0)


def test_work_of_a_beam_of_two_by_hand():
    """One frame. First the label (0.6) and the final empty one (0.4); then the label's slot is at
    its cap and takes blank (0.3), and the empty one is carried over."""
    table = {(None, 0, ()): [log(0.6), log(0.4)], (None, 0, (0,)): [log(0.5), log(0.5)]}
    config = BeamConfig(beam_size=2, max_symbols=1)
    search = beam_search(ToyScorer(2, "logprob", table), config)
    (found,) = search(toy_frames(1, 1), LENGTHS([1]))
    assert found.tokens == (0,)
    assert found.work == Work(
        iterations=2,
        joint_rows=2,
        predictor_rows=1,
        blanks=2,
        labels=1,
        carried=1,
        merged=0,
        forced=1,
        candidates=4,
        tokens=1,
    )


def test_greedy_leaves_a_full_frame_without_its_blank():
    """Two labels at every frame of two, capped: no blank is asked for."""
    scorer = ToyScorer(2, "logprob", default_row=[log(0.9), log(0.1)])
    (found,) = greedy_search(scorer, 2)(toy_frames(1, 2), LENGTHS([2]))
    assert len(found.tokens) == 4
    assert found.work.joint_rows == 4 and found.work.forced == 2 and found.work.blanks == 0


@pytest.mark.parametrize("size", [1, 4])
def test_counts_are_those_of_the_fast_search(scorer, clips, size):
    """Another implementation, with counters of its own."""
    from vrt.rnnt.fast.search import fast_search

    config = replace(SMALL, beam_size=size)
    found = run_over(beam_search(scorer, config), clips)
    for clip, answer in zip(clips, found, strict=True):
        fast = fast_search(scorer, clip.frames[None], LENGTHS([len(clip.frames)]), config)
        theirs, work = fast.work(), answer.work
        assert (work.blanks, work.labels) == (theirs.blanks, theirs.labels)
        assert (work.joint_rows, work.iterations) == (theirs.joint_rows, theirs.iterations)
        assert (work.forced, work.carried) == (theirs.forced_blanks, theirs.carried)
        assert work.merged == theirs.recombinations
        # It computes a predictor when it is first read, and none twice.
        assert theirs.predictor_rows <= work.predictor_rows <= work.labels


def test_work_does_not_depend_on_the_batch(scorer, clips):
    found = run_over(beam_search(scorer, SMALL), clips)
    search = beam_search(scorer, SMALL)
    for clip, answer in zip(clips, found, strict=True):
        (alone,) = search(clip.frames[None], LENGTHS([len(clip.frames)]))
        assert alone.work == answer.work and alone.tokens == answer.tokens


def test_batches_hold_every_clip_once():
    frames = [torch.full((n, 2), float(n)) for n in (5, 1, 3, 4, 2)]
    made = batches(frames, 2)
    assert [batch.places for batch in made] == [(1, 4), (2, 3), (0,)]
    assert made[1].values[0].tolist() == [[3.0, 3.0]] * 3 + [[0.0, 0.0]]
    assert made[1].lengths.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("thin", "narrow"),
    [
        (make_all, keep_all),
        (only_best(4), within(1e9)),
        (greedy_where(margin_above(1e9)), keep_all),
        (greedy_where(blank_above(1.0, 16)), keep_all),
        (greedy_where(entropy_below(-1.0)), keep_all),
    ],
)
def test_with_nothing_saved_it_is_the_exact_beam(scorer, clips, thin, narrow):
    exact = run_over(beam_search(scorer, SMALL), clips)
    same = run_over(approximate_search(scorer, SMALL, thin, narrow), clips)
    assert lists(same) == lists(exact) and works(same) == works(exact)
    assert set(saved(same, exact).values()) == {0.0}


@pytest.mark.parametrize(
    ("thin", "narrow"),
    [
        (only_best(1), keep_all),
        (greedy_where(margin_above(-1.0)), keep_all),
        (greedy_where(entropy_below(9.0)), keep_all),
        (make_all, within(0.0)),
    ],
)
def test_with_all_saved_it_is_a_beam_of_one(scorer, clips, thin, narrow):
    one = run_over(beam_search(scorer, replace(SMALL, beam_size=1)), clips)
    found = run_over(approximate_search(scorer, SMALL, thin, narrow), clips)
    assert [[h.tokens for h in a.nbest] for a in found] == [[a.tokens] for a in one]
    assert [a.work.joint_rows for a in found] == [a.work.joint_rows for a in one]


def test_what_is_saved_lies_between(scorer, clips):
    exact = run_over(beam_search(scorer, SMALL), clips)
    some = [
        approximate_search(scorer, SMALL, narrow=within(0.3)),
        approximate_search(scorer, SMALL, greedy_where(margin_above(0.2))),
    ]
    for search in some:
        rows = saved(run_over(search, clips), exact)
        assert 0 < rows["joint_rows"] < 1


def test_a_capped_slot_takes_blank_however_sure_it_is():
    """Always sure of the label: at the cap only blank is left, and the search ends."""
    scorer = ToyScorer(2, "logprob", default_row=[log(0.9), log(0.1)])
    config = BeamConfig(beam_size=2, max_symbols=2)
    search = approximate_search(scorer, config, greedy_where(margin_above(0.5)))
    (found,) = search(toy_frames(1, 2), LENGTHS([2]))
    assert found.tokens == (0,) * 4 and found.work.forced == 2


def test_confidence_is_read_off_the_rows():
    rows = torch.tensor([[[0.98, 0.01, 0.01], [0.4, 0.3, 0.3], [0.01, 0.01, 0.98]]]).log()
    assert margin_above(2.0)(rows).tolist() == [[True, False, True]]
    assert blank_above(0.9, 2)(rows).tolist() == [[False, False, True]]
    assert entropy_below(0.3)(rows).tolist() == [[True, False, True]]
    values = rows.sort(-1, descending=True).values
    thinned = greedy_where(margin_above(2.0))(rows, values)
    assert (thinned > DEAD).sum(-1).tolist() == [[1, 3, 1]]
    assert torch.equal(only_best(2)(rows, values)[..., :2], values[..., :2])


def test_slots_within_a_width():
    scores = torch.tensor([[-1.0, -2.9, -3.1, DEAD], [-7.0, DEAD, -7.0, DEAD]])
    assert (within(2.0)(scores) > DEAD).tolist() == [
        [True, True, False, False],
        [True, False, True, False],
    ]


@pytest.mark.parametrize("kind", ["predictor", "joint", "both"])
def test_float16_moves_scores_a_little(model, scorer, clips, kind):
    half = HalfPredictor(model.transducer)
    chosen = {
        "predictor": half,
        "joint": HalfJoint(scorer, model.transducer),
        "both": HalfJoint(half, model.transducer),
    }[kind]
    rows = torch.arange(3)
    states = [one.advance(one.start(3), rows, torch.tensor([1, 16, 5])) for one in (scorer, chosen)]
    frames = clips[0].frames[:3]
    full, less = (
        one.log_probs(frames, state) for one, state in zip((scorer, chosen), states, strict=True)
    )
    assert less.dtype == torch.float32
    # Measured: 3e-3 and less; float16 has 11 bits, logits reach 8.
    assert 1e-5 < (full - less).abs().max() < 2e-2
    assert model.transducer.decoder.embed.dtype == torch.float32  # the model itself is left alone


def test_all_arms_have_their_say(model, clips):
    lines = []
    short = [replace(c, encoded=c.encoded[:2], frames=c.frames[:2]) for c in clips]
    found = compare(model, short, lines.append)
    names = [name for name, _ in arms(model)]
    assert list(found["arms"]) == names and len(lines) == len(names) == 24
    for arm in found["arms"].values():
        assert arm["verdict"].partition(":")[0] in ("kept", "rejected", "open")
        assert 0 <= arm["exact_hypotheses"] <= 1
    quiet(found)
