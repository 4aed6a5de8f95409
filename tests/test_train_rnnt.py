"""Training of the digits transducer: the same command gives the same bytes, and it learns."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from vrt.receipt import Receipt, digest
from vrt.receipt.plain import plain, rounded
from vrt.rnnt.acoustic import AcousticTransducer
from vrt.rnnt.acoustic_files import load_acoustic, save_acoustic
from vrt.rnnt.config import BeamConfig
from vrt.train import evaluation, rnnt_report, rnnt_run
from vrt.train.corpus import TRAIN_SPEAKERS, UNHEARD_SPEAKERS, WORDS, Corpus, Digit, Sentence
from vrt.train.loss import transducer_loss
from vrt.train.rnnt_card import card
from vrt.train.rnnt_digits import (
    LABELS,
    NOTHING,
    UNKNOWN,
    Batch,
    Plan,
    batch_loss,
    collate,
    draw_batch,
    encoded,
    frame_classes,
    helper_loss,
    train,
)
from vrt.train.strings import Drawer, Example, Recipe

TINY = {"width": 16, "predictor_width": 12, "joint_width": 12, "batch": 4, "batch_digits": 8}


class Made(Corpus):
    """Digits that are two tones each, so that no recording is needed."""

    def train_sentences(self):
        return list(self.sentences.values())

    misc_sentences = validation_sentences = test_sentences = train_sentences


@pytest.fixture(scope="module")
def corpus():
    time = np.arange(4000) / 16_000
    hull = np.hanning(4000)

    def tones(value):
        wave = sum(np.sin(2 * np.pi * hz * time) for hz in (300 + 60 * value, 2500 - 150 * value))
        return (0.1 * wave * hull).astype(np.float32)

    speakers = [*TRAIN_SPEAKERS, *UNHEARD_SPEAKERS]
    takes = (0, 5, 8)  # heard, validation, training
    digits = [Digit(v, s, t, tones(v)) for s in speakers for t in takes for v in range(10)]
    hum = 0.1 * np.sin(2 * np.pi * 150 * np.arange(40_000) / 16_000)
    return Made(tuple(digits), {"hum": Sentence("hum", hum.astype(np.float32))})


def quiet(_line):
    pass


def loss_of(model, batch):
    return batch_loss(model, encoded(model, batch), batch)


def test_labels_are_the_letters_of_the_digits_and_the_space():
    assert "".join(LABELS) == " efghinorstuvwxz"


def test_the_same_plan_gives_the_same_bytes(corpus, tmp_path):
    plan = Plan(steps=3, **TINY)
    folders = [save_acoustic(train(corpus, plan, quiet), tmp_path / name) for name in "ab"]
    other = save_acoustic(train(corpus, Plan(steps=3, seed=2, **TINY), quiet), tmp_path / "c")
    for name in ("config.json", "model.safetensors"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    assert (other / "model.safetensors").read_bytes() != (
        folders[0] / "model.safetensors"
    ).read_bytes()


def test_training_leaves_torch_as_it_was(corpus):
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    train(corpus, Plan(steps=1, **TINY), quiet)
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == before


def test_the_loss_falls_and_progress_tells_it(corpus):
    lines = []
    plan = Plan(steps=60, warm_up=5, peak=1e-2, dropout=0.0, **TINY)
    model = train(corpus, plan, lines.append)
    assert len(lines) == 60 and lines[-1].startswith("step 60/60  loss ") and "left" in lines[-1]
    torch.manual_seed(plan.seed)
    fresh = AcousticTransducer(plan.config())
    drawer = Drawer.of(corpus.train(), corpus.train_sentences(), plan.recipe)
    batch = draw_batch(model, drawer, plan, 1000)  # of no step of the training
    # Measured: a third of the loss is left.
    assert loss_of(model, batch) < 0.6 * loss_of(fresh, batch)


def test_run_writes_model_receipt_and_card(corpus, tmp_path, monkeypatch):
    """What is measured is what was stored, and the same again when it is measured again."""
    (tmp_path / "fsdd").mkdir()
    monkeypatch.setattr(rnnt_run, "find_speech", lambda folder: tmp_path)
    monkeypatch.setattr(rnnt_run, "load_corpus", lambda folder: corpus)
    monkeypatch.setattr(rnnt_report, "STRINGS", 4)
    monkeypatch.setattr(rnnt_report, "BEAM", BeamConfig(beam_size=2))
    monkeypatch.setattr(rnnt_report, "QUIET_S", 0.5)
    monkeypatch.setattr(rnnt_report, "PEAKS_DB", (-20.0, 0.0))
    monkeypatch.setattr(evaluation, "RESAMPLES", 100)
    plan = Plan(steps=30, warm_up=5, peak=1e-2, **TINY)
    model, receipt = tmp_path / "model", tmp_path / "receipt.json"
    rnnt_run.run(plan, None, model, receipt, True, quiet)
    written = Receipt.load(receipt)
    assert written.parameters["plan"]["steps"] == 30
    assert written.digests["model.safetensors"] == digest(model / "model.safetensors")
    again = rnnt_report.validation(load_acoustic(model), corpus)
    assert rounded(plain(again, "again")) == written.numbers["validation"]
    assert (model / "README.md").read_text() == card(written)
    assert "{" not in card(written)


def test_a_batch_is_that_of_its_step_alone(corpus):
    plan = Plan(**TINY)
    model = AcousticTransducer(plan.config())
    drawer = Drawer.of(corpus.train(), corpus.train_sentences(), plan.recipe)
    later, again, other = (draw_batch(model, drawer, plan, step) for step in (7, 7, 8))
    assert torch.equal(later.mel, again.mel) and torch.equal(later.labels, again.labels)
    assert later.mel.shape != other.mel.shape or not torch.equal(later.mel, other.mel)


def test_padding_does_not_reach_the_loss(corpus):
    """Two strings of other lengths give together what they give alone."""
    plan = Plan(dropout=0.0, **TINY)
    model = AcousticTransducer(plan.config()).double().eval()
    model.front.float()
    plain = Recipe(warp=(1.0, 1.0))
    strings = [Example(corpus.digits[v].samples, corpus.digits[v].word) for v in (0, 1)]
    strings[1] = Example(np.tile(strings[1].samples, 2), "one one")

    def loss(chosen):
        batch = collate(model, chosen, Fixed(np.random.PCG64(0)), plain)
        return loss_of(model, replace(batch, mel=batch.mel.double()))

    alone = torch.stack([loss([string]) for string in strings])
    # Measured: 3e-15; matrix products of other sizes.
    torch.testing.assert_close(loss(strings), alone.mean(), rtol=1e-12, atol=0)


class Fixed(np.random.Generator):
    """A generator that draws the low end, so that nothing is masked."""

    def uniform(self, low=0.0, _high=1.0, size=None):
        return low

    def integers(self, low, _high=None):
        return low


def test_loss_is_over_the_engines_own_modules(corpus):
    """One utterance: our search's own scores of each node give the same loss."""
    from vrt.rnnt.model import ModelScorer

    plan = Plan(dropout=0.0, **TINY)
    torch.manual_seed(0)
    model = AcousticTransducer(plan.config()).eval()
    strings = [Example(corpus.digits[2].samples, "two")]
    batch = collate(model, strings, Fixed(np.random.PCG64(0)), Recipe(warp=(1.0, 1.0)))
    scorer = ModelScorer(model.transducer)
    encoded = model.encode(torch.from_numpy(strings[0].samples))
    frames = scorer.project(encoded)
    state, rows = scorer.start(1), []
    for label in [*batch.labels[0].tolist(), scorer.blank]:
        rows.append(torch.cat([scorer.log_probs(frame[None], state) for frame in frames]))
        state = scorer.advance(state, torch.zeros(1, dtype=torch.int64), torch.tensor([label]))
    by_scorer = transducer_loss(
        torch.stack(rows, 1)[None], batch.labels, batch.frames, batch.lengths
    )
    # Measured: 2e-7 relative; fp32 sums in another order.
    torch.testing.assert_close(loss_of(model, batch), by_scorer[0], rtol=5e-6, atol=0)


