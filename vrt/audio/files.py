"""Audio files become clips: mono float32 at 16 kHz, with a record of what was done to make them so.

Axes: n sample frames at the file's rate, c channels.
"""

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float32

from vrt.audio.containers import audit
from vrt.audio.resampling import resample
from vrt.audio.samples import SAMPLE_RATE, AudioError, Samples, check_values

if TYPE_CHECKING:
    from soundfile import SoundFile

BLOCK = 2**20  # sample frames decoded at a time
LENGTH_UNKNOWN = 2**62  # frames; libsndfile answers 2^63 - 1 where a header gives no length
CONTAINERS = ("WAV", "WAVEX", "RF64", "FLAC", "OGG", "MP3")
CONVERT = "convert it first: ffmpeg -i IN -ac 1 -ar 16000 OUT.wav"


@dataclass(frozen=True, eq=False)
class Clip:
    """A file as the engines take it: mono, 16 kHz, with what was done to make it so."""

    samples: Samples
    source: str
    original_rate: int  # Hz
    original_channels: int
    format: str  # libsndfile's name of the container, as WAV
    subtype: str  # and of the coding of a sample, as PCM_16
    changes: tuple[str, ...]

    @property
    def seconds(self) -> float:
        return len(self.samples) / SAMPLE_RATE

    def describe(self) -> dict[str, Any]:
        """For a receipt: plain values, the file's name without its folder."""
        return {
            "source": Path(self.source).name,
            "seconds": self.seconds,
            "samples": len(self.samples),
            "rate_hz": SAMPLE_RATE,
            "original_rate_hz": self.original_rate,
            "original_channels": self.original_channels,
            "format": self.format,
            "subtype": self.subtype,
            "changes": list(self.changes),
        }


def read(path_or_file: str | os.PathLike[str] | io.IOBase) -> Clip:
    """Read a wav (every coding libsndfile knows), flac, ogg or mp3 file from its beginning.

    Channels are averaged and other rates resampled (soxr HQ); `Clip.changes` says so.
    Integer samples are divided by their full scale; float samples are taken as they are.

    Raises `AudioError` for a missing file, a directory, a file that is no audio or another kind of
    audio, one that is truncated or holds no samples, and for samples that are NaN, infinite or
    above `MAX_LEVEL`. What shows a cut: wav, the bytes its header promises; flac, its decoder;
    ogg, the mark of the last page; mp3, its length header, or a last frame that is not whole.
    An mp3 without a length header that was cut between two frames looks whole.
    """
    if hasattr(path_or_file, "read"):
        name = getattr(path_or_file, "name", None)
        label = name if isinstance(name, str) else f"<{type(path_or_file).__name__}>"
        return _read_open(path_or_file, label)
    path = Path(path_or_file)
    if path.is_dir():
        raise AudioError(f"{path} is a directory; name one audio file in it")
    try:
        with path.open("rb") as file:
            return _read_open(file, str(path))
    except OSError as error:
        raise AudioError(f"{path} cannot be opened: {error.strerror}") from error


def _read_open(file: io.IOBase, name: str) -> Clip:
    _check_file(file, name)
    frames, rate, container, subtype, notes = _decode(file, name)
    check_values(frames, name)
    channels = frames.shape[1]
    samples = frames[:, 0] if channels == 1 else frames.mean(axis=1, dtype=np.float32)
    if channels > 1:
        notes.append(f"mixed {channels} channels to mono (mean)")
    if rate != SAMPLE_RATE:
        samples = resample(samples, rate)
        notes.append(f"resampled {rate} -> {SAMPLE_RATE} Hz (soxr HQ)")
    if not len(samples):
        raise AudioError(f"{name} holds {len(frames)} samples at {rate} Hz: not one at 16 kHz")
    samples = np.ascontiguousarray(samples)
    return Clip(samples, name, rate, channels, container, subtype, tuple(notes))


def _check_file(file: io.IOBase, name: str) -> None:
    if not file.seekable():
        raise AudioError(f"{name} cannot be rewound; read it into io.BytesIO first")
    file.seek(0)
    head = file.read(1)
    if isinstance(head, str):
        raise AudioError(f"{name} is open as text; open it with mode 'rb'")
    if not head:
        raise AudioError(f"{name} is empty (0 bytes)")
    file.seek(0)


def _decode(
    file: io.IOBase, name: str
) -> tuple[Float32[np.ndarray, "n c"], int, str, str, list[str]]:
    """Sample frames, rate in Hz, container, coding and notes; the file is whole or refused."""
    import soundfile

    if name.lower().endswith(".raw"):  # soundfile would ask for a rate and a coding
        raise AudioError(f"{name}: raw PCM has no header; feed 16 kHz int16 through Pcm16Reader")
    try:
        sound = soundfile.SoundFile(file)
    except soundfile.LibsndfileError as error:
        reason = error.error_string
        raise AudioError(f"{name} is not audio ({reason}); if it is, {CONVERT}") from error
    with sound:
        if sound.format not in CONTAINERS:
            raise AudioError(f"{name} is {sound.format}, not wav, flac, ogg or mp3; {CONVERT}")
        if sound.frames >= LENGTH_UNKNOWN:
            raise AudioError(f"{name}: its {sound.format} header gives no length; {CONVERT}")
        position = file.tell()
        verdict = audit(file, sound.format, sound.frames)
        file.seek(position)
        if verdict.fault:
            raise AudioError(f"{name}: {verdict.fault}")
        if sound.frames == 0:
            raise AudioError(f"{name} holds 0 samples; a recorder that was stopped hard leaves 0")
        promised = f"its header promises {sound.frames} frames"
        try:
            frames = _decode_frames(sound)
        except soundfile.LibsndfileError as error:
            reason = f"{promised}, the decoder fails before the last one"
            raise AudioError(f"{name}: truncated or damaged: {reason}") from error
        if len(frames) < sound.frames:
            raise AudioError(f"{name}: truncated: {promised}, the file holds {len(frames)}")
        notes = [verdict.note] if verdict.note else []
        return frames, sound.samplerate, sound.format, sound.subtype, notes


def _decode_frames(sound: "SoundFile") -> Float32[np.ndarray, "n c"]:
    """All that is there: memory is taken for what was decoded, not for what a header promises.

    An mp3 is decoded in one go, because soundfile seeks after every block and an mp3 decoder that
    seeks comes back with other samples; `audit` has held its length against its bytes.
    """
    size = sound.frames if sound.format == "MP3" else BLOCK
    blocks = [sound.read(size, dtype="float32", always_2d=True)]
    while len(blocks[-1]) == size:
        blocks.append(sound.read(size, dtype="float32", always_2d=True))
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
