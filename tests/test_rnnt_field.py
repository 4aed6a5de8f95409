"""What broke in the field, rebuilt small: each test names the public report it stands for.

T encoder frames, V classes with blank last.
"""

import math

import pytest
import torch
from rnnt_cases import unchecked
from rnnt_scripts import Script

from vrt.rnnt import BeamConfig, BeamSession, greedy, malsd
from vrt.rnnt.malsd import search
from vrt.rnnt.nbest import nbest
from vrt.rnnt.toy import ToyScorer, toy_frames
from vrt.rnnt.toy_formula import Formula

INF = math.inf
BEAMS = (1, 2, 4, 8)


def formula(seed=3, **changes):
    parts = {"ctx": -1, "bits": 20, "shift": 17, "blank_add": 2.0, "peak_add": 2.0} | changes
    return ToyScorer(12, "logits", formula=Formula(seed=seed, **parts))


def decode(scorer, time, beam=4, **config):
    config = BeamConfig(beam_size=beam, **config)
    (found,) = malsd(scorer, toy_frames(1, time), torch.tensor([time]), config)
    return found


def fed(scorer, time, size, **config):
    """Labels committed by each feed, and the final list."""
    session, frames = BeamSession(scorer, BeamConfig(**config)), toy_frames(1, time)[0]
    session.begin()
    pieces = [session.feed(frames[t : t + size]).committed for t in range(0, time, size)]
    return pieces, session.finalize()


@pytest.mark.parametrize("beam", BEAMS)
def test_a_beam_is_not_empty_where_greedy_is_right(beam):
    # k2-fsa/sherpa-onnx issue 3267: the beam gave nothing, or one stock word, on a fifth of clips.
    scorer = Script(12, {t: t % 11 for t in range(3, 60, 4)}, sure=0.95)
    (best,) = greedy(scorer, toy_frames(1, 60), torch.tensor([60]))
    found = decode(scorer, 60, beam)
    assert len(best.tokens) == 15
    assert found[0].tokens == best.tokens and found[0].timestamps == best.timestamps


@pytest.mark.parametrize("score_norm", [True, False])
def test_labels_after_a_long_quiet_stretch_are_not_lost(score_norm):
    # k2-fsa/sherpa-onnx issue 3572: blank paths won in quiet parts.
    scorer = Script(12, {500: 3, 501: 4, 502: 5}, sure=0.999)
    with unchecked():
        found = decode(scorer, 510, score_norm=score_norm)
    assert found[0].tokens == (3, 4, 5) and found[0].timestamps == (500, 501, 502)


def test_score_norm_prefers_long_hypotheses_where_blanks_are_unsure():
    # Not a fault but the rule, NeMo's default: 500 blanks of 0.9 each cost 53, and a division by
    # more labels makes up for what these cost.
    scorer = Script(12, {500: 3, 501: 4, 502: 5}, sure=0.9)
    with unchecked():
        by_norm, by_score = (decode(scorer, 510, score_norm=norm) for norm in (True, False))
    assert len(by_norm[0].tokens) > 3 and by_norm[0].score < by_score[0].score
    assert by_score[0].tokens == (3, 4, 5)


@pytest.mark.parametrize("score_norm", [True, False])
def test_a_length_of_0_divides_by_1(score_norm):
    # k2-fsa/sherpa-onnx pull 3895: a blank-only hypothesis was divided by its length 0.
    found = decode(ToyScorer(4, "logprob", default_row=[-9.0] * 3 + [-0.01]), 30, 2)
    empty = next(h for h in found if h.tokens == ())
    assert empty.norm_score == empty.score and math.isfinite(empty.score)


@pytest.mark.parametrize("beam", BEAMS)
def test_a_row_without_frames_stays_silent_in_a_batch(beam):
    # NVIDIA-NeMo/Speech issue 16161.
    scorer = formula(blank_add=0.0)
    found = malsd(scorer, toy_frames(2, 9), torch.tensor([9, 0]), BeamConfig(beam_size=beam))
    assert [h.tokens for h in found[1]] == [()] and len(found[0][0].tokens) > 0
    assert found[1][0].score == 0.0


