"""The one door for samples: files, arrays and raw pieces become mono float32 at 16 kHz."""

from vrt.audio.files import Clip, read
from vrt.audio.resampling import StreamingResampler, resample
from vrt.audio.samples import SAMPLE_RATE, AudioError, Pcm16Reader, as_samples

__all__ = [
    "SAMPLE_RATE",
    "AudioError",
    "Clip",
    "Pcm16Reader",
    "StreamingResampler",
    "as_samples",
    "read",
    "resample",
]
