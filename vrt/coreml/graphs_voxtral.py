"""A Voxtral model as four graphs of one 80 ms step each, all memory outside and explicit.

M mel bins, D encoder width, E decoder width, L layers, H heads (in the decoder those of keys and
values), K head width, P = window - 1 cached positions, V vocabulary; 8 mel frames, 4 encoder
frames and 1 token a step.

The host owns the caches. It passes the P newest keys and values, oldest first, zeros before the
stream, with `past` = how many of them are real; it gets the new ones back and appends them. Rotary
angles come from the host too: computed in float64 they are right after days of stream.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int32
from torch import Tensor, nn
from torch.nn import functional as F

from vrt.coreml.attention import (
    MASKED,
    HostKV,
    StateKV,
    attend,
    heads_first,
    seen_slots,
    turn,
)
from vrt.coreml.contract import Cache, Kind, Port
from vrt.coreml.errors import CoreMLError
from vrt.coreml.graphs import Draw, Graph
from vrt.voxtral.config import FRAMES_PER_TOKEN, MEL_PER_TOKEN, TOKEN_MS
from vrt.voxtral.decoder import Decoder
from vrt.voxtral.encoder import Encoder
from vrt.voxtral.layers import Rotary, SwiGLU
from vrt.voxtral.model import Projector, VoxtralRealtime
from vrt.voxtral.schedule import Schedule
from vrt.voxtral.stem import CausalConv1d, ConvStem

VOXTRAL_KINDS = (
    "voxtral-conv-stem",
    "voxtral-encoder-chunk",
    "voxtral-projector",
    "voxtral-decoder-step",
)
CACHED = ("voxtral-encoder-chunk", "voxtral-decoder-step")
KV = ("keys", "values")
CLOCK = {"token_ms": TOKEN_MS, "mel_frames": MEL_PER_TOKEN, "encoder_frames": FRAMES_PER_TOKEN}
# Mean squares, and the sums below a softmax: FP16 overflows in the first and is coarse in both.
WIDE = frozenset({"reduce_mean", "rsqrt", "softmax"})


class StemGraph(nn.Module):
    """8 mel frames -> 4 encoder frames; the caches are the last inputs of each convolution."""

    def __init__(self, stem: ConvStem):
        super().__init__()
        self.stem = stem

    def forward(
        self,
        mel: Float[Tensor, "8 M"],
        mel_cache: Float[Tensor, "2 M"],
        hidden_cache: Float[Tensor, "1 D"],
    ) -> tuple[Float[Tensor, "4 D"], Float[Tensor, "2 M"], Float[Tensor, "1 D"]]:
        mel = torch.cat([mel_cache, mel])
        hidden = torch.cat([hidden_cache, _convolved(self.stem.conv1, mel)])
        return _convolved(self.stem.conv2, hidden), mel[MEL_PER_TOKEN:], hidden[MEL_PER_TOKEN:]


def _convolved(conv: CausalConv1d, x: Float[Tensor, "n C"]) -> Float[Tensor, "m D"]:
    y = F.conv1d(x.T.unsqueeze(0), conv.weight, conv.bias, stride=conv.stride)
    return F.gelu(y[0].T)


class EncoderChunk(nn.Module):
    """4 encoder frames through all layers, behind the P before them."""

    def __init__(self, encoder: Encoder, kept: StateKV | None):
        super().__init__()
        config = encoder.config
        self.encoder, self.kept = encoder, _named(self, kept)
        self.register_buffer("seen", seen_slots(FRAMES_PER_TOKEN, config.window))
        self.register_buffer("slots", torch.arange(self.seen.shape[1]).int())

    def forward(
        self,
        x: Float[Tensor, "4 D"],
        cos: Float[Tensor, "4 half"],
        sin: Float[Tensor, "4 half"],
        past: Int32[Tensor, "1"],
        *caches: Float[Tensor, "L H P K"],
    ) -> tuple[Tensor, ...]:
        config, kv = self.encoder.config, self.kept or HostKV(*caches)
        moving = self.slots + past >= config.window - 1  # the others are before the stream
        bias = torch.where(self.seen & moving, 0.0, MASKED)
        for index, layer in enumerate(self.encoder.layers):
            parts, y = layer.attention, layer.attention_norm(x)
            q = turn(heads_first(parts.q(y), config.heads), cos, sin)
            k = turn(heads_first(parts.k(y), config.heads), cos, sin)
            keys, values = kv.extend(index, k, heads_first(parts.v(y), config.heads))
            mixed = attend(q, keys, values, bias)
            x = x + parts.o(mixed.transpose(0, 1).reshape(FRAMES_PER_TOKEN, -1))
            x = x + _gated(layer.mlp, layer.mlp_norm(x))
        return self.encoder.norm(x), *kv.new()


class ProjectorGraph(nn.Module):
    """4 encoder frames -> the audio embedding of one token."""

    def __init__(self, projector: Projector):
        super().__init__()
        self.projector = projector

    def forward(self, frames: Float[Tensor, "4 D"]) -> tuple[Float[Tensor, "1 E"]]:
        hidden = F.gelu(self.projector.linear1(frames.reshape(1, -1)))
        return (self.projector.linear2(hidden),)


class DecoderStep(nn.Module):
    """One position: the previous token and the audio's embedding -> logits of the next token.

    The gains of one transcription delay are constants of the graph.
    """

    def __init__(self, decoder: Decoder, delay: int, kept: StateKV | None):
        super().__init__()
        self.decoder, self.kept = decoder, _named(self, kept)
        with torch.no_grad():
            self.register_buffer("gains", 1 + decoder.ada_scale(delay))
        self.register_buffer("slots", torch.arange(decoder.config.window).int())

    def forward(
        self,
        token: Int32[Tensor, "1"],
        audio: Float[Tensor, "1 E"],
        cos: Float[Tensor, "1 half"],
        sin: Float[Tensor, "1 half"],
        past: Int32[Tensor, "1"],
        *caches: Float[Tensor, "L H P K"],
    ) -> tuple[Tensor, ...]:
        config, kv = self.decoder.config, self.kept or HostKV(*caches)
        moving = self.slots + past >= config.window - 1  # the others are before the stream
        bias = torch.where(moving, 0.0, MASKED).unsqueeze(0)
        x = self.decoder.embed(token) + audio
        for index, layer in enumerate(self.decoder.layers):
            parts, y = layer.attention, layer.attention_norm(x)
            k = turn(heads_first(parts.k(y), config.kv_heads), cos, sin)
            keys, values = kv.extend(index, k, heads_first(parts.v(y), config.kv_heads))
            q = turn(heads_first(parts.q(y), config.heads), cos, sin)
            # Query heads that share a key-value head are rows of one product.
            q = q.reshape(config.kv_heads, config.heads // config.kv_heads, config.head_dim)
            x = x + parts.o(attend(q, keys, values, bias).reshape(1, -1))
            x = x + _gated(layer.mlp, layer.mlp_norm(x) * self.gains[index])
        return F.linear(self.decoder.norm(x), self.decoder.embed.weight), *kv.new()


def _named(module: nn.Module, kept: StateKV | None) -> StateKV | None:
    """Core ML finds a state by the name of the module's buffer."""
    if kept is not None:
        for name in KV:
            module.register_buffer(name, getattr(kept, name))
    return kept


