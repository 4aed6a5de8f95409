"""The fast beam against the clear one, to the bit: toys, every option, the exhaustive truth."""

import math
from dataclasses import replace

import pytest
import torch
from rnnt_cases import random_case, unchecked
from test_rnnt_truth import over_all_alignments, prefixes, random_rows, widened

from vrt.golden.malsd_answer import results
from vrt.golden.malsd_compare import against
from vrt.golden.malsd_format import problem_of, read
from vrt.paths import data_dir
from vrt.rnnt import BeamConfig, BeamError, malsd
from vrt.rnnt.fast import beam as beam_module
from vrt.rnnt.fast import fast_malsd
from vrt.rnnt.fast import memory as memory_module
from vrt.rnnt.fast.results import nbest_of
from vrt.rnnt.fast.search import fast_search
from vrt.rnnt.toy import ToyScorer, toy_frames

FILES = sorted((data_dir() / "golden").glob("malsd-*.json"))
NO_ROOM = 4  # nodes of a tree at first: it is trimmed every few iterations


@pytest.fixture
def narrow(monkeypatch):
    """No room but for what slots hold."""
    monkeypatch.setattr(beam_module, "ROOM", NO_ROOM)
    monkeypatch.setattr(memory_module, "SPARE", 0)


def outcome(search, *arguments, **options):
    """n-best lists, or the text of the refusal."""
    try:
        return search(*arguments, **options)
    except BeamError as error:
        return str(error)


def of_file(path):
    problem = problem_of(read(path).problem, path.name)
    frames = toy_frames(len(problem.lengths), problem.max_time)
    return problem.scorer, frames, torch.tensor(problem.lengths, dtype=torch.int64), problem.config


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("score_norm", [True, False])
def test_every_golden_problem(path, score_norm):
    scorer, frames, lengths, config = of_file(path)
    config = replace(config, ties="lowest", score_norm=score_norm)
    want = outcome(malsd, scorer, frames, lengths, config)
    assert outcome(fast_malsd, scorer, frames, lengths, config) == want
    # In NeMo's order of ties the clear search answers.
    torchs = replace(config, ties="torch")
    want = outcome(malsd, scorer, frames, lengths, torchs)
    assert outcome(fast_malsd, scorer, frames, lengths, torchs) == want


def test_golden_answers_of_nemo_where_no_tie_decides():
    compared = 0
    for path in FILES:
        golden = read(path)
        if golden.expected.get("error") or problem_is_tied(path):
            continue
        scorer, frames, lengths, config = of_file(path)
        lists = [
            fast_malsd(scorer, frames, lengths, replace(config, ties="lowest", score_norm=norm))
            for norm in (True, False)
        ]
        expected = {key: golden.expected[key] for key in ("nbest_norm", "nbest_raw")}
        assert against(path.name, expected, results(*lists)).ok, path.name
        compared += 1
    assert compared >= 40


def problem_is_tied(path):
    import json

    return json.loads(path.read_text(encoding="utf-8"))["tie_sensitive"]


def every_option(seed):
    """A random problem, its named choices taken in turn."""
    case = random_case(seed)
    config = replace(
        case.config,
        ties="lowest",
        preserve_alignments=seed % 2 == 0,
        collisions="nemo" if seed % 3 else "verify",
        zero_length="nemo" if seed % 5 else "empty",
    )
    return replace(case, config=config)


def compare(seeds):
    with unchecked():
        for seed in seeds:
            arguments = every_option(seed).arguments
            got = outcome(fast_malsd, *arguments, remember=seed % 7 != 0)
            assert got == outcome(malsd, *arguments), seed


def test_120_random_problems():
    compare(range(120))


def test_120_random_problems_without_room(narrow):
    compare(range(120, 240))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_5000_random_problems(part, monkeypatch):
    if part % 2:
        monkeypatch.setattr(beam_module, "ROOM", NO_ROOM)
        monkeypatch.setattr(memory_module, "SPARE", 0)
    compare(range(10_000 + 500 * part, 10_500 + 500 * part))


@pytest.mark.parametrize("beam", [1, 2, 32, 64])
def test_small_and_large_beams(beam):
    for seed in range(4):
        case = random_case(1000 + seed)
        scorer = replace(case.scorer, vocab=64) if case.scorer.formula else case.scorer
        if scorer.vocab < beam:
            continue
        config = BeamConfig(beam_size=beam, max_symbols=3)
        _, frames, lengths, _ = case.arguments
        assert fast_malsd(scorer, frames, lengths, config) == malsd(scorer, frames, lengths, config)


def test_what_is_remembered_changes_nothing_but_the_work():
    """The memo's own test: every prefix's predictor computed once, or again whenever it is met."""
    spared = 0
    with unchecked():
        for seed in range(60):
            arguments = every_option(seed).arguments
            with_memory, without = (fast_search(*arguments, remember=r) for r in (True, False))
            assert nbest_of(with_memory) == nbest_of(without), seed
            assert with_memory.iterations == without.iterations
            spared += without.memory.computed - with_memory.memory.computed
    assert spared > 20  # 46 of some thousand: what slots hold is shared either way