def test_a_stream_that_has_ended_does_not_grow():
    # The same report: streams that ended went on to say things.
    session = BeamSession(formula(blank_add=0.0))
    session.begin()
    session.feed(toy_frames(1, 9)[0])
    first = session.finalize()
    session.begin()
    assert [h.tokens for h in session.finalize()] == [()] and first[0].tokens


def test_n_best_with_timestamps_and_alignments_in_one_call():
    # NVIDIA-NeMo/Speech pull 15411: asking for timestamps raised NotImplementedError.
    found = decode(formula(), 20, preserve_alignments=True)
    assert len(found) > 1
    for h in found:
        assert len(h.timestamps) == len(h.tokens) == len(h.confidence)
        assert h.timestamps == tuple(sorted(h.timestamps)) and h.timestamps[-1] < 20
        assert h.alignment[-1].frame == 19


@pytest.mark.parametrize("tdiv", [1, 3])
def test_texts_of_an_n_best_list_are_unique(tdiv):
    # espnet issue 4242.
    for seed in range(8):
        found = decode(formula(seed, tdiv=tdiv, blank_add=3.0), 15, beam=8)
        texts = [h.tokens for h in found]
        assert len(set(texts)) == len(texts) > 1


def test_the_first_of_the_n_best_is_the_1_best():
    # icefall issue 1668: the list's first entry was far worse than the single best.
    for seed in range(8):
        scorer = formula(seed, tdiv=2)
        found = decode(scorer, 15)
        assert found[0].norm_score == max(h.norm_score for h in found)
        by_score = decode(scorer, 15, score_norm=False)
        assert by_score[0].score == max(h.score for h in by_score)


def test_chunked_and_whole_give_the_same_list():
    # pytorch/audio pulls 3295 and 2193: streams kept the best hypothesis alone, and repeated.
    for seed in range(4):
        scorer = formula(seed, tdiv=2)
        assert fed(scorer, 24, 5, beam_size=4)[1] == decode(scorer, 24)


@pytest.mark.parametrize("quiet", [4, 40])
def test_a_chunk_of_blanks_between_labels_keeps_the_last_label(quiet):
    # NVIDIA-NeMo/Speech pull 3673: a chunk without a label reset the last one to blank.
    scorer = formula(7, ctx=1)
    rows = {(0, t, p): [-9.0] * 11 + [-0.001] for t in range(4, 4 + quiet) for p in [()]}

    class Quiet(ToyScorer):
        def rows(self, frames, state):
            found = super().rows(frames, state)
            still = (frames[:, 1] >= 4) & (frames[:, 1] < 4 + quiet)
            found[still] = torch.tensor(rows[0, 4, ()], dtype=found.dtype)
            return found

    silent = Quiet(12, "logits", formula=scorer.formula)
    time = 12 + quiet
    found = fed(silent, time, 4)[1]
    assert found == decode(silent, time)
    before = [h for h in found if h.timestamps and h.timestamps[0] < 4 <= h.timestamps[-1]]
    assert before and all(t < 4 or t >= 4 + quiet for h in found for t in h.timestamps)


def test_no_length_makes_a_whole_window_blank():
    # FluidInference/FluidAudio issue 909: windows of 11 to 13 s came out blank.
    scorer = Script(12, {t: t % 11 for t in range(2, 200, 5)})
    with unchecked():
        for time in range(3, 200, 7):
            due = tuple(t % 11 for t in range(2, time, 5))
            assert decode(scorer, time)[0].tokens == due, time


@pytest.mark.parametrize("size", [1, 3, 8, 16, 100])
def test_a_repeated_phrase_is_kept_over_a_seam(size):
    # FluidInference/FluidAudio issues 758, 855, 787: words lost at seams, or taken for doubles.
    phrase = (1, 2, 2, 3)
    script = {3 * n + 2: phrase[n % 4] for n in range(16)}
    pieces, found = fed(Script(12, script), 50, size)
    assert found[0].tokens == phrase * 4
    committed = tuple(v for piece in pieces for v in piece)
    assert committed == found[0].tokens[: len(committed)]


