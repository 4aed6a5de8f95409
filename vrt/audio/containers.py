"""Does an audio file hold the samples that its own header promises?

Decoders hand out what is there: libsndfile reads the half of a wav that arrived and reports no
error, and it guesses the length of an mp3 without a length header from the first frame's bit rate.
These checks read the container itself and answer with a `Verdict`.
"""

import io
import struct
from dataclasses import dataclass

# A program that writes a wav into a pipe cannot go back to fill in the size. ffmpeg leaves
# 0xFFFFFFFF there, sox 0x7FFFF000, others 2^31 - 1 less the header.
UNKNOWN_SIZE = 0x7FFF_0000  # bytes, and above
OGG_PAGE_MAX = 65_307  # bytes: 27 of header, 255 lacing values, 255 segments of 255
OGG_LAST_PAGE = 0x04

MPEG1_KBPS = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
MPEG2_KBPS = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
MPEG1_RATES = (44_100, 48_000, 32_000)  # Hz; halved in MPEG-2, quartered in MPEG-2.5
# The encoder's delay and the padding of the last frame are cut off in decoding, and the frame
# that carries the length holds no sound: at most four frames in all.
MP3_TRIMMED_FRAMES = 4
MP3_SAMPLES_PER_BYTE = 24  # at most: 576 samples in the 24 bytes of a frame of 8 kbit/s at 24 kHz


@dataclass(frozen=True)
class Verdict:
    """`fault`: why the file is not whole; `note`: what could not be known. Empty means none."""

    fault: str = ""
    note: str = ""


def audit(file: io.IOBase, container: str, frames: int) -> Verdict:
    """Compare what `file` promises with what it holds.

    `container` is libsndfile's name of the format and `frames` its count of sample frames.
    The position of `file` is moved.
    """
    if container in ("WAV", "WAVEX", "RF64"):
        return _audit_wav(file)
    if container == "OGG":
        return _audit_ogg(file, frames)
    if container == "MP3":
        return _audit_mp3(file, frames)
    return Verdict()  # FLAC: its decoder itself fails on a cut or damaged stream


def _audit_wav(file: io.IOBase) -> Verdict:
    promised, held, bytes_per_second = _wav_data_chunk(file)
    if promised <= held:
        return Verdict()
    if promised >= UNKNOWN_SIZE:
        return Verdict(note="the header gives no length (written to a pipe): took all that follows")
    of_promise, of_held = (
        f"{count} bytes of samples ({count / bytes_per_second:.3f} s)" for count in (promised, held)
    )
    return Verdict(fault=f"truncated: its header promises {of_promise}, the file holds {of_held}")


def _wav_data_chunk(file: io.IOBase) -> tuple[int, int, int]:
    """Bytes promised and held by the data chunk, and bytes a second."""
    end = file.seek(0, io.SEEK_END)
    file.seek(0)
    order = ">" if file.read(4) == b"RIFX" else "<"
    position, bytes_per_second, size_64 = 12, 0, 0
    while position + 8 <= end:
        file.seek(position)
        name, size = struct.unpack(order + "4sI", file.read(8))
        body = position + 8
        if name == b"data":
            return (size_64 or size), end - body, max(1, bytes_per_second)
        if name == b"fmt ":
            bytes_per_second = struct.unpack(order + "8xI", file.read(12))[0]
        if name == b"ds64":  # RF64: sizes above 4 GiB stand here, in order: file, data
            size_64 = struct.unpack("<8xQ", file.read(16))[0]
        position = body + size + size % 2
    return 0, 0, 1


def _audit_ogg(file: io.IOBase, frames: int) -> Verdict:
    """The length of an Ogg stream stands only in its last page, which carries a mark."""
    end = file.seek(0, io.SEEK_END)
    file.seek(max(0, end - OGG_PAGE_MAX))
    tail = file.read()
    start = tail.rfind(b"OggS")
    page = tail[start:] if start >= 0 else b""
    whole = len(page) >= 27 and len(page) >= 27 + page[26] + sum(page[27 : 27 + page[26]])
    if whole and page[5] & OGG_LAST_PAGE:
        return Verdict()
    where = "without its end-of-stream mark" if whole else "inside a page"
    return Verdict(
        fault=f"truncated: the Ogg stream stops {where}; a decoder gets {frames} frames of it and "
        "the full length is written nowhere"
    )


def _audit_mp3(file: io.IOBase, frames: int) -> Verdict:
    """A decoder that trusts a wrong length loses the rest of the stream without a word."""
    file.seek(0)
    data = file.read()
    if frames > len(data) * MP3_SAMPLES_PER_BYTE:
        promised = f"its length header promises {frames} frames"
        return Verdict(fault=f"{promised}, more than {len(data)} bytes of mp3 can hold")
    counted, frame_size = _count_mp3_frames(data)
    if frames >= (counted - MP3_TRIMMED_FRAMES) * frame_size:
        return Verdict()
    return Verdict(
        fault=f"its length header is missing or wrong: the decoder would stop after {frames} of "
        f"about {counted * frame_size} frames; decode it first: ffmpeg -i IN -ac 1 -ar 16000 "
        "OUT.wav"
    )


def _count_mp3_frames(data: bytes) -> tuple[int, int]:
    """Layer III frames that follow one another from the start, and the samples in one."""
    position, count, samples = 0, 0, 0
    if data[:3] == b"ID3":  # ID3v2: ten bytes and a size written as four bytes of seven bits
        position = 10 + int("".join(f"{byte:07b}" for byte in data[6:10]) or "0", 2)
    while position + 4 <= len(data):
        length, found = mp3_frame(data[position : position + 4])
        if length == 0:
            break
        position, count, samples = position + length, count + 1, found
    return count, samples


def mp3_frame(head: bytes) -> tuple[int, int]:
    """Bytes and samples of the Layer III frame with this header; 0, 0 where it is none."""
    if len(head) < 4:
        return 0, 0
    version, layer = (head[1] >> 3) & 3, (head[1] >> 1) & 3
    kbps_index, rate_index = head[2] >> 4, (head[2] >> 2) & 3
    if head[0] != 0xFF or head[1] < 0xE0 or version == 1 or layer != 1:
        return 0, 0
    if kbps_index in (0, 15) or rate_index == 3:
        return 0, 0
    mpeg1 = version == 3
    kbps = (MPEG1_KBPS if mpeg1 else MPEG2_KBPS)[kbps_index]
    rate = MPEG1_RATES[rate_index] // {3: 1, 2: 2, 0: 4}[version]
    samples = 1152 if mpeg1 else 576
    return samples // 8 * kbps * 1000 // rate + (head[2] >> 1 & 1), samples
