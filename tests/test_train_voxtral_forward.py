"""The training pass is the engine: same layers, same numbers, gradients that are right."""

import numpy as np
import pytest
import torch
from small_models import random_weights

from vrt.train.voxtral_forward import decode_stream, encode_streams, logits_of, project
from vrt.voxtral.config import SAMPLES_PER_TOKEN, DecoderConfig, EncoderConfig, VoxtralConfig
from vrt.voxtral.greedy import GreedyDecoder
from vrt.voxtral.offline import encode
from vrt.voxtral.schedule import Schedule

# 24 tokens a stream are 96 frames, two of the training pass's groups; both windows wrap.
CONFIG = VoxtralConfig(
    EncoderConfig(width=32, layers=2, heads=2, head_dim=16, ff=48, window=21),
    DecoderConfig(width=24, layers=2, heads=4, kv_heads=2, head_dim=8, ff=32, window=13, vocab=40),
    left_pad_tokens=4,
)
TOKENS = 24
STEP = 1e-3  # of finite differences


@pytest.fixture(scope="module")
def model():
    return random_weights(CONFIG)


@pytest.fixture(scope="module")
def mels(model):
    generator = torch.Generator().manual_seed(1)
    samples = torch.randn(3, TOKENS * SAMPLES_PER_TOKEN, generator=generator) * 0.1
    return torch.stack([model.log_mel(stream) for stream in samples])


def test_each_stream_is_encoded_as_alone(model, mels):
    together = project(model, encode_streams(model, mels))
    for mel, got in zip(mels, together, strict=True):
        alone = model.projector(model.encoder(model.stem(mel)))
        # Groups of 48 queries in place of 4 sum the attention in another order: 1e-6 of values
        # of up to 15 measured.
        assert (got - alone).abs().max() < 1e-5


def test_a_stream_that_leaked_into_the_next_would_be_seen(model, mels):
    changed = mels.clone()
    changed[0] += 0.3
    before, after = (encode_streams(model, m) for m in (mels, changed))
    assert torch.equal(before[1:], after[1:])
    assert (before[0] - after[0]).abs().max() > 0.01


@pytest.mark.parametrize("delay", [1, 3, 7])
def test_logits_are_those_of_the_engine_position_by_position(model, delay):
    """Fed what greedy decoding put out, the pass gives back every step's logits."""
    schedule = Schedule.of(CONFIG, delay)
    samples = torch.from_numpy(np.random.default_rng(2).normal(0, 0.1, 9000).astype(np.float32))
    audio = encode(model, samples, schedule)
    rows = []
    greedy = GreedyDecoder(model, schedule, observer=lambda _stage, row, _s: rows.append(row))
    ids = list(greedy.push(audio))
    fed = torch.tensor([*schedule.prompt, *ids[:-1]])
    logits = decode_stream(model.decoder, fed, audio, delay)
    got = logits[schedule.prompt_len - 1 :]
    assert got.argmax(-1).tolist() == ids
    # All positions at once against one after another: 2e-5 of logits of up to 40 measured.
    assert (got - torch.stack(rows)).abs().max() < 1e-4


def test_every_weight_has_a_gradient_that_differences_confirm(mels):
    model = random_weights(CONFIG).double().requires_grad_(True)
    tokens = [torch.arange(TOKENS) % 40] * 2
    generator = torch.Generator().manual_seed(3)
    weigh = torch.randn(2, TOKENS, 40, dtype=torch.float64, generator=generator)

    def value() -> torch.Tensor:
        logits = logits_of(model, mels[:2].double(), tokens, [2, 5])
        return (logits.log_softmax(-1) * weigh).sum()

    value().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None and weight.grad.abs().max() > 0, name
        direction = torch.randn(weight.shape, dtype=torch.float64, generator=generator)
        slope = float((weight.grad * direction).sum())
        ends = []
        for step in (STEP, -STEP):
            with torch.no_grad():
                weight.add_(direction, alpha=step)
                ends.append(float(value()))
                weight.sub_(direction, alpha=step)
        # Norms, SiLU and softmax are fp32 whatever the weights are: a value is off by 1e-3, a
        # slope of 2 to 600 by up to 0.7.
        assert (ends[0] - ends[1]) / (2 * STEP) == pytest.approx(slope, rel=0.02, abs=2), name


def test_streams_that_do_not_divide_into_groups_are_refused(model, mels):
    with pytest.raises(ValueError, match="92 encoder frames: train on a multiple of 48"):
        encode_streams(model, mels[:, :-8])
