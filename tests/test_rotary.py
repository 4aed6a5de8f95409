"""Rotary angles that hold for days, and what the reference's fp32 angles are by then."""

import pytest
import torch

from vrt.voxtral.layers import Rotary, rotate

ROTARY = Rotary(1e6, 64)
FRAMES_PER_HOUR = 50 * 3600


def like() -> torch.Tensor:
    return torch.empty(0)


def reference_table(position: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Position times frequency in fp32, as transformers has it."""
    angles = torch.tensor([float(position)])[:, None] * ROTARY.inv_freq
    return angles.cos(), angles.sin()


def error(position: int, table: tuple[torch.Tensor, torch.Tensor]) -> float:
    angles = position * ROTARY.inv_freq.double()
    exact = angles.cos(), angles.sin()
    return max(
        (got[0].double() - want).abs().max().item() for got, want in zip(table, exact, strict=True)
    )


@pytest.mark.parametrize("hours", [0, 1, 3, 24, 24 * 30])
def test_angles_are_right_after_days(hours: int) -> None:
    """To one fp32 rounding of a cosine, at any hour."""
    position = hours * FRAMES_PER_HOUR + 999
    assert error(position, ROTARY.table(position, 1, like())) < 6.1e-8


def test_what_differs_from_the_reference_at_hour_three() -> None:
    """An encoder frame at hour three has position 540,000, whose fp32 spacing is 0.03 rad for the
    frequencies just below 1: the reference's cosines are off by up to half of that (measured
    1.5e-2), and by 1.9e-6 in the first 64 frames. Queries and keys share most of that error only
    while their positions share their exponent, so attention drifts with the clock.
    """
    three_hours = range(3 * FRAMES_PER_HOUR, 3 * FRAMES_PER_HOUR + 750, 10)
    drift = max(error(p, reference_table(p)) for p in three_hours)
    assert 5e-3 < drift < 4e-2
    assert max(error(p, reference_table(p)) for p in range(64)) < 4e-6
    assert max(error(p, ROTARY.table(p, 1, like())) for p in three_hours) < 6.1e-8


@pytest.mark.parametrize("start", [0, 131_060, 540_000, 10**8])
def test_only_differences_of_positions_matter(start: int) -> None:
    """q . k after rotation depends on their distance: measured 6e-7, where terms add up to 37."""
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 64, generator=generator)
    near = rotate(q, *ROTARY.table(700, 1, q)) * rotate(k, *ROTARY.table(3, 1, k))
    far = rotate(q, *ROTARY.table(start + 700, 1, q)) * rotate(k, *ROTARY.table(start + 3, 1, k))
    assert abs(near.sum() - far.sum()) < 2e-6 * max(1, near.abs().sum())


def test_the_table_is_rounded_to_fp32_before_bf16() -> None:
    cos, sin = ROTARY.table(5, 3, torch.empty(0, dtype=torch.bfloat16))
    wide = ROTARY.table(5, 3, like())
    assert cos.dtype == torch.bfloat16 and torch.equal(cos, wide[0].to(torch.bfloat16))
    assert torch.equal(sin, wide[1].to(torch.bfloat16))
