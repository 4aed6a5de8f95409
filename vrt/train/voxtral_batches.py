"""Batches of made-up streams: log-mels, what is said under each delay, what each frame is part of.

B streams, N positions (80 ms), T = 8 N mel frames, F = 4 N encoder frames, M mel bins.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vrt.train.augment import mask, warp
from vrt.train.voxtral_spelling import PIECES, VOCAB
from vrt.train.voxtral_streams import Stream
from vrt.train.voxtral_targets import Targets, targets
from vrt.voxtral.config import (
    FRAMES_PER_TOKEN,
    HOP,
    MEL_PER_TOKEN,
    SAMPLES_PER_TOKEN,
    VoxtralConfig,
)
from vrt.voxtral.mel import LogMel
from vrt.voxtral.schedule import MAX_DELAY_TOKENS

TRACTS = (0.83, 1.2)  # range of the vocal tract's length
BANDS = 2  # of mel bins left out of a voice, at most
BAND_WIDTH = 12  # bins, at most
GAPS = 2  # moments left out of a voice, at most
SHORT_DELAYS = 10  # one of a stream's two delays is at most this
WRONG_INPUTS = 0.12  # of the pieces and word marks that the decoder is fed, replaced at random
NO_DIGIT = 10  # class of a frame outside words
FRAME_SAMPLES = SAMPLES_PER_TOKEN // FRAMES_PER_TOKEN


@dataclass(frozen=True)
class Batch:
    """`delays`, `inputs` and `labels` have two rows for each stream, one after the other."""

    mels: Float[Tensor, "B T M"]
    delays: list[int]
    inputs: Int[Tensor, "twoB N"]
    labels: Int[Tensor, "twoB N"]
    classes: Int[Tensor, "B F"]


def batch_of(
    streams: list[Stream], log_mel: LogMel, config: VoxtralConfig, rng: np.random.Generator
) -> Batch:
    """Each stream in another vocal tract, with gaps, and under two delays."""
    mels, delays, said, classes = [], [], [], []
    for stream in streams:
        mels.append(_varied(stream, padded_mel(stream, log_mel, config), config, rng))
        classes.append(frame_classes(stream, config))
        for most in (SHORT_DELAYS, MAX_DELAY_TOKENS):
            delays.append(int(rng.integers(1, most + 1)))
            said.append(targets(stream.spoken, stream.zeros, delays[-1], config))
    inputs = np.stack([_with_mistakes(t, config, rng) for t in said])
    labels = np.stack([t.labels for t in said])
    return Batch(
        torch.stack(mels),
        delays,
        torch.from_numpy(inputs),
        torch.from_numpy(labels),
        torch.from_numpy(np.stack(classes)),
    )


def padded_mel(stream: Stream, log_mel: LogMel, config: VoxtralConfig) -> Float[Tensor, "T M"]:
    """Log-mel of the stream behind its left pad."""
    left = np.zeros(config.left_pad_tokens * SAMPLES_PER_TOKEN, dtype=np.float32)
    return log_mel(torch.from_numpy(np.concatenate([left, stream.samples])))


def frame_classes(stream: Stream, config: VoxtralConfig) -> Int[np.ndarray, " F"]:
    """The digit that an encoder frame is part of, from a third of its length on: 0..9 or NO_DIGIT.

    Before, nothing could know it; up to two frames after it, it is still there to be told.
    """
    out = np.full(len(stream.samples) // FRAME_SAMPLES, NO_DIGIT)
    for word in stream.spoken:
        start = word.start + (word.end - word.start) // 3
        out[start // FRAME_SAMPLES : word.end // FRAME_SAMPLES + 3] = word.value
    pad = np.full(config.left_pad_tokens * FRAMES_PER_TOKEN, NO_DIGIT)
    return np.concatenate([pad, out])


def _varied(
    stream: Stream,
    mel: Float[Tensor, "T M"],
    config: VoxtralConfig,
    rng: np.random.Generator,
) -> Float[Tensor, "T M"]:
    """The left pad as it is; behind it each voice is another, less bands and moments."""
    left = config.left_pad_tokens * MEL_PER_TOKEN
    starts = [0, *(left + at // HOP for at in stream.pieces[1:]), len(mel)]
    voices = [mel[first:last] for first, last in pairwise(starts)]
    value = float(mel[left:].mean())
    heard = torch.cat([_turned(voice, value, rng) for voice in voices])
    return torch.cat([mel[:left], heard[left:]])


def _turned(
    voice: Float[Tensor, "T M"], value: float, rng: np.random.Generator
) -> Float[Tensor, "T M"]:
    warped = warp(voice, float(np.exp(rng.uniform(*np.log(TRACTS)))))
    return mask(warped, rng, value, bands=BANDS, band_width=BAND_WIDTH, gaps=GAPS)


def _with_mistakes(
    said: Targets, config: VoxtralConfig, rng: np.random.Generator
) -> Int[np.ndarray, " N"]:
    """Some pieces replaced: the model may not rely on having written the right ones."""
    spoken = (said.inputs >= VOCAB - len(PIECES)) | (said.inputs == config.streaming_word)
    wrong = spoken & (rng.random(len(said.inputs)) < WRONG_INPUTS)
    others = [*range(VOCAB - len(PIECES), VOCAB), config.streaming_word, config.streaming_pad]
    return np.where(wrong, rng.choice(others, len(said.inputs)), said.inputs)