def test_equal_transcripts_of_two_utterances_share_their_predictor():
    scorer = ToyScorer(4, "logprob", default_row=[-0.5, -2.0, -3.0, -1.0])
    one = fast_search(scorer, toy_frames(1, 6), torch.tensor([6]), BeamConfig(max_symbols=2))
    two = fast_search(scorer, toy_frames(2, 6), torch.tensor([6, 6]), BeamConfig(max_symbols=2))
    assert two.memory.computed == one.memory.computed > 5


def test_batch_equals_solo_to_the_bit():
    rows = 0
    with unchecked():
        for seed in range(80):
            scorer, frames, lengths, config = every_option(seed).arguments
            config = replace(config, zero_length="empty")
            together = fast_malsd(scorer, frames, lengths, config)
            for row in range(len(lengths)):
                length = max(1, int(lengths[row]))
                alone = scorer, frames[row : row + 1, :length], lengths[row : row + 1], config
                assert fast_malsd(*alone) == [together[row]], (seed, row)
                rows += 1
    assert rows > 160


@pytest.mark.parametrize(
    ("labels", "longest", "frames"), [(1, 10, 5), (2, 4, 7), (3, 2, 6), (5, 2, 4), (3, 1, 20)]
)
def test_exhaustive_truth(labels, longest, frames):
    """With room for every transcript, each has the probability of all its alignments."""
    rows = random_rows(labels, longest, frames, seed=5)
    scorer = ToyScorer(64, "logprob", widened(rows, labels))
    config = BeamConfig(beam_size=64, max_symbols=None, score_norm=False)
    times = toy_frames(1, frames, torch.float64)
    (found,) = fast_malsd(scorer, times, torch.tensor([frames]), config)
    assert sorted(h.tokens for h in found) == sorted(prefixes(labels, longest))
    for h in found:
        assert h.score == pytest.approx(over_all_alignments(rows, h.tokens, frames), abs=1e-9)


def test_a_label_of_probability_1_over_2000_frames(narrow):
    scorer = ToyScorer(5, "logprob", default_row=[0.0, -9.0, -9.0, -9.0, -20.0])
    config = BeamConfig(beam_size=4, max_symbols=1)
    frames, lengths = toy_frames(1, 2000), torch.tensor([2000])
    with unchecked():
        beam = fast_search(scorer, frames, lengths, config)
        (found,) = nbest_of(beam)
        assert [found] == malsd(scorer, frames, lengths, config)
    assert found[0].tokens == (0,) * 2000 and found[0].timestamps == tuple(range(2000))
    assert beam.iterations == 4000


def test_nan_is_refused_in_the_same_words():
    for b, t, prefix in [(0, 2, ()), (0, 3, (1,)), (1, 0, ())]:
        table = {(b, t, prefix): [-1.0, math.nan, -2.0, -1.0]}
        scorer = ToyScorer(4, "logprob", table, default_row=[-2.0, -1.5, -3.0, -0.5])
        arguments = scorer, toy_frames(2, 5), torch.tensor([5, 4]), BeamConfig(beam_size=3)
        want = outcome(malsd, *arguments)
        assert "nan of label 1" in want and outcome(fast_malsd, *arguments) == want


def test_nan_that_no_living_slot_reads_is_no_matter():
    rows = {(0, t, ()): [math.nan] * 3 for t in (1, 2)}
    scorer = ToyScorer(3, "logprob", rows, default_row=[-5.0, -5.0, -0.1])
    arguments = scorer, toy_frames(2, 3), torch.tensor([1, 3]), BeamConfig(beam_size=2)
    assert fast_malsd(*arguments) == malsd(*arguments)


@pytest.mark.parametrize(
    ("frames", "lengths", "config"),
    [
        (toy_frames(1, 3), [4], BeamConfig()),
        (toy_frames(1, 0), [0], BeamConfig()),
        (toy_frames(1, 3), [3], BeamConfig(beam_size=9)),
        (toy_frames(1, 3), [3], BeamConfig(max_symbols=None, iteration_guard=5)),
    ],
)
def test_refusals_are_those_of_the_clear_search(frames, lengths, config):
    scorer = ToyScorer(5, "logprob", default_row=[-0.1, -3.0, -3.0, -3.0, -4.0])
    arguments = scorer, frames, torch.tensor(lengths), config
    want = outcome(malsd, *arguments)
    assert isinstance(want, str) and outcome(fast_malsd, *arguments) == want


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes(dtype):
    scorer, frames, lengths, config = every_option(3).arguments
    arguments = scorer, frames.to(dtype), lengths, config
    assert fast_malsd(*arguments) == malsd(*arguments)
