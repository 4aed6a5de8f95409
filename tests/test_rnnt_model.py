"""Predictor, joint and scorer against a float64 model in numpy, and what must be exact."""

import dataclasses

import numpy as np
import pytest
import torch
from numpy_transducer import NumpyTransducer
from rnnt_dictionary_beam import dictionary_beam

from vrt.rnnt import (
    PARAKEET,
    BeamConfig,
    BeamError,
    BeamSession,
    LSTMState,
    ModelScorer,
    Scorer,
    Transducer,
    TransducerConfig,
    greedy,
    malsd,
)
from vrt.rnnt.model import ScorerState
from vrt.rnnt.vocabulary import Vocabulary, VocabularyError

SMALL = TransducerConfig(7, 10, 12, 2, 9)
# fp32 against float64 over up to 8 labels: measured 2.5e-6, from rounding in the products.
DRIFT = 1e-5


def frames(batch, time, config=SMALL, seed=0):
    return torch.randn(
        batch, time, config.encoder_width, generator=torch.Generator().manual_seed(seed)
    )


def with_blank(model, added):
    """Blank more or less likely."""
    with torch.no_grad():
        model.joint.output.bias[model.config.blank] += added
    return model


def configs():
    return [
        SMALL,
        TransducerConfig(5, 6, 7, 1, 11, "tanh"),
        TransducerConfig(33, 16, 20, 3, 18, "sigmoid"),
    ]


def drive(scorer, model, moves=8, rows=5, seed=3):
    """Random parents and labels, as a beam makes them; complains of the first row that is not the
    reference's, or not a copy where it must be."""
    reference, config = NumpyTransducer(model), model.config
    random = np.random.default_rng(seed)
    x = frames(rows, moves + 1, config, seed)
    projected = model.joint.project_encoder(x).detach()
    state, prefixes = scorer.start(rows), [()] * rows
    for move in range(moves + 1):
        got = scorer.log_probs(projected[:, move], state)
        want = [
            reference.log_probs(p, f.double().numpy())
            for p, f in zip(prefixes, x[:, move], strict=True)
        ]
        worst = float((got.double() - torch.from_numpy(np.stack(want))).abs().max())
        assert worst <= DRIFT, f"move {move}: off by {worst}"
        parents = torch.from_numpy(random.integers(0, rows, rows))
        labels = torch.from_numpy(random.integers(-1, config.vocab, rows))
        if move == 2:
            labels[:] = config.blank
        before, state = state, scorer.advance(state, parents, labels)
        for row, (parent, label) in enumerate(zip(parents.tolist(), labels.tolist(), strict=True)):
            if label in (-1, config.blank):
                assert same_row(state, row, before, parent), f"move {move}: row {row} is no copy"
        prefixes = [
            (*prefixes[p], v) if 0 <= v < config.blank else prefixes[p]
            for p, v in zip(parents.tolist(), labels.tolist(), strict=True)
        ]


def same_row(state, row, before, parent):
    return all(
        torch.equal(a[..., row, :], b[..., parent, :])
        for a, b in zip(tensors(state), tensors(before), strict=True)
    )


def tensors(state):
    return (*state.lstm, state.predicted)


@pytest.mark.parametrize("config", configs(), ids=lambda c: c.activation)
def test_rows_equal_a_float64_model_and_copies_are_exact(config):
    model = Transducer.random(config, 1)
    drive(ModelScorer(model), model)


class NoParents(ModelScorer):
    def advance(self, state, parents, labels):
        return super().advance(state, torch.arange(len(parents)), labels)


class FedBlank(ModelScorer):
    def advance(self, state, parents, labels):
        return self._fed(labels.clamp(min=0), state.lstm.rows(parents))


class StateNotRestored(ModelScorer):
    def advance(self, state, parents, labels):
        right = super().advance(state, parents, labels)
        fed = self._fed(labels.clamp(min=0), state.lstm.rows(parents))
        return ScorerState(fed.lstm, right.predicted)


class ZerosAtTheStart(ModelScorer):
    def start(self, rows):
        state = super().start(rows)
        return ScorerState(state.lstm, torch.zeros_like(state.predicted))


class LabelBeforeParent(ModelScorer):
    def advance(self, state, parents, labels):
        return super().advance(state, parents, labels[parents])


@pytest.mark.parametrize(
    "wrong", [NoParents, FedBlank, StateNotRestored, ZerosAtTheStart, LabelBeforeParent]
)
def test_a_wrong_scorer_is_caught(wrong):
    model = Transducer.random(SMALL, 1)
    with pytest.raises(AssertionError):
        drive(wrong(model), model)


@pytest.mark.parametrize("kind", ["weight_ih_l0", "bias_hh_l1"])
def test_a_wrong_order_of_gates_is_caught(kind):
    model = Transducer.random(SMALL, 1)
    other = Transducer.random(SMALL, 1)
    weight = getattr(other.decoder.lstm, kind)
    with torch.no_grad():
        weight.copy_(torch.cat([weight.chunk(4)[n] for n in (0, 2, 1, 3)]))
    with pytest.raises(AssertionError, match="off by"):
        drive(ModelScorer(other), model)


