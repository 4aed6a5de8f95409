"""The engine's own layers over many streams at once, every position in one pass, for training.

B streams of N tokens (80 ms): T = 8 N mel frames, 4 N encoder frames, M mel bins, D encoder width,
E decoder width, V vocabulary.

Streams lie one behind the other along the encoder's frames; each group of 4 queries has a mask, and
the masks hide the stream before. The decoder runs stream by stream, over rings of their own. The
numbers are those of the engine (`tests/test_train_voxtral.py` holds the two against each other).
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vrt.voxtral.config import FRAMES_PER_TOKEN, MEL_PER_TOKEN
from vrt.voxtral.decoder import Decoder, DecoderState
from vrt.voxtral.encoder import Encoder, group_mask
from vrt.voxtral.model import VoxtralRealtime

# Queries of one attention product (encoder frames). With the engine's 4 each key is copied 17 times
# for the gradient, with 48 twice.
GROUP = 48


def encode_streams(
    model: VoxtralRealtime, mels: Float[Tensor, "B T M"]
) -> Float[Tensor, "B frames D"]:
    """Encoder frames of whole padded streams: a multiple of 12 tokens each, or ValueError."""
    frames = mels.shape[1] * FRAMES_PER_TOKEN // MEL_PER_TOKEN
    if frames % GROUP:
        raise ValueError(f"streams of {frames} encoder frames: train on a multiple of {GROUP}")
    x = torch.stack([model.stem(mel) for mel in mels])
    return _encoder(model.encoder, x.flatten(0, 1), len(mels)).view_as(x)


def _encoder(encoder: Encoder, x: Float[Tensor, "all D"], streams: int) -> Float[Tensor, "all D"]:
    each = len(x) // streams
    cos, sin = encoder.rotary.table(0, each, like=x)
    table = (cos.repeat(streams, 1), sin.repeat(streams, 1))
    window = encoder.config.window
    mask = group_mask(window, 0, each // GROUP, x.dtype, x.device, GROUP).repeat(streams, 1, 1, 1)
    for layer in encoder.layers:
        x = layer(x, table, mask, None)
    return encoder.norm(x)


def decode_stream(
    decoder: Decoder, tokens: Int[Tensor, "N"], audio: Float[Tensor, "N E"], delay: int
) -> Float[Tensor, "N V"]:
    """Logits after every position of a stream that is fed `tokens`, under `delay` tokens."""
    gains = 1 + decoder.ada_scale(delay)
    # Room for all at once. The rings are written once: nothing that a gradient needs is lost.
    state = DecoderState(decoder.config, gains, decoder.config.window - 1 + len(tokens))
    x = decoder.hidden(tokens, audio, state)
    return decoder.head(decoder.norm(x), decoder.embed.weight)


def project(model: VoxtralRealtime, frames: Float[Tensor, "B frames D"]) -> Float[Tensor, "B N E"]:
    """Audio embeddings of all streams."""
    tokens = frames.shape[1] // FRAMES_PER_TOKEN
    return model.projector(frames.flatten(0, 1)).view(len(frames), tokens, -1)


def logits_of(
    model: VoxtralRealtime,
    mels: Float[Tensor, "B T M"],
    tokens: Sequence[Int[Tensor, "N"]],
    delays: Sequence[int],
) -> Float[Tensor, "B N V"]:
    """Logits of every position of every stream, each under its own delay."""
    audio = project(model, encode_streams(model, mels))
    rows = zip(tokens, audio, delays, strict=True)
    return torch.stack([decode_stream(model.decoder, *row) for row in rows])
