"""The fast searches on random networks: products of another number of rows round differently.

A fast score and a clear one differ by rounding of log-probabilities (logits near 10 in fp32: steps
of 1e-6) and of the running sum (a score near -100 has steps of 8e-6), so what may differ is set
where a decision's margin is below 1e-3; such cases are counted and not compared.
"""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from rnnt_cases import DECISION, unchecked

from vrt.rnnt import BeamConfig, BeamError, Fusion, Trace, greedy, malsd
from vrt.rnnt.counters import Tally
from vrt.rnnt.fast import FastSession, PackedScorer, fast_greedy, fast_malsd
from vrt.rnnt.fast import memory as memory_module
from vrt.rnnt.fast.network import NetworkRows
from vrt.rnnt.malsd import search
from vrt.rnnt.margins import margins
from vrt.rnnt.model import ModelScorer, Transducer, TransducerConfig
from vrt.rnnt.nbest import nbest
from vrt.rnnt.toy import ToyNgram

SCORE = 2e-5  # beside 4 steps of fp32 at the score itself; 7.6e-6 was the most in 3,081 cases


def model(seed, blank=0.0, **changes):
    sizes = {"vocab": 24, "encoder_width": 12, "predictor_width": 16, "predictor_layers": 2}
    config = TransducerConfig(**sizes | {"joint_width": 20} | changes)
    transducer = Transducer.random(config, seed)
    with torch.no_grad():
        transducer.joint.output.bias[-1] += blank
    return transducer


def problem(seed):
    """B 1-3, T 1-20, K 1-8, one to three layers, all three activations, a third fused."""
    random = np.random.default_rng(seed)
    activation = ("relu", "tanh", "sigmoid")[seed % 3]
    transducer = model(
        seed // 4,
        float(random.choice([0.0, 3.0, 6.0])),
        vocab=int(random.integers(9, 40)),
        predictor_layers=int(random.integers(1, 4)),
        activation=activation,
    )
    scorer = ModelScorer(transducer)
    batch, time = int(random.integers(1, 4)), int(random.integers(1, 21))
    generator = torch.Generator().manual_seed(seed)
    frames = scorer.project(torch.randn(batch, time, 12, generator=generator))
    lengths = torch.tensor([time, *random.integers(0, time + 1, batch - 1).tolist()])
    fusion = ()
    if seed % 3 == 0:
        fusion = (Fusion(ToyNgram(seed, scorer.vocab - 1), float(random.uniform(0.1, 1))),)
    config = BeamConfig(
        beam_size=int(random.integers(1, 9)),
        max_symbols=int(random.integers(1, 6)),
        score_norm=bool(random.random() < 0.7),
        fusion=fusion,
        pruning_mode=("late", "early")[seed % 2],
    )
    return scorer, frames, lengths, config