def test_a_whole_sequence_equals_its_steps():
    model = Transducer.random(SMALL, 2)
    decoder = model.decoder
    labels = torch.randint(0, SMALL.vocab, (4, 9), generator=torch.Generator().manual_seed(1))
    whole, end = decoder(labels)
    state, outs = decoder.initial(4), []
    for column in labels.T:
        out, state = decoder.step(column, state)
        outs.append(out)
    # The same products, in one call or in nine: measured 0; another size or machine may add in
    # another order.
    torch.testing.assert_close(torch.stack(outs, 1), whole, atol=2e-6, rtol=0)
    for a, b in zip(state, end, strict=True):
        torch.testing.assert_close(a, b, atol=2e-6, rtol=0)
    half, middle = decoder(labels[:, :4])
    rest, _ = decoder(labels[:, 4:], middle)
    torch.testing.assert_close(torch.cat([half, rest], 1), whole, atol=2e-6, rtol=0)


def test_rows_do_not_see_each_other():
    model = Transducer.random(SMALL, 2)
    decoder = model.decoder
    labels = torch.tensor([3, 6, 0, 5, 1])
    state = LSTMState(*(torch.randn(2, 5, 12) for _ in "hc"))
    out, after = decoder.step(labels, state)
    for row in range(5):
        index = torch.tensor([row])
        alone, end = decoder.step(labels[index], state.rows(index))
        # A product of one row adds in another order: measured 7.2e-7 over 200 models.
        torch.testing.assert_close(alone, out[index], atol=5e-6, rtol=0)
        for a, b in zip(end, after.rows(index), strict=True):
            torch.testing.assert_close(a, b, atol=5e-6, rtol=0)


def test_advance_changes_no_state_in_place():
    model = Transducer.random(SMALL, 2)
    scorer = ModelScorer(model)
    state = scorer.start(3)
    kept = [t.clone() for t in tensors(state)]
    scorer.advance(state, torch.tensor([2, 1, 0]), torch.tensor([1, SMALL.blank, -1]))
    scorer.advance(state, torch.tensor([2, 1, 0]), torch.tensor([SMALL.blank] * 3))
    assert all(torch.equal(a, b) for a, b in zip(kept, tensors(state), strict=True))


def test_the_joint_of_a_lattice_is_that_of_its_pairs():
    joint = Transducer.random(SMALL, 4).joint
    f = joint.project_encoder(torch.randn(2, 3, 10))
    g = joint.project_predictor(torch.randn(2, 4, 12))
    lattice = joint.joint(f.unsqueeze(2), g.unsqueeze(1))
    assert lattice.shape == (2, 3, 4, 7)
    for b, t, u in np.ndindex(2, 3, 4):
        # Rows of a larger product: measured 3.8e-6 over 200 models, of logits up to 10.
        alone = joint.joint(f[b, t], g[b, u])
        torch.testing.assert_close(lattice[b, t, u], alone, atol=2e-5, rtol=0)


def test_the_start_symbol_is_a_zero_vector_that_training_leaves_alone():
    config = dataclasses.replace(SMALL, predictor_dropout=0.1, joint_dropout=0.1)
    model = Transducer(config).train()
    assert not model.decoder.embed[config.blank].any()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    labels = torch.tensor([[config.blank, 2, 3]])
    out, _ = model.decoder(labels)
    model.joint.project_predictor(out).square().sum().backward()
    optimizer.step()
    assert not model.decoder.embed[config.blank].any()
    assert model.decoder.embed[2].any()


@pytest.mark.parametrize("layers", [1, 2])
def test_dropout_acts_in_training_only(layers, recwarn):
    config = dataclasses.replace(SMALL, predictor_layers=layers, predictor_dropout=0.5)
    model = Transducer.random(config, 0)
    labels = torch.tensor([[6, 1, 2, 3, 4, 5, 0]])
    first, second = model.decoder(labels)[0], model.decoder(labels)[0]
    assert torch.equal(first, second) and (first != 0).all()
    model.train()
    assert (model.decoder(labels)[0] == 0).any()
    assert not recwarn.list  # PyTorch warns of dropout between the layers of one


@pytest.mark.parametrize("beam", [1, 4, 7])
@pytest.mark.parametrize("chunk", [1, 3, 50])
def test_a_stream_over_a_model_equals_the_whole(beam, chunk):
    model = with_blank(Transducer.random(SMALL, 5), 2.5)
    scorer = ModelScorer(model)
    encoded = scorer.project(frames(1, 30))
    config = BeamConfig(beam_size=beam, max_symbols=3)
    (want,) = malsd(scorer, encoded, torch.tensor([30]), config)
    session = BeamSession(scorer, config)
    session.begin()
    for piece in encoded[0].split(chunk):
        session.feed(piece)
    assert session.finalize() == want and len(want[0].tokens) >= 5