def test_frames_are_named_by_what_is_said_at_their_middle():
    """A digit from sample 640 to 3200: frames 1 to 4, of which the second half is named."""
    samples = np.zeros(6400, dtype=np.float32)
    found = frame_classes(Example(samples, "seven", spans=((640, 3200, 7),)), 7)
    assert found.tolist() == [NOTHING, UNKNOWN, UNKNOWN, 7, 7, NOTHING, NOTHING]


def test_spans_are_where_the_digits_are(corpus):
    recipe = Recipe(empty=0.0, beside=0.5, clean=1.0, reverberant=0.0, babble=0.0)
    drawer = Drawer.of(corpus.train(), corpus.train_sentences(), recipe)
    rng = np.random.default_rng(4)
    beside = 0
    for count in (1, 3, 6) * 4:
        example = drawer.draw(rng, count)
        values = [value for _, _, value in example.spans]
        assert [WORDS[value] for value in values if value != NOTHING] == example.text.split()
        assert values.count(NOTHING) <= 1 and NOTHING not in values[1:-1]
        beside += values.count(NOTHING)
        heard = np.zeros(len(example.samples), dtype=bool)
        for first, end, _ in example.spans:
            heard[first:end] = True
        power = np.square(example.samples, dtype=np.float64)
        # Filters ring: a thousandth of the power may lie between.
        assert power[~heard].sum() < 1e-3 * power.sum()
    assert 2 <= beside <= 10


def test_the_helper_asks_for_the_named_frames_alone():
    helper = torch.nn.Linear(2, NOTHING + 1)
    batch = Batch(
        torch.zeros(1, 12, 40),
        torch.tensor([3]),
        torch.zeros(1, 0, dtype=torch.int64),
        torch.tensor([0]),
        torch.tensor([[4, UNKNOWN, NOTHING]]),
    )
    frames = torch.randn(1, 3, 2, generator=torch.Generator().manual_seed(0))
    log_probs = helper(frames[0]).log_softmax(-1)
    wanted = -(log_probs[0, 4] + log_probs[2, NOTHING]) / 2
    torch.testing.assert_close(helper_loss(helper, frames, batch), wanted)
