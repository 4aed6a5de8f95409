"""The check that every array and piece passes: mono float32 at 16 kHz, or an error that names what
is wrong.

Axes: n samples (16 kHz, 62.5 us each), c channels. Level: full scale is -1..1.
"""

import os
import sys

import numpy as np
from jaxtyping import Float, Float32

SAMPLE_RATE = 16_000  # Hz
MAX_LEVEL = 4.0  # 12 dB above full scale; samples kept as integers lie far above it
INT16_SCALE = np.float32(1 / 32_768)

TO_FLOAT = {
    "int32": "x.astype(np.float32) / 2**31",
    "uint8": "(x.astype(np.float32) - 128) / 128",
    "float16": "x.astype(np.float32)",
    "bfloat16": "x.float()",
    "bool": "a mask holds no sound",
    "complex64": "a spectrum holds no samples; use x.real if the imaginary part is zero",
    "complex128": "a spectrum holds no samples; use x.real if the imaginary part is zero",
    "object": "the pieces probably differ in length; feed them one at a time",
}

Samples = Float32[np.ndarray, " n"]


class AudioError(ValueError):
    """Samples that cannot be taken as they are; the message names the value and the way out."""


def as_samples(x: object, *, rate: int | float = SAMPLE_RATE) -> Samples:
    """Check one raw array or piece and return it as a new float32 array.

    `x` is a one-dimensional numpy array or CPU tensor: float32 or float64 in -1..1, or int16,
    which is divided by 32768. It may be empty, need not be contiguous and is never kept.

    Raises `AudioError` for any other type, dtype, shape or `rate`, for NaN and Inf (with the first
    index), and for a level above `MAX_LEVEL`. Nothing is converted by a guess.
    """
    if rate != SAMPLE_RATE:
        raise AudioError(
            f"as_samples takes {SAMPLE_RATE} Hz, got {rate!r}; bring it there with "
            "resample(x, rate), or with StreamingResampler(rate) piece by piece"
        )
    return checked(x)


def checked(x: object) -> Samples:
    array = x if type(x) is np.ndarray else _as_array(x)
    kind = array.dtype.type
    if kind is not np.float32 and kind is not np.float64 and kind is not np.int16:
        raise AudioError(_wrong_dtype(array.dtype.name))
    if array.ndim != 1:
        raise AudioError(_wrong_shape(array.shape))
    if kind is np.int16:
        return np.multiply(array, INT16_SCALE, dtype=np.float32)
    check_values(array, "samples")
    return np.array(array, dtype=np.float32)


def _as_array(x: object) -> np.ndarray:
    torch = sys.modules.get("torch")  # a tensor exists only where torch is loaded
    if torch is not None and isinstance(x, torch.Tensor):
        if x.device.type != "cpu":
            raise AudioError(f"samples lie on {x.device}; pass x.cpu()")
        if x.dtype not in (torch.float32, torch.float64, torch.int16):
            raise AudioError(_wrong_dtype(str(x.dtype).removeprefix("torch.")))
        if x.layout is not torch.strided:
            raise AudioError("samples are a sparse tensor; pass x.to_dense()")
        return x.numpy(force=True)
    if isinstance(x, np.ma.MaskedArray):
        raise AudioError("samples are a masked array; decide what a gap sounds like: x.filled(0)")
    if isinstance(x, np.ndarray):
        return x
    if isinstance(x, bytes | bytearray | memoryview):
        raise AudioError("samples are raw bytes; turn 16-bit PCM into samples with Pcm16Reader")
    if isinstance(x, str | os.PathLike):
        raise AudioError(f"samples are a path ({x}); pass vrt.audio.read(path).samples")
    if hasattr(x, "read"):
        raise AudioError("samples are an open file; pass vrt.audio.read(file).samples")
    kind = type(x).__name__
    if isinstance(getattr(x, "samples", None), np.ndarray):
        raise AudioError(f"samples are a {kind}; pass {kind.lower()}.samples")
    raise AudioError(f"samples are a {kind}; pass np.asarray(x, dtype=np.float32)")


def check_values(x: Float[np.ndarray, "n ..."], name: str) -> None:
    """Refuse NaN, Inf and levels that no float recording has."""
    if x.size == 0:
        return
    peak = np.abs(x).max()  # NaN passes through max and fails the comparison
    if peak <= MAX_LEVEL:
        return
    rows = x.reshape(len(x), -1)
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        at = int(bad.argmax())
        raise AudioError(
            f"{name}: {rows[at]} at index {at} of {len(x)}: {int(bad.sum())} samples are not "
            "finite; find where they were made, or pass np.nan_to_num(x)"
        )
    raise AudioError(
        f"{name}: peak {peak:g}, above {MAX_LEVEL}: probably integer samples; pass int16, or "
        "divide by 32768"
    )


def _wrong_dtype(name: str) -> str:
    hint = TO_FLOAT.get(name, "scale to -1..1 and pass x.astype(np.float32)")
    return f"samples are {name}; float32, float64 and int16 are taken: {hint}"


def _wrong_shape(shape: tuple[int, ...]) -> str:
    if len(shape) == 2 and 1 in shape:
        return f"samples have shape {list(shape)}; pass one dimension: x.reshape(-1)"
    if len(shape) == 2:
        axis = int(shape[1] < shape[0])
        return f"samples have shape {list(shape)}; mix to mono first, as x.mean(axis={axis})"
    return f"samples have shape {list(shape)}; pass one dimension of n samples"


class Pcm16Reader:
    """Raw little-endian 16-bit mono PCM, as a pipe delivers it: a read may end inside a sample."""

    def __init__(self) -> None:
        self._carried = b""

    @property
    def carried(self) -> int:
        """Bytes that wait for the rest of their sample: 0 or 1. 1 at the end means a cut stream."""
        return len(self._carried)

    def feed(self, data: bytes | bytearray | memoryview) -> Samples:
        """Samples completed by `data`, divided by 32768."""
        joined = self._carried + bytes(data)
        whole = len(joined) // 2 * 2
        self._carried = joined[whole:]
        return checked(np.frombuffer(joined[:whole], dtype="<i2"))