def test_a_batch_says_what_its_utterances_say_alone():
    model = with_blank(Transducer.random(SMALL, 6), 3.0)
    scorer = ModelScorer(model)
    encoded, lengths = scorer.project(frames(3, 12)), torch.tensor([12, 0, 7])
    config = BeamConfig(beam_size=4)
    both = malsd(scorer, encoded, lengths, config)
    best = greedy(scorer, encoded, lengths)
    for row in range(3):
        (alone,) = malsd(scorer, encoded[row : row + 1], lengths[row : row + 1], config)
        assert [h.tokens for h in alone] == [h.tokens for h in both[row]]
        for a, b in zip(alone, both[row], strict=True):
            assert a.score == pytest.approx(b.score, abs=1e-4)
        assert greedy(scorer, encoded[row : row + 1], lengths[row : row + 1])[0].tokens == (
            best[row].tokens
        )


@pytest.mark.parametrize("seed", range(6))
def test_a_search_in_float64_equals_one_in_plain_python(seed):
    """Neither the networks nor the beam of the other side are ours."""
    model = with_blank(Transducer.random(SMALL, seed).double(), 2.0)
    scorer, reference = ModelScorer(model), NumpyTransducer(model)
    x = frames(1, 8, seed=seed).double()
    config = BeamConfig(beam_size=4, max_symbols=3)
    (found,) = malsd(scorer, scorer.project(x), torch.tensor([8]), config)

    def row_at(frame, prefix):
        return reference.log_probs(prefix, x[0, frame].numpy()).tolist()

    want = dictionary_beam(row_at, 8, SMALL.vocab, config)
    assert [(h.tokens, h.timestamps) for h in found] == [(w[0], w[2]) for w in want]
    for ours, theirs in zip(found, want, strict=True):
        assert ours.score == pytest.approx(theirs[1], abs=1e-10)
    assert found[0].tokens


def test_sizes_of_parakeet():
    with torch.device("meta"):
        model = Transducer(PARAKEET)
    assert sum(p.numel() for p in model.decoder.parameters()) == 7_224_960
    assert sum(p.numel() for p in model.joint.parameters()) == 1_728_393
    assert model.decoder.embed.shape == (1033, 640)


def test_the_scorer_is_a_scorer_of_the_model():
    scorer = ModelScorer(Transducer.random(SMALL, 0))
    assert isinstance(scorer, Scorer) and (scorer.vocab, scorer.blank) == (7, 6)


def test_random_weights_come_from_their_seed():
    torch.manual_seed(1)
    one = Transducer.random(SMALL, 3).state_dict()
    torch.manual_seed(2)
    two = Transducer.random(SMALL, 3).state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
    other = Transducer.random(SMALL, 4).state_dict()
    assert all(not torch.equal(one[name], other[name]) for name in one)


def test_a_tdt_model_is_refused_by_the_scorer():
    model = Transducer.random(dataclasses.replace(SMALL, durations=(0, 1, 2)), 0)
    assert model.joint.output.out_features == 10
    with pytest.raises(BeamError, match=r"TDT model with durations \(0, 1, 2\)"):
        ModelScorer(model)


def test_a_model_in_training_mode_is_refused_where_it_has_dropout():
    scorer = ModelScorer(Transducer(dataclasses.replace(SMALL, joint_dropout=0.2)))
    with pytest.raises(BeamError, match="eval"):
        greedy(scorer, scorer.project(frames(1, 2)), torch.tensor([2]))
    scorer.transducer.eval()
    greedy(scorer, scorer.project(frames(1, 2)), torch.tensor([2]))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"vocab": 1}, "vocab must be at least 2, got 1"),
        ({"predictor_layers": 0}, "predictor_layers must be at least 1, got 0"),
        ({"joint_dropout": 1.0}, "joint_dropout"),
        ({"activation": "gelu"}, "activation must be one of relu, tanh, sigmoid, got 'gelu'"),
        ({"durations": (0, -1)}, "durations"),
    ],
)
def test_sizes_that_cannot_be(change, complaint):
    # What the types exclude is checked all the same: they are not looked at at run time.
    kinds = (ValueError, TypeError) if "activation" in change else ValueError
    with pytest.raises(kinds, match=None if "activation" in change else complaint):
        dataclasses.replace(SMALL, **change)


def test_text_of_labels():
    model = Transducer.random(SMALL, 0)
    with pytest.raises(VocabularyError, match="no vocabulary"):
        model.text([1])
    model.vocabulary = Vocabulary(tuple("ab cde"))
    assert model.text((1, 0, 2, 3)) == "ba c"
    assert model.vocabulary.tokens("ba c") == (1, 0, 2, 3)
    with pytest.raises(VocabularyError, match="label 6 has no piece"):
        model.text([0, 6])
    with pytest.raises(VocabularyError, match="'x' of 'ax'"):
        model.vocabulary.tokens("ax")