def near(got, want):
    """Tokens and timestamps equal; the largest difference of scores beyond their own steps."""
    worst = 0.0
    assert [[h.tokens for h in n] for n in got] == [[h.tokens for h in n] for n in want]
    assert [[h.timestamps for h in n] for n in got] == [[h.timestamps for h in n] for n in want]
    for ours, theirs in zip(got, want, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            worst = max(worst, abs(a.score - b.score) - 4 * float(np.spacing(np.float32(-b.score))))
    return worst


def compare(seeds):
    """How many were compared, were too close, and the worst difference of scores."""
    compared, close, worst = 0, 0, 0.0
    with unchecked():
        for seed in seeds:
            scorer, frames, lengths, config = problem(seed)
            trace = Trace()
            want = nbest(search(scorer, frames, lengths, config, trace).hyps, config.score_norm)
            margin = margins(trace.iterations, want, config, config.score_norm)
            if margin.decision < DECISION:
                close += 1
                continue
            got = fast_malsd(scorer, frames, lengths, config)
            worst = max(worst, near(got, want))
            compared += 1
    return compared, close, worst


def test_80_random_networks(record_property):
    compared, close, worst = compare(range(80))
    record_property("compared, close, worst", (compared, close, worst))
    assert worst <= SCORE and compared >= 40, (compared, close, worst)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_4000_random_networks(part, record_property):
    compared, close, worst = compare(range(1000 + 500 * part, 1500 + 500 * part))
    record_property("compared, close, worst", (compared, close, worst))
    assert worst <= SCORE and compared >= 250, (compared, close, worst)


def packed_problem(seed, blank=2.0, time=60, batch=1):
    scorer = PackedScorer(model(seed, blank))
    generator = torch.Generator().manual_seed(seed)
    frames = scorer.project(torch.randn(batch, time, 12, generator=generator))
    return scorer, frames, torch.full((batch,), time)


def test_memory_without_room_to_spare(monkeypatch):
    """Rows are used again and again: nothing of the old prefix may be left in them."""
    arguments = *packed_problem(5), BeamConfig(beam_size=6)
    tallies = Tally(), Tally()
    want = fast_malsd(*arguments, tally=tallies[0])
    monkeypatch.setattr(memory_module, "SPARE", 0)
    got = fast_malsd(*arguments, tally=tallies[1])
    assert near(got, want) <= SCORE
    assert tallies[1].work.predictor_rows >= tallies[0].work.predictor_rows > 60


def test_batch_and_solo_and_pieces():
    for seed in range(6):
        scorer, frames, lengths = packed_problem(seed, batch=3, time=24)
        lengths = torch.tensor([24, 9, 17])
        config = BeamConfig(beam_size=4)
        together = fast_malsd(scorer, frames, lengths, config)
        for row, length in enumerate(lengths.tolist()):
            whole = frames[row, :length]
            alone = fast_malsd(scorer, whole[None], lengths[row : row + 1], config)
            assert near([together[row]], alone) <= SCORE
            for size in (1, 5):
                session = FastSession(scorer, config)
                session.begin()
                for start in range(0, length, size):
                    session.feed(whole[start : start + size])
                assert [session.finalize()] == alone  # the same calls in the same order


def test_greedy():
    labels = 0
    for seed in range(12):
        scorer, frames, _ = packed_problem(seed, batch=3, time=30)
        lengths = torch.tensor([30, 0, 12])
        want = greedy(ModelScorer(scorer.transducer), frames, lengths)
        got = fast_greedy(scorer, frames, lengths)
        assert near([got], [want]) <= SCORE
        labels += sum(len(h.tokens) for h in got)
    assert labels > 200


def test_alignments_and_confidences():
    arguments = *packed_problem(3, time=12), BeamConfig(beam_size=4, preserve_alignments=True)
    (got,), (want,) = fast_malsd(*arguments), malsd(*arguments)
    for a, b in zip(got, want, strict=True):
        assert [(s.frame, s.label) for s in a.alignment] == [
            (s.frame, s.label) for s in b.alignment
        ]
        assert a.confidence == pytest.approx(b.confidence, abs=1e-5)


def test_doubles_go_by_the_scorer_itself():
    scorer = ModelScorer(model(4).double())
    frames = scorer.project(torch.randn(1, 8, 12, dtype=torch.float64))
    arguments = scorer, frames, torch.tensor([8]), BeamConfig(beam_size=3)
    assert near(fast_malsd(*arguments), malsd(*arguments)) < 1e-12


def test_a_model_that_is_packed_already_gives_the_same():
    scorer, frames, lengths = packed_problem(6, time=10)
    plain = ModelScorer(scorer.transducer)
    assert fast_malsd(scorer, frames, lengths) == fast_malsd(plain, frames, lengths)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_wrong_frames_are_refused_in_the_words_of_the_clear_search(value):
    scorer, frames, lengths = packed_problem(7, time=10)
    frames[0, 4, :] = value
    texts = []
    for search_by in (malsd, fast_malsd):
        with pytest.raises(BeamError, match="encoder frame 4 of utterance 0") as found:
            search_by(scorer, frames, lengths)
        texts.append(str(found.value))
    assert texts[0] == texts[1]
    for search_by in (greedy, fast_greedy):
        with pytest.raises(BeamError, match="encoder frame 4 of utterance 0 are NaN"):
            search_by(scorer, frames, lengths)


def test_frames_that_were_not_projected_are_refused():
    scorer, _, lengths = packed_problem(7, time=10)
    for search_by in (fast_malsd, fast_greedy):
        with pytest.raises(BeamError, match="frames are 12 wide, the joint takes 20"):
            search_by(scorer, torch.zeros(1, 10, 12), lengths)


def test_frames_may_lie_anyhow_and_carry_gradients():
    scorer, frames, lengths = packed_problem(8, time=10, batch=2)
    want = fast_malsd(scorer, frames, lengths)
    turned = frames.transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
    assert fast_malsd(scorer, turned, lengths) == want
    assert fast_greedy(scorer, turned, lengths) == fast_greedy(scorer, frames, lengths)


def test_models_that_cannot_be_packed_are_refused_by_name():
    with pytest.raises(BeamError, match=r"TDT model with durations \(0, 1\)"):
        PackedScorer(model(1, durations=(0, 1)))
    with pytest.raises(BeamError, match=r"decoder.prediction.embed.weight is torch.float64 on cpu"):
        PackedScorer(model(1).double())
    broken = model(1)
    with torch.no_grad():
        broken.joint.pred.weight[2, 3] = torch.nan
    with pytest.raises(BeamError, match=r"joint\.pred\.weight holds NaN or infinite weights"):
        PackedScorer(broken)


WITHOUT = """
import sys, json, dataclasses
sys.modules["numba"] = None
sys.path.insert(0, "tests")
import torch
from rnnt_cases import unchecked
from test_rnnt_fast_model import results_of
from vrt.rnnt.fast.jit import COMPILED
assert not COMPILED
print(json.dumps(results_of()))
"""


def results_of():
    """n-best lists of toys and of networks, as JSON has them."""
    from rnnt_cases import random_case

    found = []
    for seed in range(12):
        scorer, frames, lengths, config = random_case(seed).arguments
        config = BeamConfig(**{**vars(config), "ties": "lowest"})
        found.append(fast_malsd(scorer, frames, lengths, config))
    for seed in range(3):
        arguments = packed_problem(seed, time=10)
        found += [fast_malsd(*arguments), [fast_greedy(*arguments)]]
    return [[[(h.tokens, h.timestamps, h.score) for h in n] for n in lists] for lists in found]


def test_without_numba_the_results_are_the_same(repo_root):
    run = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", WITHOUT],
        capture_output=True,
        text=True,
        cwd=repo_root,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    want, got = json.loads(json.dumps(results_of())), json.loads(run.stdout)
    assert got[:12] == want[:12]  # toys, to the bit
    for ours, theirs in zip(got[12:], want[12:], strict=True):
        for a, b in zip(ours, theirs, strict=True):
            for left, right in zip(a, b, strict=True):
                assert left[:2] == right[:2] and abs(left[2] - right[2]) <= 5 * SCORE


# --- mistakes made on purpose


def again_of_the_old_prefix(patch):
    """What a row's last prefix added to the gates is taken for the new one's."""

    class Sticky(np.ndarray):
        def __setitem__(self, index, value):
            if value is not False:
                super().__setitem__(index, value)

    start = NetworkRows.start

    def sticky(self, count):
        start(self, count)
        self.again_known = self.again_known.view(Sticky)

    patch.setattr(NetworkRows, "start", sticky)


def predictor_fed_the_parents_label(patch):
    feed = NetworkRows.compute

    def wrong(self, rows, parents, labels):
        feed(self, rows, parents, np.roll(labels, 1) if len(labels) > 1 else labels * 0)

    patch.setattr(NetworkRows, "compute", wrong)


def blank_row_of_another_slot(patch):
    best = NetworkRows.best

    def rolled(self, rows, frames, utterances, places):
        return best(self, np.roll(rows, 1), frames, utterances, places)

    patch.setattr(NetworkRows, "best", rolled)


@pytest.mark.parametrize(
    "mistake",
    [again_of_the_old_prefix, predictor_fed_the_parents_label, blank_row_of_another_slot],
)
def test_a_mistake_is_caught(mistake, monkeypatch):
    monkeypatch.setattr(memory_module, "SPARE", 0)
    arguments = *packed_problem(5), BeamConfig(beam_size=6)
    want = fast_malsd(*arguments)
    mistake(monkeypatch)
    assert [h.tokens for h in fast_malsd(*arguments)[0]] != [h.tokens for h in want[0]]
