"""What transformers and mistral-common make of a clip before the model sees it.

n samples of audio, S samples of the padded stream, M=128 mel bins, T mel frames (10 ms),
D delay tokens, L prompt tokens. Log-mel is [M, T], as in golden files.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float32
from mistral_common.tokens.tokenizers.audio import (
    AudioConfig,
    AudioEncoder,
    AudioSpectrogramConfig,
    SpecialAudioIDs,
    TranscriptionFormat,
)
from torch import Tensor
from transformers import VoxtralRealtimeFeatureExtractor

from vrt.voxtral.config import (
    HOP,
    LOOK_BACK,
    MEL_PER_TOKEN,
    N_FFT,
    SAMPLE_RATE,
    SAMPLES_PER_TOKEN,
    TOKEN_MS,
    VoxtralConfig,
)


@dataclass(frozen=True)
class Features:
    """`chunks` are the stream's log-mels: 8 L frames first, then 8 each."""

    prompt: list[int]
    offline: Float[Tensor, "M T"]
    chunks: tuple[Float[Tensor, "M _"], ...]


def features(config: VoxtralConfig, samples: Float32[np.ndarray, "n"], delay: int) -> Features:
    """Prompt and log-mels of a clip with `delay` tokens of transcription delay.

    The clip is padded as floats. The processor of transformers would carry it through a 16-bit
    WAV first, which only int16-exact audio survives unchanged.
    """
    encoder = _audio_encoder(config, delay)
    padded = encoder.pad(samples, SAMPLE_RATE)
    prompt = [config.bos, *encoder.encode_streaming_tokens()]
    extract = VoxtralRealtimeFeatureExtractor(feature_size=config.mel_bins)
    pieces = _chunks(padded, len(prompt))
    return Features(
        prompt,
        _log_mel(extract, padded, center=True),
        tuple(_log_mel(extract, piece, center=not i) for i, piece in enumerate(pieces)),
    )


def _audio_encoder(config: VoxtralConfig, delay: int) -> AudioEncoder:
    audio = AudioConfig(
        sampling_rate=SAMPLE_RATE,
        frame_rate=SAMPLE_RATE / SAMPLES_PER_TOKEN,
        encoding_config=AudioSpectrogramConfig(config.mel_bins, HOP, N_FFT),
        transcription_format=TranscriptionFormat.STREAMING,
        transcription_delay_ms=float(delay * TOKEN_MS),
        streaming_look_ahead_ms=2.5,
        streaming_look_back_ms=52.5,
        streaming_n_left_pad_tokens=config.left_pad_tokens,
    )
    return AudioEncoder(audio, SpecialAudioIDs(None, None, config.streaming_pad, None, None))


def _chunks(padded: Float32[np.ndarray, "S"], prompt_len: int) -> Iterator[np.ndarray]:
    """The processor's rule: everything up to the prompt's end and 40 samples, then 1680 samples.

    The last chunk reaches 200 samples past the padded stream; they are zeros.
    """
    padded = np.pad(padded, (0, LOOK_BACK))
    frames = prompt_len * MEL_PER_TOKEN  # of the first chunk
    yield padded[: (frames - 1) * HOP + LOOK_BACK]
    for start in range(frames * HOP, len(padded) - LOOK_BACK, SAMPLES_PER_TOKEN):
        yield padded[start - LOOK_BACK : start + SAMPLES_PER_TOKEN + LOOK_BACK]


def _log_mel(
    extract: VoxtralRealtimeFeatureExtractor, samples: Float32[np.ndarray, "S"], center: bool
) -> Float[Tensor, "M T"]:
    made = extract(samples, sampling_rate=SAMPLE_RATE, center=center, return_tensors="pt")
    return made["input_features"][0].to(torch.float32)
