"""Where a live stream's samples come from: a file, or raw PCM on stdin.

n samples at 16 kHz.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase

import numpy as np
from jaxtyping import Float32

from vrt.audio import SAMPLE_RATE, AudioError, Pcm16Reader, StreamingResampler, read
from vrt.audio.containers import mp3_frame
from vrt.cli.files import pieces
from vrt.cli.interrupts import interrupts_held
from vrt.cli.options import STDIN
from vrt.cli.output import remark

Piece = Float32[np.ndarray, "n"]

# How files begin that people pipe in by mistake: their headers would be heard as noise, and their
# rate and coding are not those of raw PCM.
HEADERS = {b"RIFF": "wav", b"RF64": "wav", b"fLaC": "flac", b"OggS": "ogg", b"ID3": "mp3"}
HEAD = 4  # bytes
SAMPLE_BYTES = 2
WAY_OUT = "ffmpeg -i FILE -f s16le -ac 1 -ar 16000 - | vrt stream -"


@dataclass(frozen=True)
class Source:
    """Samples in feeds. `changes`: what is done to them on the way."""

    name: str
    pieces: Iterator[Piece]
    changes: tuple[str, ...] = ()


def open_source(source: str, rate: int | None, feed_ms: float) -> Source:
    """A file's samples, or those of stdin at `rate`, in feeds of `feed_ms`.

    Raises `AudioError`; what is wrong with a pipe may show only while its pieces are taken.
    """
    if source != STDIN:
        with interrupts_held():  # an exception inside a decoder's callback would be lost
            clip = read(source)
        return Source(source, pieces(clip.samples, _samples(feed_ms, SAMPLE_RATE)), clip.changes)
    rate = SAMPLE_RATE if rate is None else rate
    changes = () if rate == SAMPLE_RATE else (f"resampled {rate} -> {SAMPLE_RATE} Hz (soxr HQ)",)
    return Source("stdin", pcm(_stdin(), rate, _samples(feed_ms, rate)), changes)


def pcm(file: BufferedIOBase, rate: int, size: int) -> Iterator[Piece]:
    """Raw 16-bit little-endian mono PCM, `size` samples of its own rate at a time."""
    reader, resampler = Pcm16Reader(), StreamingResampler(rate)
    data = _first_bytes(file)
    while data:
        yield resampler.feed(reader.feed(data))
        data = file.read(2 * size)
    if reader.carried:
        remark("stdin ended inside a sample: its one byte is left out")
    yield resampler.finish()


def _stdin() -> BufferedIOBase:
    if sys.stdin is None:
        raise AudioError(f"stdin is closed; pipe PCM into it: {WAY_OUT}")
    if sys.stdin.isatty():
        raise AudioError(f"stdin is a terminal; pipe PCM into it: {WAY_OUT}")
    return sys.stdin.buffer


def _first_bytes(file: BufferedIOBase) -> bytes:
    """At least one sample, and not the beginning of an audio file."""
    data = file.read(HEAD)
    if len(data) < SAMPLE_BYTES:
        raise AudioError("stdin ended before the first sample; does the program before | run?")
    for start, kind in HEADERS.items():
        if data.startswith(start):
            raise _is_a_file(kind)
    frame_bytes, _ = mp3_frame(data)
    if frame_bytes:  # or a sample that looks like it: after a frame of mp3 there is another one
        data += file.read(frame_bytes)
        if mp3_frame(data[frame_bytes:])[0]:
            raise _is_a_file("mp3")
    return data


def _is_a_file(kind: str) -> AudioError:
    return AudioError(
        f"stdin holds a {kind} file, raw 16-bit mono PCM is taken; give the file's name, "
        f"or: {WAY_OUT}"
    )


def _samples(feed_ms: float, rate: int) -> int:
    return max(1, round(feed_ms * rate / 1000))
