"""Golden files on disk: which kind a file is, and reading and writing the Voxtral kind.

n samples (16 kHz). A file holds audio, weights and `expect.*`; a dump holds `expect.*` only.
"""

import json
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int16
from torch import Tensor

from vrt.golden.errors import GoldenError
from vrt.golden.metadata import Metadata, parse
from vrt.golden.stages import STAGES, shape, tolerance
from vrt.voxtral.weights.names import names

AUDIO = "audio_i16"
WEIGHT = "weight."
EXPECT = "expect."
TOKEN_DTYPES = (torch.int64, torch.int32)
SHOWN = 4  # missing keys that an error lists
ADA_DIM_FROM = "model.language_model.layers.0.ada_rms_norm.linear1.weight"


@dataclass(frozen=True)
class Golden:
    """What a file holds: `expect` by stage, `weights` by the names transformers has in memory."""

    path: Path
    about: Metadata
    audio: Int16[Tensor, "n"] | None
    weights: dict[str, Tensor]
    expect: dict[str, Tensor]
    unknown: tuple[str, ...]  # keys that the format does not name


def kind(path: str | PathLike[str]) -> str:
    """`voxtral` (safetensors) or `malsd` (JSON), by content, then by the name's end."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise GoldenError(f"{path}: {error.strerror or error}") from error
    header = int.from_bytes(start[:8], "little")
    if start[8:9] == b"{" and 8 + header <= path.stat().st_size:
        return "voxtral"
    if start.lstrip().startswith(b"{"):
        return "malsd"
    by_name = {".safetensors": "voxtral", ".json": "malsd"}
    if path.suffix not in by_name:
        raise GoldenError(f"{path}: unknown kind: neither safetensors (voxtral) nor JSON (malsd)")
    return by_name[path.suffix]


def read(path: str | PathLike[str]) -> Golden:
    """A problem file or a dump, each tensor's dtype checked. Raises `GoldenError`."""
    path = Path(path)
    if kind(path) == "malsd":
        raise GoldenError(f"{path}: a malsd golden file (JSON), where a voxtral one is expected")
    tensors, about = _load(path)
    expect = {stage: tensors.pop(EXPECT + stage) for stage in STAGES if EXPECT + stage in tensors}
    audio = tensors.pop(AUDIO, None)
    weights = {k.removeprefix(WEIGHT): v for k, v in tensors.items() if k.startswith(WEIGHT)}
    if audio is not None:
        _check(path, AUDIO, audio, (torch.int16,), 1)
    for name, weight in weights.items():
        _check(path, WEIGHT + name, weight, (torch.float32,))
    for stage, values in expect.items():
        whole = tolerance(stage) is None
        _check(path, EXPECT + stage, values, TOKEN_DTYPES if whole else (torch.float32,))
    unknown = tuple(sorted(key for key in tensors if not key.startswith(WEIGHT)))
    try:
        about = _with_ada_dim(about, weights)
    except ValueError as error:
        raise GoldenError(f"{path}: {ADA_DIM_FROM}: {error}") from error
    return Golden(path, about, audio, weights, expect, unknown)


def check_finite(golden: Golden) -> None:
    """Raise `GoldenError` for an expected value that is no number: nothing could be near it."""
    for stage, values in golden.expect.items():
        odd = (~values.isfinite()).nonzero()
        if len(odd):
            index = odd[0].tolist()
            raise GoldenError(
                f"{golden.path}: {EXPECT}{stage} is {values[tuple(index)]} at {index}; an expected"
                " value must be finite"
            )


def read_problem(path: str | PathLike[str]) -> Golden:
    """A complete file: audio, weights, and every stage in the format's shape."""
    golden = read(path)
    about = golden.about
    missing = _missing(golden)
    if missing or golden.audio is None:
        more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        raise GoldenError(
            f"{golden.path}: lacks {', '.join(missing[:SHOWN])}{more}; `check` needs a complete"
            " file, `compare` takes a dump"
        )
    positions = about.schedule.positions(len(golden.audio))
    if positions != about.n_audio_tokens:
        raise GoldenError(
            f"{golden.path}: metadata n_audio_tokens is {about.n_audio_tokens}, but"
            f" {len(golden.audio)} samples make {positions}"
        )
    for stage, values in golden.expect.items():
        wanted = shape(stage, about)
        if wanted is not None and tuple(values.shape) != wanted:
            raise GoldenError(
                f"{golden.path}: {EXPECT}{stage} has shape {list(values.shape)}, the format has"
                f" {list(wanted)}"
            )
    check_finite(golden)
    return golden


def write(
    path: str | PathLike[str],
    about: Metadata,
    expect: dict[str, Tensor],
    audio: Int16[Tensor, "n"] | None = None,
    weights: dict[str, Tensor] | None = None,
) -> None:
    """A problem file, or a dump where audio and weights are left out."""
    from safetensors.torch import save_file

    tensors = {EXPECT + stage: values for stage, values in expect.items()}
    tensors |= {WEIGHT + name: weight for name, weight in (weights or {}).items()}
    if audio is not None:
        tensors[AUDIO] = audio
    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(contiguous, path, metadata={"json": json.dumps(about.to_json())})


def _missing(golden: Golden) -> list[str]:
    """Keys of a complete file that this one lacks."""
    audio = [AUDIO] if golden.audio is None else []
    weights = [name.hf for name in names(golden.about.config) if name.hf not in golden.weights]
    stages = [stage for stage in STAGES if stage not in golden.expect]
    return [*audio, *(WEIGHT + name for name in weights), *(EXPECT + stage for stage in stages)]


def _load(path: Path) -> tuple[dict[str, Tensor], Metadata]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            notes = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise GoldenError(f"{path}: truncated, or not safetensors ({error})") from error
    if "json" not in notes:
        raise GoldenError(
            f"{path}: no metadata key `json`, so not a golden file of kind voxtral; a dump carries"
            " the metadata of the file that it answers: copy it"
        )
    try:
        found: Any = json.loads(notes["json"])
    except (ValueError, RecursionError) as error:
        raise GoldenError(f"{path}: the metadata `json` is not JSON ({error})") from error
    return tensors, parse(found, str(path))


def _check(
    path: Path, key: str, tensor: Tensor, dtypes: tuple[torch.dtype, ...], axes: int | None = None
) -> None:
    if tensor.dtype not in dtypes:
        found, wanted = (str(d).removeprefix("torch.") for d in (tensor.dtype, dtypes[0]))
        raise GoldenError(f"{path}: {key} is {found}, the format has {wanted}")
    if axes is not None and tensor.ndim != axes:
        raise GoldenError(f"{path}: {key} has shape {list(tensor.shape)}, must have {axes} axis")


def _with_ada_dim(about: Metadata, weights: dict[str, Tensor]) -> Metadata:
    """The metadata does not name the delay MLP's hidden width: its first weight shows it."""
    first = weights.get(ADA_DIM_FROM)
    if first is None or first.ndim != 2:
        return about
    decoder = replace(about.config.decoder, ada_dim=len(first))
    return replace(about, config=replace(about.config, decoder=decoder))
