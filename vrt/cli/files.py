"""Audio files through a stream each, with a progress bar and one complaint a bad file.

S samples at 16 kHz.
"""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from jaxtyping import Float32
from numpy import ndarray
from tqdm import tqdm

from vrt.audio import AudioError, Clip, read
from vrt.cli.documents import Result, render
from vrt.cli.failures import complain, explain
from vrt.cli.interrupts import hear_no_more, interrupts_held
from vrt.cli.models import OpenModel
from vrt.cli.options import Format
from vrt.cli.output import as_line, printable, remark, shown
from vrt.voxtral.config import SAMPLE_RATE, SAMPLES_PER_TOKEN
from vrt.voxtral.greedy import ModelOutputError
from vrt.voxtral.session import StreamingSession

# 2.56 s: the encoder's weights are read once for 32 tokens, and the bar still moves.
FEED = 32 * SAMPLES_PER_TOKEN  # samples
BAR = "{desc}: {percentage:3.0f}% |{bar}| {n:.1f} of {total:.1f} s of audio [{elapsed}{postfix}]"


def transcribe_files(
    model: OpenModel,
    files: Sequence[Path],
    delay_ms: int | None,
    format: Format,
    output: Path | None,
) -> int:
    """Transcribe and deliver one file after another; returns how many of them failed."""
    model.check_format(format)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    session = StreamingSession(model.weights, delay_ms)
    failed = 0
    for file in files:
        try:
            result = transcribe_file(model, session, file)
            if output is not None and not result.interrupted:
                _write(result, format, output)
                continue
        except BrokenPipeError:  # no fault of this file
            raise
        except (AudioError, OSError, ModelOutputError) as error:
            reason = _named(file, error)
            complain(reason)
            if format is Format.JSON and output is None:
                print(as_line({"file": str(file), "error": reason}), flush=True)
            failed += 1
            continue
        _print(result, format, label=len(files) > 1)
        if result.interrupted:
            raise KeyboardInterrupt
    return failed


def transcribe_file(model: OpenModel, session: StreamingSession, file: Path) -> Result:
    """One file through `session`, from its beginning; stopped by Ctrl-C, the text so far."""
    with interrupts_held():  # an exception inside a decoder's callback would be lost
        clip = read(file)
    for change in clip.changes:
        remark(f"{file}: {change}")
    start, interrupted = time.perf_counter(), False
    session.reset()
    try:
        _feed(session, clip, file.name)
    except KeyboardInterrupt:
        hear_no_more()
        interrupted = True
    return Result(
        source=str(file),
        model=model.name,
        delay_ms=session.delay_ms,
        transcript=session.transcript,
        has_text=model.has_text,
        audio_seconds=clip.seconds,
        seconds=time.perf_counter() - start,
        changes=clip.changes,
        interrupted=interrupted,
    )


def _feed(session: StreamingSession, clip: Clip, name: str) -> None:
    start = time.perf_counter()
    with tqdm(total=clip.seconds, desc=printable(name), bar_format=BAR, disable=None) as bar:
        session.begin()
        for piece in pieces(clip.samples, FEED):
            session.feed(piece)
            bar.update(len(piece) / SAMPLE_RATE)
            factor = (time.perf_counter() - start) / bar.n if bar.n else 0.0
            bar.set_postfix_str(f"real-time factor {factor:.3g}")
        session.finalize()


def pieces(samples: Float32[ndarray, "S"], size: int) -> Iterator[Float32[ndarray, "n"]]:
    """Views of `samples`, `size` at a time, the last one shorter."""
    return (samples[start : start + size] for start in range(0, len(samples), size))


def _write(result: Result, format: Format, folder: Path) -> None:
    """A reader of the folder never sees half a file."""
    target = folder / f"{Path(result.source).stem}{format.suffix}"
    beside = folder / f".vrt-{os.getpid()}"
    try:
        # a file name that is no UTF-8 comes with escapes, as on stdout
        beside.write_text(render(result, format), encoding="utf-8", errors="backslashreplace")
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    remark(f"{result.source} -> {target}")


def _print(result: Result, format: Format, label: bool) -> None:
    prefix = f"{result.source}: " if label and format is Format.TEXT else ""
    print(shown(prefix + render(result, format)), end="", flush=True)


def _named(file: Path, error: Exception) -> str:
    reason = explain(error) or str(error)
    return reason if str(file) in reason else f"{file}: {reason}"
