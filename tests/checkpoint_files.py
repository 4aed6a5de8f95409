"""Small checkpoints in the two real layouts, written without this package's own tables.

The Hugging Face one is transformers' `save_pretrained` of its own model; the Mistral one is made
from that model by the rules of the released file, spelled out here.
"""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import VoxtralRealtimeConfig, VoxtralRealtimeForConditionalGeneration

from vrt.paths import data_dir

HFModel = VoxtralRealtimeForConditionalGeneration
VOCABULARY = data_dir() / "models" / "random-tiny" / "tekken.json"
CLIP = data_dir() / "audio" / "sense_and_sensibility_0880.flac"  # 3 s, wraps both windows

AUDIO = {
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "head_dim": 16,
    "sliding_window": 24,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
}
TEXT = {
    "vocab_size": 1472,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "sliding_window": 45,
}
GAINS = {"linear_2": 4.0, "mlp": 3.0, "ada_rms_norm": 1.0}  # over sqrt(inputs); others 2


def hf_model(seed: int = 0, dtype: torch.dtype = torch.float32) -> HFModel:
    """Random, with biases and norms that matter, and greedy tokens that vary."""
    model = HFModel(VoxtralRealtimeConfig(audio_config=AUDIO, text_config=TEXT)).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if name == "model.language_model.norm.weight":
                weight.copy_(noise)
            elif "norm.weight" in name:
                weight.copy_(1 + 0.1 * noise)
            elif weight.dim() == 1:
                weight.copy_(0.1 * noise)
            else:
                gain = next((g for part, g in GAINS.items() if part in name), 2.0)
                weight.copy_(gain * noise * weight[0].numel() ** -0.5)
    model.tie_weights()
    return model.to(dtype)


def write_hf(model: HFModel, folder: Path, max_shard_size: str = "5GB") -> Path:
    model.save_pretrained(folder, max_shard_size=max_shard_size)
    shutil.copyfile(VOCABULARY, folder / "tekken.json")
    return folder


