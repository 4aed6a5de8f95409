"""The bench of exactness: zero where equal bits are claimed, and not zero where a mistake is."""

import pytest
import torch
from commands import run

from vrt.bench import exact, exact_rows, exact_table, reencode, reencode_table
from vrt.bench.exact import bursts, stream_differences
from vrt.bench.reencode import measured, released
from vrt.receipt import Receipt
from vrt.voxtral import layers
from vrt.voxtral.mel import LogMel

FEW = ((48, 96), (33, 7), (1032, 40), (2048, 1280))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_by_fours_are_equal_bits_and_a_single_row_is_not(dtype):
    found = exact_rows.linear_differences(dtype, FEW)
    assert found["multiples_of_4"] == 0.0
    assert 0 < found["one_row"] < (1e-4 if dtype == torch.float32 else 0.1)


def test_operations_that_depend_on_their_batch_and_those_that_do_not():
    attention, silu = exact_rows.attention_differences(2), exact_rows.silu_differences()
    assert attention["groups_a_call"] == silu["spelt_out"] == exact_rows.mel_difference(4) == 0.0
    assert 0 < attention["nine_masked_keys_more"] < 1e-5 and 0 < silu["torch"] < 1e-5
    assert 0 < exact_rows.conv1d_difference() < 1e-4


def test_angles_in_fp32_drift_with_the_clock():
    found = exact_rows.rotary_errors()
    fp32 = list(found["fp32_angles"].values())
    assert fp32 == sorted(fp32) and fp32[0] < 1e-4 and fp32[-1] > 5e-3
    assert max(found["engine"].values()) < 6.1e-8  # one rounding of a cosine


def test_a_stream_is_equal_and_a_mistake_is_seen(monkeypatch):
    monkeypatch.setattr(exact, "FEEDS", (333, 4096))
    found = stream_differences(torch.float32)
    stages = ("mel", "conv_stem", "encoder", "projector", "logits")
    assert [found[stage] for stage in stages] == [0.0] * 5
    assert found["unequal_tokens"] == 0 and found["tokens"] > 30
    right = layers.Rotary.table
    # Positions from 0 at every call: right offline, wrong in a stream.
    monkeypatch.setattr(
        layers.Rotary, "table", lambda self, start, count, like: right(self, 0, count, like)
    )
    assert stream_differences(torch.float32)["encoder"] > 1e-2


def mel(tokens):
    return LogMel()(torch.from_numpy(bursts(tokens * 0.08, level=0.5)))


@pytest.mark.parametrize("depth", [1, 3])
def test_the_field_is_enough_and_four_frames_less_are_not(depth):
    """More than 1e-5 apart is wrong; one window more than is needed is right at one layer only."""
    errors = {row["slice"]: row["largest_error"] for row in measured(depth, mel(40))}
    assert errors["field"] < 1e-5 < errors["field - 4"]
    assert errors["window + 10"] < 1e-5 if depth == 1 else errors["window + 10"] > 0.01


def test_attention_is_sharp_enough_to_tell(monkeypatch):
    """With soft attention the far past hardly shows."""
    sharp = measured(3, mel(40))[1]["largest_error"]
    monkeypatch.setattr(reencode, "SHARP", 0.01)
    assert measured(3, mel(40))[1]["largest_error"] < sharp / 2


def test_what_the_released_encoder_would_do_again():
    found = released()
    assert found["field_frames"] == 32 * 749 + 4 and found["times_the_linear_layers"] == 5993
    assert found["minutes"] == pytest.approx(7.99, abs=0.01)


def test_commands_write_receipts_and_print_their_tables(tmp_path, monkeypatch):
    few = lambda dtype: exact_rows.linear_differences(dtype, FEW)  # noqa: E731
    monkeypatch.setattr(exact, "linear_differences", few)
    monkeypatch.setattr(exact, "FEEDS", (4096,))
    monkeypatch.setattr(reencode, "LAYERS", (1,))
    monkeypatch.setattr(reencode, "TOKENS", 20)
    for name, table in (("exact", exact_table), ("reencode", reencode_table)):
        result = run("bench", name, "--output", tmp_path / "run.json")
        assert result.exit_code == 0, result.output
        shown = table(Receipt.load(tmp_path / "run.json")).splitlines()
        assert sorted(result.stdout.splitlines()) == sorted(shown) and len(shown) > 3
        assert run("bench", name, "--output", tmp_path).exit_code == 2
