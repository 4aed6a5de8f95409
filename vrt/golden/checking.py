"""vrt against golden files: its own engine answers the problem, the file's answer judges it."""

from os import PathLike
from pathlib import Path

import torch

from vrt import __version__
from vrt.golden.comparing import against
from vrt.golden.engine import Answer, answer
from vrt.golden.errors import GoldenError
from vrt.golden.feed import DEFAULT_FEED
from vrt.golden.format import Golden, kind, read_problem, write
from vrt.golden.malsd_check import check_malsd
from vrt.golden.metadata import Metadata
from vrt.golden.report import Report
from vrt.voxtral.weights import from_tensors
from vrt.voxtral.weights.config_files import CheckpointError


def check(
    path: str | PathLike[str],
    feed: int | str = DEFAULT_FEED,
    dump: str | PathLike[str] | None = None,
) -> Report:
    """Compare vrt with the file's expectations; the stream gets the audio in pieces of `feed`.

    `feed`: samples, or `random:SEED`. `dump`: a folder, made if needed, that gets what vrt
    computed, under the file's name. Raises `GoldenError` for a file that is no complete problem.
    """
    if kind(path) == "malsd":
        return check_malsd(path, dump)
    golden = read_problem(path)
    found = solve(golden, feed)
    if dump is not None:
        _dump(golden, found, feed, Path(dump))
    return against(golden.path.name, golden.expect, found.stages, golden.unknown, found.stopped)


def solve(golden: Golden, feed: int | str = DEFAULT_FEED) -> Answer:
    """vrt's answer to a complete problem."""
    assert golden.audio is not None
    try:
        model = from_tensors(golden.about.config, golden.weights)
    except CheckpointError as error:
        raise GoldenError(f"{golden.path}: {_one_line(error)}") from error
    samples = (golden.audio.to(torch.float32) / 2**15).numpy()
    return answer(model, golden.about, samples, feed)


def produced_by_vrt(about: Metadata, feed: int | str) -> Metadata:
    """The same problem's metadata, with vrt named as the one who answered."""
    oracle = {"name": "vrt", "vrt": __version__, "torch": torch.__version__, "feed": str(feed)}
    return Metadata(
        about.name, about.num_delay_tokens, about.n_audio_tokens, about.config, {"oracle": oracle}
    )


def _one_line(error: CheckpointError) -> str:
    """All that is wrong with the tensors, for a report of one line a file."""
    first, *rest = str(error).removeprefix("from_tensors: ").splitlines()
    return ": ".join([first, "; ".join(line.strip() for line in rest)] if rest else [first])


def _dump(golden: Golden, found: Answer, feed: int | str, folder: Path) -> None:
    target = folder / golden.path.name
    if target.resolve() == golden.path.resolve():
        raise GoldenError(f"--dump {folder} would overwrite {golden.path}; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    write(target, produced_by_vrt(golden.about, feed), found.stages)