def write_mistral(model: HFModel, folder: Path, shards: int = 1, interleave: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    tensors = mistral_tensors(model, interleave)
    names = sorted(tensors)
    for n in range(shards):
        part = {name: tensors[name] for name in names[n::shards]}
        numbered = f"consolidated-{n + 1:05}-of-{shards:05}.safetensors"
        save_file(part, folder / ("consolidated.safetensors" if shards == 1 else numbered))
    (folder / "params.json").write_text(json.dumps(params(model)))
    shutil.copyfile(VOCABULARY, folder / "tekken.json")
    return folder


def params(model: HFModel) -> dict:
    """params.json as the released one is said to look."""
    text, audio = model.config.text_config, model.config.audio_config
    encoder = {
        "audio_encoding_args": {
            "sampling_rate": 16000,
            "frame_rate": 12.5,
            "num_mel_bins": audio.num_mel_bins,
            "hop_length": 160,
            "window_size": 400,
            "chunk_length_s": None,
            "global_log_mel_max": 1.5,
            "transcription_format": "streaming",
        },
        "dim": audio.hidden_size,
        "n_layers": audio.num_hidden_layers,
        "head_dim": audio.head_dim,
        "hidden_dim": audio.intermediate_size,
        "n_heads": audio.num_attention_heads,
        "vocab_size": text.vocab_size,
        "n_kv_heads": audio.num_attention_heads,
        "use_biases": True,
        "use_cache": False,
        "rope_theta": audio.rope_parameters["rope_theta"],
        "causal": True,
        "norm_eps": audio.rms_norm_eps,
        "pos_embed": "rope",
        "max_source_positions": None,
        "ffn_type": "swiglu",
        "norm_type": "rms_norm",
        "sliding_window": audio.sliding_window,
    }
    return {
        "dim": text.hidden_size,
        "n_layers": text.num_hidden_layers,
        "head_dim": text.head_dim,
        "hidden_dim": text.intermediate_size,
        "n_heads": text.num_attention_heads,
        "n_kv_heads": text.num_key_value_heads,
        "use_biases": False,
        "causal": True,
        "rope_theta": text.rope_parameters["rope_theta"],
        "norm_eps": text.rms_norm_eps,
        "vocab_size": text.vocab_size,
        "model_parallel": 1,
        "tied_embeddings": True,
        "sliding_window": text.sliding_window,
        "model_max_length": 131072,
        "multimodal": {
            "whisper_model_args": {
                "encoder_args": encoder,
                "downsample_args": {"downsample_factor": 4},
            }
        },
        "ada_rms_norm_t_cond": True,
        "ada_rms_norm_t_cond_dim": 32,
    }


def mistral_tensors(model: HFModel, interleave: bool) -> dict[str, Tensor]:
    tower, text = model.model.audio_tower, model.model.language_model
    projector = model.model.multi_modal_projector
    streams = "mm_streams_embeddings.embedding_module."
    whisper = streams + "whisper_encoder."
    turn = interleaved if interleave else lambda rows, head_dim: rows.clone()
    out: dict[str, Tensor] = {
        streams + "tok_embeddings.weight": text.embed_tokens.weight,
        whisper + "transformer.norm.weight": tower.norm.weight,
        streams + "audio_language_projection.0.weight": projector.linear_1.weight,
        streams + "audio_language_projection.2.weight": projector.linear_2.weight,
        "norm.weight": text.norm.weight,
    }
    for n, conv in enumerate((tower.embedder.conv1, tower.embedder.conv2)):
        out[f"{whisper}conv_layers.{n}.conv.weight"] = conv.weight
        out[f"{whisper}conv_layers.{n}.conv.bias"] = conv.bias
    for n, layer in enumerate(tower.layers):
        at = f"{whisper}transformer.layers.{n}."
        attention, head_dim = layer.self_attn, model.config.audio_config.head_dim
        out[at + "attention.wq.weight"] = turn(attention.q_proj.weight, head_dim)
        out[at + "attention.wq.bias"] = turn(attention.q_proj.bias, head_dim)
        out[at + "attention.wk.weight"] = turn(attention.k_proj.weight, head_dim)
        out[at + "attention.wv.weight"] = attention.v_proj.weight
        out[at + "attention.wv.bias"] = attention.v_proj.bias
        out[at + "attention.wo.weight"] = attention.o_proj.weight
        out[at + "attention.wo.bias"] = attention.o_proj.bias
        out[at + "attention_norm.weight"] = layer.self_attn_layer_norm.weight
        out[at + "ffn_norm.weight"] = layer.final_layer_norm.weight
        out[at + "feed_forward.w1.weight"] = layer.mlp.gate_proj.weight
        out[at + "feed_forward.w2.weight"] = layer.mlp.down_proj.weight
        out[at + "feed_forward.w2.bias"] = layer.mlp.down_proj.bias
        out[at + "feed_forward.w3.weight"] = layer.mlp.up_proj.weight
    for n, layer in enumerate(text.layers):
        at = f"layers.{n}."
        attention, head_dim = layer.self_attn, model.config.text_config.head_dim
        out[at + "attention.wq.weight"] = turn(attention.q_proj.weight, head_dim)
        out[at + "attention.wk.weight"] = turn(attention.k_proj.weight, head_dim)
        out[at + "attention.wv.weight"] = attention.v_proj.weight
        out[at + "attention.wo.weight"] = attention.o_proj.weight
        out[at + "attention_norm.weight"] = layer.input_layernorm.weight
        out[at + "ffn_norm.weight"] = layer.post_attention_layernorm.weight
        out[at + "ada_rms_norm_t_cond.0.weight"] = layer.ada_rms_norm.linear1.weight
        out[at + "ada_rms_norm_t_cond.2.weight"] = layer.ada_rms_norm.linear2.weight
        out[at + "feed_forward.w1.weight"] = layer.mlp.gate_proj.weight
        out[at + "feed_forward.w2.weight"] = layer.mlp.down_proj.weight
        out[at + "feed_forward.w3.weight"] = layer.mlp.up_proj.weight
    return {name: tensor.detach().clone() for name, tensor in out.items()}


def interleaved(rows: Tensor, head_dim: int) -> Tensor:
    """Row i of a head's first half and row i of its second become neighbours, one row at a time."""
    out, half = torch.empty_like(rows), head_dim // 2
    for head in range(0, len(rows), head_dim):
        for i in range(half):
            out[head + 2 * i] = rows[head + i]
            out[head + 2 * i + 1] = rows[head + half + i]
    return out
