"""Two answers to one problem, compared stage by stage under the format's tolerances."""

import math
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from vrt.golden.errors import GoldenError
from vrt.golden.format import AUDIO, WEIGHT, Golden, check_finite, kind, read
from vrt.golden.malsd_compare import compare_malsd
from vrt.golden.report import Divergence, Report, StageResult
from vrt.golden.stages import STAGES, time_axis, tolerance

SAME = (
    *("num_delay_tokens", "left_pad_tokens", "n_audio_tokens", "prompt_len"),
    *("bos", "streaming_pad", "eos", "vocab"),
)
FP32 = 2.0**-23  # relative: a port may hold theta and eps in fp32
# Of a weight: another machine's math library may round the last bit of a random number otherwise.
LAST_BITS = {"rtol": 1e-6, "atol": 1e-7, "equal_nan": True}


def compare(expected: str | PathLike[str], got: str | PathLike[str]) -> Report:
    """Compare two files of one problem; `got` may be a dump and may hold any of the stages.

    Raises `GoldenError` for unreadable files, different problems, no stage in common, and
    expected values that are not finite.
    """
    if kind(expected) == kind(got) == "malsd":
        return compare_malsd(expected, got)
    want, have = read(expected), read(got)
    _same_problem(want, have)
    check_finite(want)
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
    bad = want != have if limit is None else ~(error <= limit * scale)
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
    """Absolute differences; NaN and Inf are without bound, whatever is expected."""
    return (got.double() - expected.double()).abs().nan_to_num(nan=torch.inf)


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
    """Settings, then audio and weights where both files hold them: a dump holds neither."""
    for difference in _differences(expected, got):
        raise GoldenError(f"{got.path} is another problem than {expected.path}: {difference}")


def _differences(expected: Golden, got: Golden) -> Iterator[str]:
    want, have = _settings(expected), _settings(got)
    for key in want:
        if not _same_setting(want[key], have[key]):
            yield f"{key} is {have[key]}, expected {want[key]}"
    both_heard = expected.audio is not None and got.audio is not None
    if both_heard and not torch.equal(expected.audio, got.audio):
        yield f"{AUDIO} differs"
    for name in sorted(expected.weights.keys() & got.weights.keys()):
        want_weight, have_weight = expected.weights[name], got.weights[name]
        same_shape = want_weight.shape == have_weight.shape
        if not same_shape or not torch.allclose(have_weight, want_weight, **LAST_BITS):
            yield f"{WEIGHT}{name} differs"


def _settings(golden: Golden) -> dict[str, Any]:
    """The metadata that make the problem, sizes by `encoder.W` and so on."""
    about = golden.about.to_json()
    sizes = {f"{s}.{key}": v for s in ("encoder", "decoder") for key, v in about[s].items()}
    return {key: about[key] for key in SAME} | sizes


def _same_setting(expected: Any, got: Any) -> bool:
    if isinstance(expected, float) and isinstance(got, float):
        return math.isclose(expected, got, rel_tol=FP32)
    return expected == got
