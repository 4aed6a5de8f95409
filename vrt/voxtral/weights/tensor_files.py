"""Safetensors files of one checkpoint, memory-mapped: shapes first, numbers only when asked for.

A tensor that is asked for shares its memory with the file's pages: 8.9 GB of weights are not
copied, are shared between processes, and may be dropped and read again by the system.

Files align tensors to 8 bytes only, and fp32 products of MKL depend on alignment in their last bits
(2e-5 of a logit): two files of the same weights may differ so much. A stream and the offline path
over one model do not differ.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from vrt.voxtral.weights.config_files import CheckpointError, lfs_hint, read_json

LONGEST_NAME = 255  # bytes, of a file on every common system
SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.safetensors")


@dataclass(frozen=True, slots=True)
class Header:
    """A tensor as its file describes it; `dtype` in the format's words: F32, BF16, F16, I8, ..."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Tensors:
    """Named tensors of any origin: what they are, and how to get one."""

    headers: dict[str, Header]
    get: Callable[[str], Tensor]


def open_tensors(directory: Path, stem: str) -> Tensors:
    """The tensors of `stem`.safetensors, or of the shards that stand for it.

    Raises `CheckpointError` for missing shards, damaged files, and a name in two shards.
    """
    headers: dict[str, Header] = {}
    home: dict[str, Any] = {}
    for path in shards(directory, stem):
        file = _open(path)
        for name in file.keys():  # noqa: SIM118 (a safe_open handle is no dict)
            if name in home:
                raise CheckpointError(f"{directory}: {name} is in two shards; keep one set")
            part = file.get_slice(name)
            headers[name], home[name] = Header(tuple(part.get_shape()), part.get_dtype()), file
    return Tensors(headers, lambda name: home[name].get_tensor(name))


def shards(directory: Path, stem: str) -> list[Path]:
    """The files that hold the weights: one, those of an index, or STEM-0000N-of-0000M."""
    single, index = directory / f"{stem}.safetensors", directory / f"{stem}.safetensors.index.json"
    if single.is_file():
        return [single]
    if index.is_file():
        files = _indexed(index)
    else:
        found = [m for p in sorted(directory.iterdir()) if (m := SHARD.fullmatch(p.name))]
        counts = {int(m["count"]) for m in found if m["stem"] == stem}
        if not counts:
            raise CheckpointError(f"{directory} holds neither {single.name} nor {index.name}")
        if len(counts) > 1:
            raise CheckpointError(f"{directory} mixes shards of {sorted(counts)}; keep one set")
        (count,) = counts
        files = [f"{stem}-{n:05}-of-{count:05}.safetensors" for n in range(1, count + 1)]
    missing = [file for file in files if not (directory / file).is_file()]
    if missing:
        raise CheckpointError(
            f"{directory} lacks {len(missing)} of {len(files)} shards: {', '.join(missing[:4])};"
            " download them into the same folder"
        )
    return [directory / file for file in files]


def _indexed(index: Path) -> list[str]:
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise CheckpointError(f"{index} has no weight_map; download it again")
    files = sorted(set(map(str, places.values())))
    outside = [file for file in files if Path(file).name != file]
    if outside:
        raise CheckpointError(f"{index} names a file outside its folder: {outside[0][:80]}")
    long = [file for file in files if len(file.encode(errors="replace")) > LONGEST_NAME]
    if long:
        raise CheckpointError(f"{index} names a file of {len(long[0])} characters: {long[0][:80]}")
    return files


def _open(path: Path) -> Any:
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(path, framework="pt", device="cpu")
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} ({path.stat().st_size:,} bytes) is damaged or not complete ({error})"
            f"{lfs_hint(path) or '; download it again'}"
        ) from error
