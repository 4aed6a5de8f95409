"""Voxtral Realtime as transformers computes it: every stage of a small problem, in fp32.

N positions (80 ms), T = 4 N encoder frames, L prompt tokens, R = N - L + 1 rows of logits,
n samples, D encoder width, E decoder width, V vocabulary, P decoder layers.

Most stages are computed by two paths of the reference: offline (the whole clip, no cache) and
stream (piece by piece, with its caches).
"""

import warnings
from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor
from torch.utils.hooks import RemovableHandle
from transformers import DynamicCache, VoxtralRealtimeForConditionalGeneration

from vrt.oracle.hf_features import Features, features
from vrt.oracle.hf_model import OracleError, build, versions
from vrt.oracle.weights import Weights
from vrt.voxtral.config import VoxtralConfig

__all__ = ["OracleError", "build", "reference", "versions"]

Model = VoxtralRealtimeForConditionalGeneration
Answer = dict[str, Tensor]
MIN_MARGIN = 6e-5  # of the largest logit: twice what the golden format lets logits differ


@torch.no_grad()
def reference(
    config: VoxtralConfig, weights: Weights, samples: Float32[np.ndarray, "n"], delay: int
) -> Answer:
    """The reference's answer, under the names of a golden file's stages (`mel.offline`, ...).

    Raises `OracleError` where two best logits are closer than an implementation may differ: the
    token then is a matter of rounding (transformers' own two arms part at such places), and
    another seed makes the better problem.
    """
    model = build(config, weights)
    given = features(config, samples, delay)
    mel = {"mel.offline": given.offline, "mel.stream": torch.cat(given.chunks, dim=1)}
    offline, stream = encode_offline(model, given), encode_stream(model, given)
    _, heard = decode(model, given.prompt, offline["projector"], delay)
    logits, tokens = decode(model, given.prompt, stream["projector"], delay)
    whole = forced(model, given.prompt, heard, offline["projector"], delay)
    _require_margin(whole)
    _require_margin(logits)
    return {
        **mel,
        **{f"{stage}.offline": output for stage, output in offline.items()},
        **{f"{stage}.stream": output for stage, output in stream.items()},
        **conditioning(model, delay),
        "logits.offline": whole,
        "logits.stream": logits,
        "tokens.offline_full_span": heard,
        "tokens.stream_full_span": tokens,
        "tokens.hf_generate_offline": generate_offline(model, given, delay),
        "tokens.hf_generate_stream": generate_stream(model, given, delay),
    }


def encode_offline(model: Model, given: Features) -> Answer:
    """Stem, first layer, encoder [T, D] and audio embeddings [N, E] of the whole clip at once."""
    tower = model.model.audio_tower
    stages = {"conv_stem": tower.embedder, "encoder_layer0": tower.layers[0], "encoder": tower.norm}
    heard = {stage: [] for stage in stages}
    hooks = [_record(module, heard[stage]) for stage, module in stages.items()]
    out = model.get_audio_features(given.offline[None], use_cache=False)
    for hook in hooks:
        hook.remove()
    stages = {stage: outputs[0][0].contiguous() for stage, outputs in heard.items()}
    return {**stages, "projector": out.pooler_output[0]}


def encode_stream(model: Model, given: Features) -> Answer:
    """The same from one chunk after another, through the reference's caches."""
    tower = model.model.audio_tower
    heard: dict[str, list[Tensor]] = {"conv_stem": [], "encoder": [], "projector": []}
    hooks = [_record(tower.embedder, heard["conv_stem"]), _record(tower.norm, heard["encoder"])]
    state: dict[str, object] = {"cache": None, "padding_cache": None}
    for chunk in given.chunks:
        out = model.get_audio_features(chunk[None], use_cache=True, **state)
        state = {"cache": out.cache, "padding_cache": out.padding_cache}
        heard["projector"].append(out.pooler_output)
    for hook in hooks:
        hook.remove()
    return {stage: torch.cat(outputs, dim=1)[0] for stage, outputs in heard.items()}


def _record(module: torch.nn.Module, outputs: list[Tensor]) -> RemovableHandle:
    return module.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))


def conditioning(model: Model, delay: int) -> Answer:
    """The delay's embedding [E] and what each layer adds to 1 [P, E]."""
    t = _time(model, delay)
    layers = model.model.language_model.layers
    return {"t_cond": t, "ada_scale": torch.stack([layer.ada_rms_norm(t) for layer in layers])}


def _time(model: Model, delay: int) -> Float[Tensor, "E"]:
    return model.model.time_embedding(torch.full((1,), float(delay)))


def decode(
    model: Model, prompt: list[int], audio: Float[Tensor, "N E"], delay: int
) -> tuple[Float[Tensor, "R V"], Int[Tensor, "R"]]:
    """Greedy, position by position through the cache; EOS is one more token."""
    cache = DynamicCache(config=model.config.text_config)
    ids, heard = torch.tensor(prompt), audio[: len(prompt)]
    rows: list[Tensor] = []
    for position in range(len(prompt), len(audio) + 1):
        rows.append(_logits(model, ids, heard, delay, cache)[-1])
        ids, heard = rows[-1].argmax(dim=-1, keepdim=True), audio[position : position + 1]
    logits = torch.stack(rows)
    return logits, logits.argmax(dim=-1)


def forced(
    model: Model,
    prompt: list[int],
    tokens: Int[Tensor, "R"],
    audio: Float[Tensor, "N E"],
    delay: int,
) -> Float[Tensor, "R V"]:
    """Logits of all positions in one pass, each fed the token chosen before it."""
    ids = torch.cat([torch.tensor(prompt), tokens[:-1]])
    return _logits(model, ids, audio, delay, None)[len(prompt) - 1 :]


def _require_margin(logits: Float[Tensor, "R V"]) -> None:
    best = logits.topk(2).values
    margin, row = (best[:, 0] - best[:, 1]).min(dim=0)
    least = MIN_MARGIN * max(1.0, float(logits.abs().max()))
    if margin < least:
        raise OracleError(
            f"the two best logits of row {int(row)} are {float(margin):.1e} apart, below"
            f" {least:.1e}: another implementation may choose the other; use another seed"
        )


def _logits(
    model: Model,
    ids: Int[Tensor, "n"],
    audio: Float[Tensor, "n E"],
    delay: int,
    cache: DynamicCache | None,
) -> Float[Tensor, "n V"]:
    out = model.model.language_model(
        inputs_embeds=(model.get_input_embeddings()(ids) + audio)[None],
        t_cond=_time(model, delay)[None],
        cache=cache,
        use_cache=cache is not None,
    )
    return model.lm_head(out.last_hidden_state)[0]


def generate_offline(model: Model, given: Features, delay: int) -> Int[Tensor, "tokens"]:
    """`generate` over the whole clip: N - L tokens, or up to and including EOS."""
    return _generate(model, given.prompt, delay, given.offline[None])


def generate_stream(model: Model, given: Features, delay: int) -> Int[Tensor, "tokens"]:
    """`generate` over chunks as they come: N - L + 1 tokens, or up to and including EOS."""
    return _generate(model, given.prompt, delay, (chunk[None] for chunk in given.chunks))


def _generate(
    model: Model, prompt: list[int], delay: int, mel: Tensor | Iterator[Tensor]
) -> Int[Tensor, "tokens"]:
    # An earlier stream that ended in an error leaves this flag set; the next call would then
    # return the prompt alone.
    model._stream_exhausted = False
    ids = torch.tensor([prompt])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Using the model-agnostic default")  # the length is N
        out = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            input_features=mel,
            num_delay_tokens=delay,
        )
    return out[0, len(prompt) :]
