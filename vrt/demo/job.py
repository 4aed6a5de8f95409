"""`vrt demo`: stream a recording, show each stage, prove it exact, leave receipt and picture."""

import os
import platform
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from io import TextIOBase
from pathlib import Path

import numpy as np
import torch

from vrt.audio import Clip, read
from vrt.demo import parity, picture, words
from vrt.demo.record import DEFAULTS, Settings, numbers_of, said
from vrt.demo.screen import printable, screen_for
from vrt.demo.stream import Streamed, stream, text_of
from vrt.paths import data_dir
from vrt.receipt import Receipt, digest
from vrt.voxtral.measure import stage_table
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.weights import load

COLUMNS = 96
INSTALL = "pip install 'vrt[plot]'"


def run(
    output: str | os.PathLike[str] = "vrt-demo",
    out: TextIOBase | None = None,
    settings: Settings = DEFAULTS,
) -> int:
    """Print the demo to `out` (stdout) and leave `receipt.json` and `stream.png` in `output`.

    Returns an exit status: 1 where a stream differed from the whole clip, by more than rounding
    where this kind of machine is not known to be exact.
    """
    out = sys.stdout if out is None else out
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    with one_thread():
        return _run(folder, out, settings)


@contextmanager
def one_thread() -> Iterator[None]:
    """A model this small gains nothing from more, and its times then mean one core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _run(folder: Path, out: TextIOBase, settings: Settings) -> int:
    receipt = Receipt.begin(asdict(settings))
    print("vrt demo, 1: speech to text as it comes in\n", file=out)
    heard = words.hear_all(settings.words, settings.heard, out)
    model, clip = load(settings.model), read(data_dir() / settings.recording)
    _introduce(model, clip, settings, out)
    screen = screen_for(clip.seconds, out)
    try:
        streamed = stream(model, clip, settings.delay_ms, settings.feed, screen)
    finally:
        screen.close()
    _show(streamed, model, clip, out)
    found = parity.check(model, clip, settings.delay_ms, settings.checked_feeds)
    _judge(found, out)
    numbers = numbers_of(streamed, found, clip, settings) | {"heard": words.rows(heard)}
    digests = {
        settings.recording: digest(data_dir() / settings.recording),
        "samples": digest(clip.samples),
        "weights": digest(model.state_dict()),
        "tokens": digest(np.array(streamed.transcript.ids)),
    }
    receipt.end(numbers, digests).write(folder / "receipt.json")
    try:
        picture.draw(numbers, folder / "stream.png")
        drawn = f"{folder / 'stream.png'}: when each token came, and what each stage cost"
    except ModuleNotFoundError as error:
        drawn = f"{INSTALL}: then the demo leaves a picture too ({error.name} is not installed)"
    _end(folder, drawn, out)
    return 0 if found.holds else 1


def _introduce(model: VoxtralRealtime, clip: Clip, settings: Settings, out: TextIOBase) -> None:
    weights = sum(parameter.numel() for parameter in model.parameters())
    about = {
        "recording": f"{Path(settings.recording).name}, {clip.seconds:.2f} s:"
        f' "{said(settings.recording)}"',
        "model": f"{settings.model}, {weights:,} weights that are fixed random numbers:"
        " THE WORDS BELOW MEAN NOTHING. What is real: the audio, the schedule, what each stage"
        " remembers, and that the stream is exact.",
        "stream": f"{settings.feed} samples (80 ms) a feed, {settings.delay_ms} ms of delay,"
        f" {model.device}, one thread",
    }
    print("vrt demo, 2: each stage of Voxtral Realtime, and that a stream is exact\n", file=out)
    for name, text in about.items():
        print(_wrapped(f"{name:<11}{text}", 11), file=out)
    print(file=out, flush=True)


def _show(streamed: Streamed, model: VoxtralRealtime, clip: Clip, out: TextIOBase) -> None:
    text = printable(text_of(streamed.transcript, model), getattr(out, "encoding", None))
    factor = streamed.work_seconds / clip.seconds
    lines = (
        _wrapped(f"{'text':<11}{text}", 11),
        "",
        "what each stage takes in, gives out, remembers and costs; milliseconds per token of 80 ms",
        stage_table.render(streamed.table),
        f"{clip.seconds:.2f} s of audio in {streamed.work_seconds:.2f} s of work: real-time factor"
        f" {factor:.3f}; first token after {streamed.emitted[0]:.2f} s of audio",
        "",
    )
    print(*lines, sep="\n", file=out, flush=True)


def _judge(found: parity.Parity, out: TextIOBase) -> None:
    print(
        "stream against whole clip (one call a stage, then token by token): largest absolute"
        " difference",
        file=out,
    )
    print(parity.render(found), file=out)
    if found.exact:
        print("equal: every number of every stage, bit for bit, at every feed size\n", file=out)
        return
    if found.holds:
        verdict = (
            "equal tokens; the numbers differ by rounding: the matrix products of this machine"
            f" ({platform.machine()}) depend on how many rows they are given. Bit for bit is shown"
            " for x86-64."
        )
        print(_wrapped(verdict, 0) + "\n", file=out)
        return
    verdict = (
        "NOT EQUAL: stream != offline. With equal tokens and differences near 1e-6, the matrix"
        " products of this machine round by the number of rows; anything else is a fault. Please"
        " report it with receipt.json."
    )
    print(_wrapped(verdict, 0) + "\n", file=out)


def _end(folder: Path, drawn: str, out: TextIOBase) -> None:
    lines = (
        f"{folder / 'receipt.json'}: settings, versions, device, digests, and all numbers above",
        drawn,
        "",
        "next:" if shutil.which("vrt") else "next, after `source .venv/bin/activate`:",
        "  vrt stream YOUR.wav --realtime          your own recording, at the pace of the speaker",
        "  vrt decode YOUR.wav --n-best 4          spoken digits, with the beam's other readings",
        "  vrt transcribe YOUR.wav --model FOLDER  a released checkpoint: words with a meaning",
        "  vrt --help                              everything else",
    )
    print(*lines, sep="\n", file=out, flush=True)


def _wrapped(text: str, indent: int) -> str:
    return textwrap.fill(text, COLUMNS, subsequent_indent=" " * indent, break_on_hyphens=False)
