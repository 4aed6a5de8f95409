"""Two answers to one problem, compared stage by stage under the format's tolerances."""

from os import PathLike
from pathlib import Path

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from vrt.golden.errors import GoldenError
from vrt.golden.format import Golden, kind, read
from vrt.golden.malsd_compare import compare_malsd
from vrt.golden.report import Divergence, Report, StageResult
from vrt.golden.stages import STAGES, time_axis, tolerance

SAME = (
    *("num_delay_tokens", "left_pad_tokens", "n_audio_tokens", "prompt_len"),
    *("bos", "streaming_pad", "eos", "vocab", "encoder", "decoder"),
)


def compare(expected: str | PathLike[str], got: str | PathLike[str]) -> Report:
    """Compare two files of one problem; `got` may be a dump and may hold any of the stages.

    Raises `GoldenError` for unreadable files, different problems, and no stage in common.
    """
    if kind(expected) == kind(got) == "malsd":
        return compare_malsd(expected, got)
    want, have = read(expected), read(got)
    _same_problem(want, have)
    if not want.expect.keys() & have.expect.keys():
        raise GoldenError(
            f"{have.path}: no stage in common with {want.path}; stages are named"
            f" expect.{STAGES[0]} and so on"
        )
    return against(Path(got).name, want.expect, have.expect, have.unknown)


def against(
    name: str,
    expected: dict[str, Tensor],
    got: dict[str, Tensor],
    unknown: tuple[str, ...] = (),
    stopped: str | None = None,
) -> Report:
    held = [stage for stage in STAGES if stage in expected or stage in got]
    results = tuple(compare_stage(stage, expected.get(stage), got.get(stage)) for stage in held)
    found = [result.first for result in results if result.first]
    return Report(name, results, min(found, key=_order, default=None), stopped, unknown)


def compare_stage(stage: str, expected: Tensor | None, got: Tensor | None) -> StageResult:
    """One stage. Where one file holds more positions than the other, the common ones first."""
    limit, axis = tolerance(stage), time_axis(stage)
    if expected is None or got is None:
        absent = "expected" if expected is None else "got"
        return StageResult(stage, tolerance=limit, absent=absent)
    if not _comparable(expected, got, axis):
        shapes = [f"shape {list(tensor.shape)}" for tensor in (got, expected)]
        return StageResult(stage, torch.inf, 1.0, limit, Divergence(stage, (), *shapes))
    both = min(expected.shape[axis], got.shape[axis])
    rest = abs(expected.shape[axis] - got.shape[axis])
    scale = _scale(expected)
    want, have = expected.narrow(axis, 0, both), got.narrow(axis, 0, both)
    error = _error(want, have)
    bad = error > 0 if limit is None else ~(error <= limit * scale)
    first = _first(stage, bad, want, have)
    if first is None and rest:
        lengths = [f"length {tensor.shape[axis]}" for tensor in (got, expected)]
        first = Divergence(stage, (both,), *lengths)
    if limit is None:
        return StageResult(stage, float(bad.sum()) + rest, first=first)
    worst = torch.inf if rest else float(error.max()) if error.numel() else 0.0
    return StageResult(stage, worst, scale, limit, first)


def _comparable(expected: Tensor, got: Tensor, axis: int) -> bool:
    """The same shape up to the length of the time axis."""
    shapes = [list(tensor.shape) for tensor in (expected, got)]
    if any(len(shape) <= axis for shape in shapes):
        return False
    want, have = (shape[:axis] + shape[axis + 1 :] for shape in shapes)
    return want == have


def _scale(expected: Tensor) -> float:
    """What a tolerance is relative to: the largest finite magnitude, at least 1."""
    finite = expected.double().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    return max(1.0, float(finite.abs().max())) if expected.numel() else 1.0


def _error(expected: Tensor, got: Tensor) -> Float64[Tensor, "..."]:
    """Absolute differences; NaN where a number is expected, and the reverse, are without bound."""
    error = (got.double() - expected.double()).abs()
    return torch.where(got == expected, 0.0, error).nan_to_num(nan=torch.inf)


def _first(
    stage: str, bad: Bool[Tensor, "..."], expected: Tensor, got: Tensor
) -> Divergence | None:
    """The earliest bad value: time first, then the other axis."""
    axis = time_axis(stage)
    where = bad.movedim(axis, 0).nonzero()
    if not len(where):
        return None
    time, *rest = where[0].tolist()
    rest.insert(axis, time)
    index = tuple(rest)
    return Divergence(stage, index, got[index].item(), expected[index].item())


def _order(divergence: Divergence) -> tuple[int, int, int]:
    """Where in the flow: by stage; rows of logits and the tokens chosen from them take turns."""
    stage, index = divergence.stage, divergence.index
    rank = STAGES.index(stage)
    if stage.endswith("_full_span"):
        return rank - 1, index[0] if index else 0, 1
    if stage.startswith("logits."):
        return rank, index[0] if index else 0, 0
    return rank, 0, 0


def _same_problem(expected: Golden, got: Golden) -> None:
    want, have = expected.about.to_json(), got.about.to_json()
    for key in SAME:
        if want[key] != have[key]:
            raise GoldenError(
                f"{got.path} is another problem than {expected.path}: {key} is {have[key]},"
                f" expected {want[key]}"
            )