def _gated(mlp: SwiGLU, x: Float[Tensor, "n D"]) -> Float[Tensor, "n D"]:
    return mlp.down(F.silu(mlp.gate(x)) * mlp.up(x))


def voxtral_graph(
    kind: str, model: VoxtralRealtime, *, delay: int | None = None, cache: Cache = "explicit"
) -> Graph:
    """One of `VOXTRAL_KINDS`; `delay` in tokens, the model's own where not said.

    With cache `mlstate` the encoder and the decoder keep their keys and values in Core ML.

    Raises:
        CoreMLError: unknown graph, a cache where the graph has none, or weights that are not FP32.
    """
    if kind not in VOXTRAL_KINDS:
        raise CoreMLError(f"no graph {kind!r} of a Voxtral; there are {', '.join(VOXTRAL_KINDS)}")
    if cache == "mlstate" and kind not in CACHED:
        raise CoreMLError(f"{kind} has no keys and values that Core ML could keep as MLState")
    if model.dtype != torch.float32:
        raise CoreMLError(f"graphs are made of FP32 weights, these are {model.dtype}; load as FP32")
    build = {
        "voxtral-conv-stem": _stem,
        "voxtral-encoder-chunk": _encoder,
        "voxtral-projector": _projector,
        "voxtral-decoder-step": _decoder,
    }[kind]
    return build(model.eval(), model.config.delay_tokens if delay is None else delay, cache)


