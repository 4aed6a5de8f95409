"""Models with fixed random weights: they say nothing, and say it the same on every machine.

The gains are chosen so that greedy decoding of speech gives varied output and not one token for
ever: what a layer adds outweighs what it is given, the audio outweighs the previous token, and the
last norm has weights of both signs, or else the tied embeddings would repeat their input.
"""

import math
import zlib

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vrt.voxtral.config import VoxtralConfig
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.weights import skeleton
from vrt.voxtral.weights.names import Name, names

# Standard deviation of a weight: its gain / sqrt(number of inputs).
GAINS = {
    "stem.": 1.5,
    "attention.": 2.0,
    "mlp.": 3.0,
    "projector.linear1": 2.0,
    "projector.linear2": 4.0,
    "ada.": 1.0,
}
EMBED_STD = 0.3
BIAS_STD = 0.05
NORM_STD = 0.1  # around 1
PAD_GAIN, WORD_GAIN = 6.0, 3.0  # of the embeddings of the streaming tokens, so that they do occur


def random_model(
    config: VoxtralConfig,
    seed: int,
    *,
    dtype: torch.dtype = torch.float32,
    row_gain: Float[Tensor, "V"] | None = None,
) -> VoxtralRealtime:
    """A model of any size. Each tensor has a stream of its own, seeded by `seed` and the name that
    transformers has for it.

    So a model with fewer layers has the first layers of one with more. `row_gain` scales the
    embedding of each token id: a quiet token is seldom put out, a loud one often.
    """
    model = skeleton(config)
    gain = token_gain(config) if row_gain is None else row_gain
    shapes = {name: tuple(parameter.shape) for name, parameter in model.state_dict().items()}
    weights = {
        name.ours: _weight(name, shapes[name.ours], seed, gain).to(dtype) for name in names(config)
    }
    model.load_state_dict(weights, assign=True)
    return model.requires_grad_(False).eval()


def token_gain(config: VoxtralConfig) -> Float[Tensor, "V"]:
    """1 for every token but the two of the stream's own."""
    gain = torch.ones(config.decoder.vocab)
    for id, loud in ((config.streaming_pad, PAD_GAIN), (config.streaming_word, WORD_GAIN)):
        if id < len(gain):
            gain[id] = loud
    return gain


def _weight(name: Name, shape: tuple[int, ...], seed: int, row_gain: Float[Tensor, "V"]) -> Tensor:
    stream = np.random.default_rng([seed, zlib.crc32(name.hf.encode())])
    noise = torch.from_numpy(stream.standard_normal(shape, dtype=np.float32))
    if name.ours == "decoder.norm.weight":
        return noise
    if name.ours.endswith("norm.weight"):
        return noise.mul_(NORM_STD).add_(1)
    if name.ours == "decoder.embed.weight":
        return noise.mul_(EMBED_STD).mul_(row_gain[:, None])
    if name.ours.endswith(".bias"):
        return noise.mul_(BIAS_STD)
    (gain,) = (gain for part, gain in GAINS.items() if part in name.ours)
    return noise.mul_(gain / math.sqrt(math.prod(shape[1:])))