def test_a_stream_goes_on_after_its_first_chunks():
    # cjpais/Handy issue 2125: silent after the first chunk, without an error.
    script = {t: t % 11 for t in range(1, 120, 3)}
    pieces, found = fed(Script(12, script), 120, 12)
    assert found[0].tokens == tuple(label for _, label in sorted(script.items()))
    assert all(len(piece) >= 3 for piece in pieces[1:])


@pytest.mark.parametrize("time", [1, 7, 8, 9, 15])
def test_the_tail_of_a_stream_is_read(time):
    # handy-computer/transcribe.cpp pull 145: a last piece shorter than the chunk was lost.
    scorer = Script(12, {t: t % 11 for t in range(time)})
    _, found = fed(scorer, time, 8)
    assert found[0].tokens == tuple(t % 11 for t in range(time))
    assert found[0].timestamps == tuple(range(time))


def test_hypotheses_of_one_call_are_not_in_the_next():
    # NVIDIA-NeMo/Speech pull 13540: lists grew from batch to batch.
    scorer = formula()
    first = malsd(scorer, toy_frames(2, 9), torch.tensor([9, 5]))
    second = malsd(scorer, toy_frames(2, 9), torch.tensor([9, 5]))
    assert first == second and len(first) == 2 and all(len(found) <= 4 for found in first)


def test_timestamps_of_a_beam_are_those_of_greedy():
    # NVIDIA-NeMo/Speech pull 14912: a beam's times were 160 ms behind greedy's.
    scorer = Script(12, {t: t % 11 for t in range(5, 90, 6)}, sure=0.97)
    (best,) = greedy(scorer, toy_frames(1, 90), torch.tensor([90]))
    assert decode(scorer, 90, 8)[0].timestamps == best.timestamps


# --- a label of probability 1, for very long


def reference_hash(tokens):
    value = 0
    for token in tokens:
        value = (value * 6364136223846793005 + 1 + token) % 2**64
    return value


class Forgetful(ToyScorer):
    """Rows that do not depend on labels need no lists of 4000."""

    def advance(self, state, parents, labels):
        return state


@pytest.mark.parametrize("beam", [1, 4])
def test_a_certain_label_at_2000_frames_breaks_no_invariant(beam):
    time, cap, iterations = 2000, 2, []
    scorer = Forgetful(4, "logprob", default_row=[0.0, -INF, -INF, -30.0])

    def watch(step):
        iterations.append(step.length_with_blank)
        alive = step.alive[0]
        running = alive & step.active[0]
        assert alive.any() and not step.score[0].isnan().any()
        assert (step.symbols_at_time[0][alive] <= cap).all()
        assert (step.time_index[0][alive] <= time).all()
        walked = step.length_nonblank[0] + step.time_index[0]
        assert (walked[running] == step.length_with_blank).all()

    with unchecked():
        config = BeamConfig(beam_size=beam, max_symbols=cap)
        hyps = search(scorer, toy_frames(1, time), torch.tensor([time]), config, watch).hyps
        (found,) = nbest(hyps)
    assert iterations == list(range(1, len(iterations) + 1))
    assert time <= len(iterations) <= time * (cap + 1)
    assert len({h.tokens for h in found}) == len(found) >= 1
    for h in found:
        assert set(h.tokens) == {0} and h.timestamps == tuple(sorted(h.timestamps))
        assert max(h.timestamps.count(t) for t in (0, 1000, 1999)) <= cap
        assert h.score >= -30.0 * time - 0.1  # its best alignment alone
    for slot in hyps.alive[0].nonzero().flatten().tolist():
        length = int(hyps.lengths[0, slot])
        assert int(hyps.hashes[0, slot]) % 2**64 == reference_hash((0,) * length)
    if beam == 1:
        assert found[0].tokens == (0,) * (time * cap) and len(iterations) == time * (cap + 1)
        assert found[0].timestamps == tuple(t for t in range(time) for _ in range(cap))


def test_a_certain_label_with_no_way_to_blank_ends_the_beam():
    assert decode(ToyScorer(4, "logprob", default_row=[0.0, -INF, -INF, -INF]), 2000) == []
