"""What every tensor is called: here, in both kinds of files, and in the memory of transformers.

Rows of q and k are rotary pairs. Ours and Hugging Face's are half-split: pair i of a head of width
K is rows (i, i + K/2). Mistral's are interleaved: rows (2i, 2i + 1).
Source: `state_dict` of transformers 5.24; the Mistral names from public readers of the released
file (711 tensors).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from vrt.voxtral.config import VoxtralConfig


class Layout(Enum):
    """The two ways in which checkpoints of this family are published."""

    HF = "Hugging Face"
    MISTRAL = "Mistral"


@dataclass(frozen=True, slots=True)
class Name:
    """One tensor's names. `rotary_heads`: how many heads' rows are rotary pairs; 0 where none."""

    ours: str
    hf_file: str
    hf: str
    mistral: str
    rotary_heads: int = 0


Table = dict[str, tuple[str, str]]  # ours: (Hugging Face, Mistral), after the part's prefix

STEM: Table = {
    "conv1.weight": ("embedder.conv1.weight", "conv_layers.0.conv.weight"),
    "conv1.bias": ("embedder.conv1.bias", "conv_layers.0.conv.bias"),
    "conv2.weight": ("embedder.conv2.weight", "conv_layers.1.conv.weight"),
    "conv2.bias": ("embedder.conv2.bias", "conv_layers.1.conv.bias"),
}
PROJECTOR: Table = {
    "linear1.weight": ("linear_1.weight", "0.weight"),
    "linear2.weight": ("linear_2.weight", "2.weight"),
}
ATTENTION: Table = {
    "attention.q.weight": ("self_attn.q_proj.weight", "attention.wq.weight"),
    "attention.k.weight": ("self_attn.k_proj.weight", "attention.wk.weight"),
    "attention.v.weight": ("self_attn.v_proj.weight", "attention.wv.weight"),
    "attention.o.weight": ("self_attn.o_proj.weight", "attention.wo.weight"),
}
MLP: Table = {
    "mlp.gate.weight": ("mlp.gate_proj.weight", "feed_forward.w1.weight"),
    "mlp.up.weight": ("mlp.up_proj.weight", "feed_forward.w3.weight"),
    "mlp.down.weight": ("mlp.down_proj.weight", "feed_forward.w2.weight"),
}
ENCODER_LAYER: Table = ATTENTION | {
    "attention_norm.weight": ("self_attn_layer_norm.weight", "attention_norm.weight"),
    "attention.q.bias": ("self_attn.q_proj.bias", "attention.wq.bias"),
    "attention.v.bias": ("self_attn.v_proj.bias", "attention.wv.bias"),
    "attention.o.bias": ("self_attn.o_proj.bias", "attention.wo.bias"),
    "mlp_norm.weight": ("final_layer_norm.weight", "ffn_norm.weight"),
    **MLP,
    "mlp.down.bias": ("mlp.down_proj.bias", "feed_forward.w2.bias"),
}
DECODER_LAYER: Table = ATTENTION | {
    "attention_norm.weight": ("input_layernorm.weight", "attention_norm.weight"),
    "mlp_norm.weight": ("post_attention_layernorm.weight", "ffn_norm.weight"),
    "ada.linear1.weight": ("ada_rms_norm.linear1.weight", "ada_rms_norm_t_cond.0.weight"),
    "ada.linear2.weight": ("ada_rms_norm.linear2.weight", "ada_rms_norm_t_cond.2.weight"),
    **MLP,
}
NORM: Table = {"norm.weight": ("norm.weight", "norm.weight")}
EMBED: Table = {"embed.weight": ("embed_tokens.weight", "tok_embeddings.weight")}

STREAMS = "mm_streams_embeddings.embedding_module."
WHISPER = STREAMS + "whisper_encoder."
HF_DECODER = "language_model.model."

# A copy of the embeddings that some writers add as an output matrix, and other spellings.
OUTPUT_MATRIX = {
    Layout.HF: ("language_model.lm_head.weight", "lm_head.weight"),
    Layout.MISTRAL: ("output.weight",),
}
OTHER_SPELLINGS = {"tok_embeddings.weight": "decoder.embed.weight"}


def names(config: VoxtralConfig) -> list[Name]:
    """All tensors of a model of this size, part by part."""
    enc, dec = config.encoder, config.decoder
    projector = ("projector.", "multi_modal_projector.", STREAMS + "audio_language_projection.")
    encoder = ("encoder.", "audio_tower.", WHISPER + "transformer.")
    decoder = ("decoder.", HF_DECODER, "")
    return [
        *_part(STEM, ("stem.", "audio_tower.", WHISPER)),
        *_layers(ENCODER_LAYER, encoder, enc.layers, enc.heads, enc.heads),
        *_part(NORM, encoder),
        *_part(PROJECTOR, projector),
        *_part(EMBED, ("decoder.", HF_DECODER, STREAMS)),
        *_layers(DECODER_LAYER, decoder, dec.layers, dec.heads, dec.kv_heads),
        *_part(NORM, decoder),
    ]


def spellings(config: VoxtralConfig, layout: Layout) -> dict[str, Name]:
    """Every file name that `layout` accepts, and the tensor it means.

    Of Hugging Face's two forms transformers reads either, so both are taken.
    """
    table = names(config)
    if layout is Layout.HF:
        return {n.hf_file: n for n in table} | {n.hf: n for n in table}
    by_ours = {n.ours: n for n in table}
    aliases = {file: by_ours[ours] for file, ours in OTHER_SPELLINGS.items()}
    return {n.mistral: n for n in table} | aliases


def _layers(
    table: Table, prefix: tuple[str, str, str], count: int, q_heads: int, k_heads: int
) -> Iterator[Name]:
    rotary = {"attention.q": q_heads, "attention.k": k_heads}
    for number in range(count):
        ours, hf, mistral = (f"{start}layers.{number}." for start in prefix)
        yield from _part(table, (ours, hf, mistral), rotary)


def _part(
    table: Table, prefix: tuple[str, str, str], rotary: dict[str, int] | None = None
) -> Iterator[Name]:
    ours, hf, mistral = prefix
    for end, (hf_end, mistral_end) in table.items():
        heads = (rotary or {}).get(end.rpartition(".")[0], 0)
        file = hf + hf_end
        yield Name(ours + end, file, _in_memory(file), mistral + mistral_end, heads)


def _in_memory(hf_file: str) -> str:
    """In transformers `language_model.model.X` is `model.language_model.X`."""
    return "model." + hf_file.replace(HF_DECODER, "language_model.")
