"""transformers' own steps for the bench, over weights that another model already holds.

T encoder frames (20 ms), M mel bins, D encoder width, E decoder width, V vocabulary, H heads,
K head width.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import (
    DynamicCache,
    PreTrainedConfig,
    VoxtralRealtimeForConditionalGeneration,
)

from vrt.oracle.hf_model import TIED, OracleError, model_config
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.weights import state_dict_hf

Model = VoxtralRealtimeForConditionalGeneration
Past = Sequence[tuple[Float[Tensor, "H n K"], Float[Tensor, "H n K"]]]


def build_shared(ours: VoxtralRealtime) -> Model:
    """transformers' model, holding the very tensors of `ours` and no other.

    Its parameters require gradients, as `from_pretrained` leaves them. That matters for time: with
    frozen parameters torch multiplies the stem's non-contiguous output by copies of the weights
    that have no bias, made anew in every call.
    """
    config = model_config(ours.config)
    with torch.device("meta"):
        model = Model(config)
    found = model.load_state_dict(state_dict_hf(ours), strict=False, assign=True)
    if set(found.missing_keys) - {TIED} or found.unexpected_keys:
        raise OracleError(f"weights do not fit the model: {found}")
    model.tie_weights()
    _make_tables(model)
    return model.eval()


def _make_tables(model: Model) -> None:
    """Frequencies are no weights, so the model made without memory has none yet."""
    inner, config = model.model, model.config
    for part, sizes in (
        (inner.audio_tower, config.audio_config),
        (inner.language_model, config.text_config),
    ):
        part.rotary_emb = type(part.rotary_emb)(config=sizes)
    inner.time_embedding = type(inner.time_embedding)(config.text_config.hidden_size)


def encoder_chunk(
    model: Model, mel: Float[Tensor, "8 M"], past: Past
) -> Callable[[], Float[Tensor, "4 D"]]:
    """A call of the encoder as `generate` makes it in a stream: mel in, both caches carried on."""
    tower = model.model.audio_tower
    cache, padding = _filled(model.config.audio_config, past), None
    chunk = mel.T[None].to(model.dtype)

    def step() -> Float[Tensor, "4 D"]:
        nonlocal padding
        out = tower(
            input_features=chunk,
            cache=cache,
            padding_cache=padding,
            use_cache=True,
            use_padding_cache=True,
        )
        padding = out.padding_cache
        return out.last_hidden_state[0]

    return step


def decoder_step(
    model: Model, token: int, audio: Float[Tensor, "1 E"], delay: int, past: Past
) -> Callable[[], Float[Tensor, "V"]]:
    """One position of `generate` after the encoder: embedding, delay, layers, norm, logits."""
    cache = _filled(model.config.text_config, past)
    ids = torch.tensor([token])

    def step() -> Float[Tensor, "V"]:
        embeds = model.get_input_embeddings()(ids) + audio
        time = torch.full((1,), delay, dtype=embeds.dtype)
        out = model.model.language_model(
            inputs_embeds=embeds[None],
            t_cond=model.model.time_embedding(time)[None],
            cache=cache,
            use_cache=True,
        )
        return model.lm_head(out.last_hidden_state)[0, -1]

    return step


def _filled(sizes: PreTrainedConfig, past: Past) -> DynamicCache:
    """The cache of a stream whose layers have seen `past`."""
    cache = DynamicCache(config=sizes)
    for layer, (keys, values) in enumerate(past):
        cache.update(keys[None], values[None], layer)
    return cache
