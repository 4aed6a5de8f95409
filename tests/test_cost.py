"""The estimate before a long run: the specification's numbers at the released size, and ours."""

import pytest
import torch

import vrt
from vrt.voxtral.config import VoxtralConfig
from vrt.voxtral.measure.cost import cost
from vrt.voxtral.measure.speed import Speed, measure_speed, torch_threads
from vrt.voxtral.session import StreamingSession

GB = 1e9


@pytest.fixture(scope="module")
def released():
    return cost(VoxtralConfig(), torch.bfloat16)


def test_released_size_is_that_of_the_specification(released) -> None:
    weights = released.weight_bytes
    assert round(weights["encoder"] / GB, 2) == 1.93
    assert round(weights["decoder"] / GB, 2) == 6.87
    assert round(sum(weights.values()) / GB, 2) == 8.86  # of the released file
    assert sum(released.parameters.values()) == sum(weights.values()) // 2
    reads = released.reads()
    assert round(reads.encoder_keys_values / GB, 2) == 0.20
    assert round(reads.decoder_keys_values / GB, 2) == 0.87
    # without 10 MB of delay conditioning, which is computed once a session
    assert weights["decoder"] - reads.decoder_weights == 2 * 26 * 3072 * 32 * 2


def test_floor_at_the_specifications_bandwidth(released) -> None:
    """69 ms for the encoder's chunk and 223 ms for the decoder's step at 30.8 GB/s."""
    speed = Speed(1, read=30.8 * GB, linear=15.4 * GB)
    reads = released.reads(context=38)
    encoder = (released.weight_bytes["encoder"] + reads.encoder_keys_values) / speed.read
    assert round(1000 * encoder) == 69
    assert round(1000 * reads.decoder_weights / speed.read) == 223
    found = released.estimate(speed, context=38)
    assert found.floor_ms == pytest.approx(1000 * reads.total / speed.read)
    assert found.expected_ms - found.floor_ms == pytest.approx(1000 * reads.weights / speed.read)
    assert found.real_time_factor > found.best_real_time_factor > 3


def test_larger_feeds_read_the_encoder_less_often(released) -> None:
    one, six = released.reads(tokens_per_feed=1), released.reads(tokens_per_feed=6)
    assert six.encoder_weights == one.encoder_weights // 6
    assert six.decoder_weights == one.decoder_weights
    assert six.keys_values == one.keys_values


def test_context_grows_to_the_window_and_no_further(released) -> None:
    first, full = released.reads(context=0), released.reads(context=8191)
    assert full.decoder_keys_values == 8192 * first.decoder_keys_values
    assert released.reads(context=10**6) == full == released.reads()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_loaded_model_has_the_estimated_bytes(dtype: torch.dtype) -> None:
    model = vrt.load("random-tiny", dtype=dtype)
    found = cost(model.config, dtype)
    assert sum(found.weight_bytes.values()) == sum(w.nbytes for w in model.parameters())
    remembered = StreamingSession(model).state_bytes
    assert {stage: remembered[stage] for stage in found.state_bytes} == found.state_bytes


def test_speed_is_measured_and_leaves_the_threads_alone() -> None:
    before = torch.get_num_threads()
    for dtype in (torch.bfloat16, torch.float32, torch.float16):
        speed = measure_speed(dtype, threads=2, buffer_bytes=64 << 20)
        assert speed.threads == 2
        # No machine reads memory at less than 10 MB/s or more than 10 TB/s.
        assert 1e7 < speed.linear < 1e13 and 1e7 < speed.read < 1e13
    assert torch.get_num_threads() == before
    with pytest.raises(ZeroDivisionError), torch_threads(2):
        raise ZeroDivisionError
    assert torch.get_num_threads() == before
