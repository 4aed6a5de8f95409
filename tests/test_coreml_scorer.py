"""A search over Core ML graphs is torch's: graphs run by torch, packages by the interpreter."""

import numpy as np
import pytest
import torch
from coreml_cases import exports, needs_coremltools, searched, transducer

from vrt.audio import read
from vrt.coreml.arms import Arm
from vrt.coreml.contract import Contract, FunctionContract
from vrt.coreml.errors import CoreMLError
from vrt.coreml.graphs_rnnt import rnnt_graph
from vrt.coreml.scorer import Beam, CoreMLScorer, FusedScorer
from vrt.paths import data_dir
from vrt.rnnt import BeamConfig, BeamSession, Fusion, ModelScorer, greedy, malsd
from vrt.rnnt.acoustic_files import load_acoustic
from vrt.rnnt.toy import ToyNgram

# Scores add up over some 200 labels; -600 and less in float32 has steps of 6e-5.
SCORE_DRIFT = 5e-4  # measured: 1.3e-4, order of float32 sums


@pytest.fixture(scope="module")
def model():
    return transducer()


@pytest.fixture(scope="module")
def expected(model):
    """Torch's, of 8 rows."""
    return searched(ModelScorer(model), model, 8)


def beam_of(model, rows):
    config = model.config
    sizes = (config.vocab, config.blank, config.predictor_layers, config.predictor_width)
    return Beam(rows, *sizes)


class Counted:
    """A graph by torch, as a runner that counts."""

    def __init__(self, kind, model, rows, **arm):
        self.graph, self.calls = rnnt_graph(kind, model, rows, **arm), 0

    def __call__(self, feeds):
        self.calls += 1
        ports = {p.name: p for p in self.graph.inputs}
        assert {n: (a.shape, a.dtype.name) for n, a in feeds.items()} == {
            n: (p.shape, p.dtype) for n, p in ports.items()
        }
        return self.graph.run(feeds)


def two_calls(model, rows, **arm):
    parts = [Counted(kind, model, rows, **arm) for kind in ("predictor", "joint")]
    return CoreMLScorer(beam_of(model, rows), *parts)


def one_call(model, rows, **arm):
    return FusedScorer(
        beam_of(model, rows), Counted("fused", model, rows, **arm), model.config.joint_width
    )


def same(got, expected):
    assert got[0] == expected[0]
    np.testing.assert_allclose(got[1], expected[1], atol=SCORE_DRIFT)
    # Every parent and every label of every living slot, in every iteration.
    assert len(got[2]) == len(expected[2])
    for ours, theirs in zip(got[2], expected[2], strict=True):
        alive = torch.isfinite(theirs.score_pruned)
        assert torch.equal(torch.isfinite(ours.score_pruned), alive)
        assert torch.equal(ours.parent[alive], theirs.parent[alive])
        assert torch.equal(ours.label[alive], theirs.label[alive])


@pytest.mark.parametrize("tail", ["topk", "logits"])
@pytest.mark.parametrize("lstm", ["op", "unrolled"])
@pytest.mark.parametrize("scorer", [two_calls, one_call])
def test_search_over_graphs_is_torchs(model, expected, scorer, lstm, tail):
    same(searched(scorer(model, 8, lstm=lstm, tail=tail), model, 8), expected)
    assert len(expected[2]) >= 100 and len({h[0] for h in expected[0]}) > 1


@pytest.mark.parametrize("rows", [1, 4, 8, 33])
@pytest.mark.parametrize("scorer", [two_calls, one_call])
def test_every_beam_and_the_cap(model, scorer, rows):
    expected = searched(ModelScorer(model), model, rows, frames=8, max_symbols=2)
    assert any(step.forced_blank_parent.any() for step in expected[2])
    same(searched(scorer(model, rows), model, rows, frames=8, max_symbols=2), expected)


def test_one_call_an_iteration_or_two_at_most(model):
    fused, parts = one_call(model, 8), two_calls(model, 8)
    iterations = len(searched(fused, model, 8, frames=6)[2])
    assert fused.fused.calls == iterations
    searched(parts, model, 8, frames=6)
    assert parts.joint.calls == iterations
    # One to begin with, none after an iteration of blanks alone.
    assert 1 < parts.predictor.calls <= 1 + iterations


def test_predictor_rests_while_all_rows_take_blank(model):
    parts = two_calls(model, 4)
    state = parts.start(4)
    parents = torch.tensor([2, 0, 0, 3])
    kept = parts.advance(state, parents, torch.tensor([model.config.blank, -1, -1, -1]))
    assert parts.predictor.calls == 1
    np.testing.assert_array_equal(kept.h, state.h[:, parents.numpy()])


