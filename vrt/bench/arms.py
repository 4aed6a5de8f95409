"""One call of a stage of the engine, in the middle of a long stream.

T encoder frames (20 ms), M mel bins, D encoder width, E decoder width, H heads, K head width.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from vrt.voxtral.cache import KVRing
from vrt.voxtral.config import FRAMES_PER_TOKEN, MEL_PER_TOKEN
from vrt.voxtral.decoder import DecoderState
from vrt.voxtral.encoder import EncoderState
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.stem import StemState

Past = list[tuple[Float[Tensor, "H n K"], Float[Tensor, "H n K"]]]  # keys, values of each layer


@dataclass(frozen=True)
class Inputs:
    """The same for both arms: 80 ms of log-mel, and one position's token and audio embedding."""

    mel: Float[Tensor, "8 M"]
    token: int
    audio: Float[Tensor, "1 E"]

    @classmethod
    def draw(cls, model: VoxtralRealtime) -> "Inputs":
        config, generator = model.config, torch.Generator().manual_seed(1)
        mel = torch.randn(MEL_PER_TOKEN, config.mel_bins, generator=generator)
        audio = torch.randn(1, config.decoder.width, generator=generator)
        return cls(mel, config.streaming_pad, audio.to(model.dtype))


def encoder_chunk(
    model: VoxtralRealtime, inputs: Inputs
) -> tuple[Callable[[], Float[Tensor, "4 D"]], Past]:
    """8 mel frames through stem and encoder at a full window; and what the window holds."""
    stem, state = StemState(model.stem), full_encoder(model)
    past = copies(state.rings, model.config.encoder.window - 1)
    return lambda: model.encoder(model.stem(inputs.mel, stem), state), past


def decoder_step(
    model: VoxtralRealtime, inputs: Inputs, context: int
) -> tuple[Callable[[], Float[Tensor, "V"]], Past]:
    """One position that sees `context` keys: embedding, layers, norm, logits."""
    state = filled_decoder(model, context - 1)
    ids = torch.tensor([inputs.token])
    return lambda: model.decoder(ids, inputs.audio, state), copies(state.rings, context - 1)


def encoder_frames(
    model: VoxtralRealtime, frames: int, calls: int
) -> Callable[[], list[Float[Tensor, "T D"]]]:
    """`calls` encoder calls of `frames` frames each, at a full window."""
    state = full_encoder(model)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(frames, model.config.encoder.width, generator=generator).to(model.dtype)
    return lambda: [model.encoder(x, state) for _ in range(calls)]


def full_encoder(model: VoxtralRealtime) -> EncoderState:
    """The state of a stream that has filled the window: random keys and values, really written."""
    state = model.encoder.state()
    state.position = fill(state.rings, model.config.encoder.window - 1)
    return state


def filled_decoder(model: VoxtralRealtime, seen: int) -> DecoderState:
    state = model.decoder.state(model.config.delay_tokens)
    state.position = fill(state.rings, seen)
    return state


def fill(rings: Iterable[KVRing], count: int) -> int:
    """`count` random keys and values into each ring; returns `count`."""
    generator = torch.Generator().manual_seed(3)
    for ring in rings:
        heads, _, width = ring.keys.shape
        for start in range(0, count, ring.max_chunk):
            shape = (heads, min(ring.max_chunk, count - start), width)
            keys, values = torch.randn(2, *shape, generator=generator).to(ring.keys.dtype)
            ring.append(keys, values)
    return count


def copies(rings: Iterable[KVRing], count: int) -> Past:
    """The newest `count` keys and values of each ring, in memory of their own."""
    return [tuple(slots.clone() for slots in ring.last(count)) for ring in rings]


BATCH_TOKENS = 6  # 480 ms
BATCH_FRAMES = BATCH_TOKENS * FRAMES_PER_TOKEN