def _stem(model: VoxtralRealtime, delay: int, cache: Cache) -> Graph:
    config = model.config
    mel, width = config.mel_bins, config.encoder.width
    caches = [("mel_cache", (2, mel), "2 M"), ("hidden_cache", (1, width), "1 D")]
    return Graph(
        "voxtral-conv-stem",
        StemGraph(model.stem),
        (_real("mel", (MEL_PER_TOKEN, mel), "8 M"), *(_real(*c) for c in caches)),
        (
            _real("x", (FRAMES_PER_TOKEN, width), "4 D"),
            *(_real(f"{n}_out", *c) for n, *c in caches),
        ),
        {"M": mel, "D": width},
        encoder_side=True,
        facts=CLOCK,
    )


def _encoder(model: VoxtralRealtime, delay: int, cache: Cache) -> Graph:
    config = model.config.encoder
    sizes = {"D": config.width, "L": config.layers, "H": config.heads, "K": config.head_dim}
    frames = (FRAMES_PER_TOKEN, config.width)
    inputs = (_real("x", frames, "4 D"), *_angles(FRAMES_PER_TOKEN, config.head_dim))
    return _cached(
        "voxtral-encoder-chunk",
        cache,
        lambda kept: EncoderChunk(model.encoder, kept),
        inputs,
        _real("frames", frames, "4 D"),
        (config.layers, config.heads, FRAMES_PER_TOKEN, config.head_dim),
        sizes | {"P": config.window - 1},
        {"window": config.window, **_turns(model.encoder.rotary), **CLOCK},
    )


def _decoder(model: VoxtralRealtime, delay: int, cache: Cache) -> Graph:
    config = model.config.decoder
    sizes = {"E": config.width, "V": config.vocab, "L": config.layers, "H": config.kv_heads}
    inputs = (
        Port("token", "int32", (1,), "1"),
        _real("audio", (1, config.width), "1 E"),
        *_angles(1, config.head_dim),
    )
    schedule = Schedule.of(model.config, delay)
    facts = {
        "delay_tokens": delay,
        "delay_ms": delay * TOKEN_MS,
        "left_pad_tokens": schedule.left_pad,
    }
    facts |= {"bos": schedule.bos, "streaming_pad": schedule.streaming_pad}
    return _cached(
        "voxtral-decoder-step",
        cache,
        lambda kept: DecoderStep(model.decoder, delay, kept),
        inputs,
        _real("logits", (1, config.vocab), "1 V"),
        (config.layers, config.kv_heads, 1, config.head_dim),
        sizes | {"K": config.head_dim, "P": config.window - 1},
        {"window": config.window, **_turns(model.decoder.rotary), **facts, **CLOCK},
    )


def _projector(model: VoxtralRealtime, delay: int, cache: Cache) -> Graph:
    width, audio = model.config.encoder.width, model.config.decoder.width
    return Graph(
        "voxtral-projector",
        ProjectorGraph(model.projector),
        (_real("frames", (FRAMES_PER_TOKEN, width), "4 D"),),
        (_real("audio", (1, audio), "1 E"),),
        {"D": width, "E": audio},
        encoder_side=True,
        facts=CLOCK,
    )


def _cached(
    kind: Kind,
    cache: Cache,
    build: Callable[[StateKV | None], nn.Module],
    inputs: tuple[Port, ...],
    output: Port,
    new: tuple[int, int, int, int],
    sizes: dict[str, int],
    facts: dict[str, Any],
) -> Graph:
    """A graph with keys and values, `new` of them a step, kept by the host or by Core ML."""
    layers, heads, steps, width = new
    kept = (layers, heads, sizes["P"], width)
    explicit = cache == "explicit"
    caches = tuple(_real(name, kept, "L H P K") for name in KV)
    return Graph(
        kind,
        build(None if explicit else StateKV(kept)),
        (*inputs, Port("past", "int32", (1,), "1"), *(caches if explicit else ())),
        (output, *(_real(f"{name}_new", new, f"L H {steps} K") for name in KV if explicit)),
        sizes,
        draws={"token": Draw(high=sizes.get("V", 2)), "past": Draw(high=sizes["P"] + 1)},
        wide=WIDE,
        encoder_side=kind == "voxtral-encoder-chunk",
        states=() if explicit else tuple(Port(n, "float16", kept, "L H P K") for n in KV),
        facts=facts,
    )


def _angles(steps: int, head_dim: int) -> tuple[Port, Port]:
    shape, axes = (steps, head_dim // 2), f"{steps} K/2"
    return _real("cos", shape, axes), _real("sin", shape, axes)


def _turns(rotary: Rotary) -> dict[str, list[float]]:
    """Radians a position of each pair, which the host multiplies by the position."""
    return {"rotary_frequencies": rotary.inv_freq.tolist()}


def _real(name: str, shape: tuple[int, ...], axes: str) -> Port:
    return Port(name, "float32", shape, axes)