@pytest.mark.parametrize("scorer", [two_calls, one_call])
def test_states_are_not_changed_and_may_branch(model, scorer):
    asked, frames = scorer(model, 4), torch.randn(4, model.config.joint_width)
    first = asked.start(4)
    before = asked.log_probs(frames, first)
    rows, labels = torch.arange(4), torch.tensor([3, 5, model.config.blank, -1])
    branch = asked.advance(first, rows, labels)
    other = asked.advance(first, rows.flip(0), labels.flip(0))
    torch.testing.assert_close(
        asked.log_probs(frames, branch), asked.log_probs(frames.flip(0), other).flip(0)
    )
    assert torch.equal(asked.log_probs(frames, first), before)
    # Blank and final rows are exact copies.
    assert torch.equal(asked.log_probs(frames, branch)[2:], before[2:])
    assert not torch.equal(asked.log_probs(frames, branch)[:2], before[:2])


def test_fused_may_advance_twice_without_scores_between(model):
    asked, truth = one_call(model, 4), ModelScorer(model)
    frames = torch.randn(4, model.config.joint_width)
    states = []
    for scorer in (asked, truth):
        state = scorer.start(4)
        for labels in ([1, 2, 3, 4], [5, model.config.blank, 7, -1]):
            state = scorer.advance(state, torch.tensor([1, 1, 0, 3]), torch.tensor(labels))
        states.append(scorer.log_probs(frames, state))
    kept = torch.isfinite(states[0])
    torch.testing.assert_close(states[0][kept], states[1][kept], atol=1e-5, rtol=0)


def test_rows_of_topk_hold_n_classes_and_blank(model):
    asked, truth = two_calls(model, 4), ModelScorer(model)
    frames = torch.randn(4, model.config.joint_width, generator=torch.Generator().manual_seed(0))
    rows = asked.log_probs(frames, asked.start(4))
    expected = truth.log_probs(frames, truth.start(4))
    held = torch.isfinite(rows)
    blank = model.config.blank
    inside = (expected.topk(4).indices == blank).any(-1)
    assert held[:, blank].all() and held.sum(-1).tolist() == (5 - inside.int()).tolist()
    assert not inside.all()  # else blank outside the N best was not looked at
    torch.testing.assert_close(rows[held], expected[held], atol=1e-5, rtol=0)


def test_fusion_before_pruning_takes_logits(model):
    ngram = ToyNgram(seed=3, labels=model.config.blank)
    fusion = (Fusion(ngram, 0.7),)
    late = dict(frames=6, fusion=fusion, pruning_mode="late")
    expected = searched(ModelScorer(model), model, 4, **late)
    same(searched(two_calls(model, 4, tail="logits"), model, 4, **late), expected)
    early = dict(frames=6, fusion=fusion, pruning_mode="early")
    expected = searched(ModelScorer(model), model, 4, **early)
    same(searched(two_calls(model, 4), model, 4, **early), expected)


def test_greedy_and_session_take_it_too(model):
    frames = ModelScorer(model).project(
        torch.randn(1, 9, 48, generator=torch.Generator().manual_seed(1))
    )
    (expected,) = greedy(ModelScorer(model), frames, torch.tensor([9]))
    (got,) = greedy(one_call(model, 1), frames, torch.tensor([9]))
    assert got.tokens == expected.tokens and len(got.tokens) > 10
    session = BeamSession(one_call(model, 4))
    session.begin()
    for piece in frames[0].split(4):
        session.feed(piece)
    ours = session.finalize()
    whole = searched_frames(ModelScorer(model), frames)
    assert [h.tokens for h in ours] == [h.tokens for h in whole]


def searched_frames(scorer, frames):
    return malsd(scorer, frames, torch.tensor([frames.shape[1]]), BeamConfig(beam_size=4))[0]


def test_another_number_of_rows_is_refused(model):
    for scorer in (two_calls, one_call):
        with pytest.raises(CoreMLError, match=r"4 rows and the search 8 .* export --beam 8"):
            searched(scorer(model, 4), model, 8)


def test_beam_is_read_from_the_contract(model):
    graph = rnnt_graph("joint", model, 4)
    function = FunctionContract("main", graph.inputs, graph.outputs)
    said = ("s", "d", "0", "iOS17", "fp32", dict(graph.sizes), (function,))
    assert Beam.of(Contract("joint", *said, blank=32)) == beam_of(model, 4)
    with pytest.raises(CoreMLError, match="joint package has no beam"):
        Beam.of(Contract("joint", *said))


