"""Packed weights: the same bits at every stage, and a clear word where packing is not possible."""

import pytest
import torch
from small_models import Stages, noise, random_weights, small_config, stream, worst_difference

from vrt.voxtral.config import DecoderConfig, EncoderConfig
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.offline import transcribe
from vrt.voxtral.packed import PackedLinear, PackError, pack

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this build of torch has no oneDNN"
)

ZERO = {"mel": 0.0, "conv_stem": 0.0, "encoder": 0.0, "projector": 0.0, "logits": 0.0}
WIDER = small_config(
    EncoderConfig(width=96, layers=2, heads=3, head_dim=32, ff=208, window=40),
    DecoderConfig(
        width=80, layers=2, heads=4, kv_heads=2, head_dim=24, ff=176, window=50, vocab=333
    ),
)


def stages(model: VoxtralRealtime, feed: int | None = None) -> dict[str, torch.Tensor]:
    seen = Stages()
    if feed is None:
        transcribe(model, noise(2.5), observer=seen)
    else:
        stream(model, noise(2.5), feed, observer=seen)
    return seen.joined()


@pytest.mark.parametrize("config", [small_config(), WIDER], ids=["small", "wider"])
@pytest.mark.parametrize("threads", [1, 2])
def test_packed_equals_plain_bit_for_bit(config, threads: int) -> None:
    torch.set_num_threads(threads)
    try:
        plain = random_weights(config, seed=2).bfloat16()
        packed = pack(random_weights(config, seed=2).bfloat16())
        expected = stages(plain)
        assert worst_difference(stages(packed), expected) == ZERO
        for feed in (333, 1280, 9000):
            assert worst_difference(stages(packed, feed), expected) == ZERO
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("rows", [4, 8, 12, 24, 40, 512])
@pytest.mark.parametrize(("inputs", "outputs"), [(1280, 2048), (1280, 5120), (5120, 1280)])
def test_packed_equals_plain_at_the_released_widths(rows: int, inputs: int, outputs: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    weight = (torch.randn(outputs, inputs, generator=generator) * inputs**-0.5).bfloat16()
    bias = torch.randn(outputs, generator=generator).bfloat16()
    x = torch.randn(rows, inputs, generator=generator).bfloat16()
    expected = torch.nn.functional.linear(x, weight, bias)
    assert torch.equal(PackedLinear(weight, bias)(x), expected)


def test_every_linear_layer_is_packed() -> None:
    packed = pack(random_weights(small_config()).bfloat16())
    left = {name for name, m in packed.named_modules() if isinstance(m, torch.nn.Linear)}
    assert {name.split(".")[-2] for name in left} == {"ada"}, "which run once a session"


def test_other_dtypes_are_refused_and_left_alone() -> None:
    model = random_weights(small_config())
    with pytest.raises(PackError, match=r"bf16 on a CPU, this model is torch\.float32"):
        pack(model)
    assert not [m for m in model.modules() if isinstance(m, PackedLinear)]
