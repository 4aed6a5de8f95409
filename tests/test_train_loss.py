"""The transducer loss is exact: against an autograd dynamic programme, every alignment, and finite
differences."""

from itertools import combinations

import pytest
import torch

from vrt.train import loss as loss_module
from vrt.train.loss import transducer_loss


def problem(seed, batch=3, time=5, label_count=3, classes=4, dtype=torch.float64):
    """Random logits; the first utterance is full, the others shorter in both ways."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(batch, time, label_count + 1, classes, generator=generator, dtype=dtype)
    labels = torch.randint(0, classes - 1, (batch, label_count), generator=generator)
    frames = torch.tensor([time, max(1, time - 2), 1][:batch])
    lengths = torch.tensor([label_count, max(0, label_count - 1), 0][:batch])
    return logits, labels, frames, lengths


def plain_programme(logits, labels, frames, lengths):
    """Node by node in Python floats of autograd: slow, and nothing in common with ours."""
    losses = []
    for b in range(len(logits)):
        log_probs = logits[b].log_softmax(-1)
        alpha = {(0, 0): log_probs.new_zeros(())}
        for t in range(int(frames[b])):
            for u in range(int(lengths[b]) + 1):
                into = []
                if t:
                    into.append(alpha[t - 1, u] + log_probs[t - 1, u, -1])
                if u:
                    into.append(alpha[t, u - 1] + log_probs[t, u - 1, labels[b, u - 1]])
                if into:
                    alpha[t, u] = torch.stack(into).logsumexp(0)
        t, u = int(frames[b]) - 1, int(lengths[b])
        losses.append(-(alpha[t, u] + log_probs[t, u, -1]))
    return torch.stack(losses)


def every_alignment(logits, labels, frames, lengths):
    """Probabilities of all placements of the labels among the blanks, summed."""
    losses = []
    for b in range(len(logits)):
        probs = logits[b].softmax(-1)
        blanks, count = int(frames[b]), int(lengths[b])
        total = probs.new_zeros(())
        for places in combinations(range(blanks - 1 + count), count):
            t = u = 0
            path = probs.new_ones(())
            for place in range(blanks - 1 + count):
                if place in places:
                    path = path * probs[t, u, labels[b, u]]
                    u += 1
                else:
                    path = path * probs[t, u, -1]
                    t += 1
            total = total + path * probs[t, u, -1]
        losses.append(-total.log())
    return torch.stack(losses)


SHAPES = [(1, 1, 1, 2), (1, 1, 3, 4), (3, 5, 3, 4), (3, 7, 1, 3), (2, 4, 6, 5), (3, 6, 0, 3)]


def with_gradient(function, logits, labels, frames, lengths):
    """Values and the gradient of a weighted sum of them."""
    leaf = logits.detach().clone().requires_grad_()
    values = function(leaf, labels, frames, lengths)
    (values * torch.linspace(0.5, 2.0, len(logits), dtype=logits.dtype)).sum().backward()
    return values.detach(), leaf.grad


@pytest.mark.parametrize("shape", SHAPES)
def test_value_and_gradient_are_those_of_a_plain_dynamic_programme(shape):
    case = problem(sum(shape), *shape)
    ours, plain = with_gradient(transducer_loss, *case), with_gradient(plain_programme, *case)
    # Measured: 4e-15; sums of up to 84 paths in another order.
    torch.testing.assert_close(ours, plain, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_value_is_the_sum_over_every_alignment(shape):
    case = problem(sum(shape) + 1, *shape)
    torch.testing.assert_close(transducer_loss(*case), every_alignment(*case), rtol=0, atol=1e-12)


def test_gradcheck():
    logits, labels, frames, lengths = problem(3)
    leaf = logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: transducer_loss(x, labels, frames, lengths), leaf)


def test_what_lies_outside_is_not_read_and_gets_no_gradient():
    logits, labels, frames, lengths = problem(4)
    other = logits.clone()
    other[1, int(frames[1]) :] = 1e3
    other[1, :, int(lengths[1]) + 1 :] = -1e3
    labels_beyond = labels.clone()
    labels_beyond[1, int(lengths[1]) :] = -1
    leaf = other.requires_grad_()
    found = transducer_loss(leaf, labels_beyond, frames, lengths)
    assert torch.equal(found, transducer_loss(logits, labels, frames, lengths))
    found.sum().backward()
    assert (leaf.grad[1, int(frames[1]) :] == 0).all()
    assert (leaf.grad[1, :, int(lengths[1]) + 1 :] == 0).all()
    assert (leaf.grad[0] != 0).all()


def test_single_precision_on_long_utterances():
    """As in training: 150 frames, 30 labels, 17 classes."""
    logits, labels, frames, lengths = problem(5, 2, 150, 30, 17, torch.float32)
    exact = transducer_loss(logits.double(), labels, frames, lengths)
    found = transducer_loss(logits, labels, frames, lengths)
    # Measured: 2e-7 relative; 180 additions and logaddexps in fp32.
    torch.testing.assert_close(found.double(), exact, rtol=2e-6, atol=0)


def test_one_certain_path_costs_nothing():
    logits = torch.full((1, 3, 3, 3), -200.0)
    logits[..., -1] = 200.0
    for t, u, label in ((0, 0, 1), (2, 1, 0)):
        logits[0, t, u] = torch.tensor([-200.0, -200.0, -200.0])
        logits[0, t, u, label] = 200.0
    labels, ones = torch.tensor([[1, 0]]), torch.tensor([3])
    assert transducer_loss(logits, labels, ones, torch.tensor([2])).item() == 0.0


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("_straight", lambda x, time: x.permute(1, 0, 2)[:, :time]),  # diagonals taken for frames
        ("_betas", lambda blank, label, frames, lengths: loss_module._alphas(blank, label)),
        ("NEVER", 0.0),
    ],
)
def test_a_mistake_is_caught(monkeypatch, name, wrong):
    case = problem(6)
    right = with_gradient(plain_programme, *case)
    monkeypatch.setattr(loss_module, name, wrong)
    found = with_gradient(transducer_loss, *case)
    assert not all(torch.allclose(f, r, atol=1e-6) for f, r in zip(found, right, strict=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": torch.zeros(1, 3, dtype=torch.int64)}, "3 nodes a frame do not fit 3 labels"),
        ({"frames": torch.tensor([5])}, r"frames \[5\] lie outside 1..4"),
        ({"frames": torch.tensor([0])}, r"frames \[0\] lie outside 1..4"),
        ({"lengths": torch.tensor([3])}, r"lengths \[3\] lie outside 0..2"),
        ({"labels": torch.tensor([[0, 4]])}, r"label 4 lies outside 0..3"),
    ],
)
def test_refusals_name_the_value(change, message):
    case = {
        "logits": torch.zeros(1, 4, 3, 5),
        "labels": torch.zeros(1, 2, dtype=torch.int64),
        "frames": torch.tensor([4]),
        "lengths": torch.tensor([2]),
    }
    with pytest.raises(ValueError, match=message):
        transducer_loss(**(case | change))
