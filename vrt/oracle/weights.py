"""Random weights of a small Voxtral model, under the names that transformers has in memory.

Scaled so that every stage has numbers of about 1 and greedy tokens vary: a mistake then shows.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from vrt.voxtral.config import VoxtralConfig
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.weights.names import names

# A product over n numbers is drawn with standard deviation gain / sqrt(n), a gain of 1 unless
# said here; q and k wide, so that attention prefers some frames.
GAINS = {
    "stem.conv1.weight": 3.0,
    "stem.conv2.weight": 3.0,
    "projector.linear1.weight": 1.4,
    "projector.linear2.weight": 1.4,
    "attention.q.weight": 1.5,
    "attention.k.weight": 1.5,
}
EMBED_STD = 0.5
BIAS_STD = 0.2
NORM_STD = 0.2

Weights = dict[str, Float[Tensor, "..."]]


def random_weights(config: VoxtralConfig, seed: int) -> Weights:
    """Every tensor of the model, fp32, from one generator: the same seed gives the same model.

    Two choices keep tokens varied. The first convolution's filters sum to 0, so that speech is
    not drowned by the level of silence. The last norm's weights have either sign: with positive
    ones and tied embeddings each token would call itself.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.device("meta"):
        shapes = {name: p.shape for name, p in VoxtralRealtime(config).named_parameters()}
    drawn: Weights = {}
    for name in names(config):
        drawn[name.hf] = _draw(name.ours, shapes[name.ours], generator)
    return drawn


def _draw(name: str, shape: torch.Size, generator: torch.Generator) -> Float[Tensor, "..."]:
    x = torch.randn(shape, generator=generator)
    if name == "decoder.norm.weight":
        return x
    if name == "decoder.embed.weight":
        return x * EMBED_STD
    if len(shape) == 1:
        return 1 + x * NORM_STD if name.endswith("norm.weight") else x * BIAS_STD
    gain = next((gain for end, gain in GAINS.items() if name.endswith(end)), 1.0)
    x = x * gain / shape[1:].numel() ** 0.5
    return x - x.mean(dim=(1, 2), keepdim=True) if name == "stem.conv1.weight" else x