# Wrong hosts, each of which a search must show.


def inverted_preserve(scorer):
    run = scorer.fused
    scorer.fused = lambda feeds: run(feeds | {"preserve": 1 - feeds["preserve"]})


def swapped_states(scorer):
    run = scorer.fused
    scorer.fused = lambda feeds: run(feeds | {"h_in": feeds["c_in"], "c_in": feeds["h_in"]})


def no_gather(scorer):
    class Stays(type(scorer)):
        def advance(self, state, parents, labels):
            return super().advance(state, torch.arange(len(parents)), labels)

    scorer.__class__ = Stays


def first_class_is_blank(scorer):
    scorer.beam = Beam(8, 33, 0, 2, 32)


@pytest.mark.parametrize(
    "mistake", [inverted_preserve, swapped_states, no_gather, first_class_is_blank]
)
def test_wrong_hosts_are_caught(model, mistake):
    expected = searched(ModelScorer(model), model, 8, frames=6)
    scorer = one_call(model, 8)
    same(searched(scorer, model, 8, frames=6), expected)
    mistake(scorer)
    with pytest.raises(AssertionError):
        same(searched(scorer, model, 8, frames=6), expected)


# Packages, as saved on disk.


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Paths of the packages of an arm."""
    exported = exports(tmp_path_factory)
    return lambda arm, *kinds: [exported(arm, kind).package for kind in kinds]


TWO, ONE = ("predictor", "joint"), ("fused",)


@pytest.mark.parametrize(
    ("arm", "kinds", "rows", "function", "frames"),
    [
        ("k8", TWO, 8, "main", 12),
        ("k8", ONE, 8, "main", 12),
        ("unrolled", ONE, 8, "main", 12),
        ("k1", TWO, 1, "main", 4),
        ("k4", TWO, 4, "main", 4),
        ("functions", ONE, 1, "beam_1", 4),
        ("functions", ONE, 4, "beam_4", 4),
        ("functions", ONE, 8, "beam_8", 4),
    ],
)
def test_search_over_packages_is_torchs(model, packages, kinds, arm, rows, function, frames):
    """No mismatch in 113 iterations of 8 rows, every answer fed back."""
    from vrt.coreml.runners import open_scorer

    scorer = open_scorer(packages(arm, *kinds), function)
    expected = searched(ModelScorer(model), model, rows, frames=frames)
    same(searched(scorer, model, rows, frames=frames), expected)


def test_packages_that_do_not_belong_together_are_refused(packages, tmp_path):
    from vrt.coreml.export import export
    from vrt.coreml.runners import open_scorer, predicted
    from vrt.coreml.sources import Source

    predictor, joint = packages("k8", "predictor", "joint")
    (joint4,) = packages("k4", "joint")
    with pytest.raises(CoreMLError, match="export both of one model and one beam"):
        open_scorer([predictor, joint4])
    with pytest.raises(CoreMLError, match="one fused package, not 1 of joint"):
        open_scorer([joint])
    other = export(Source("other", transducer(1)), "joint", tmp_path, Arm())
    with pytest.raises(CoreMLError, match="export both of one model"):
        open_scorer([predictor, other.package])
    with pytest.raises(CoreMLError, match="no function 'beam_8'"):
        open_scorer([predictor, joint], "beam_8")
    import platform

    if platform.system() != "Darwin":
        with pytest.raises(CoreMLError, match="runs on macOS"):
            open_scorer([predictor, joint], run=predicted)


def test_a_trained_model_hears_the_same(tmp_path):
    """The shipped transducer on a recording: the n-best list of torch, through a fused package."""
    needs_coremltools()
    from vrt.coreml.export import export
    from vrt.coreml.runners import open_scorer
    from vrt.coreml.sources import open_source

    made = export(open_source("digits-rnnt"), "fused", tmp_path, Arm(beam=4))
    assert max(made.drift.values()) < 3e-5  # measured 4e-6: scores of a trained model are small
    model = load_acoustic(data_dir() / "models" / "digits-rnnt")
    samples = read(data_dir() / "audio" / "five_five.flac").samples
    frames = ModelScorer(model.transducer).project(model.encode(torch.from_numpy(samples))[None])
    expected = searched_frames(ModelScorer(model.transducer), frames)
    got = searched_frames(open_scorer([made.package]), frames)
    assert [h.tokens for h in got] == [h.tokens for h in expected] and len(got) > 1
    assert model.text(got[0].tokens) == "five five"
    np.testing.assert_allclose([h.score for h in got], [h.score for h in expected], atol=1e-4)
