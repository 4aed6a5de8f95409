"""config.json of a Hugging Face checkpoint, both ways.

A missing field means what it means to transformers 5.24: its class defaults, which are not the
released values everywhere (the encoder's rotary theta is 1e4 there, 1e6 in the released model).
"""

from typing import Any

from vrt.voxtral.config import (
    FRAMES_PER_TOKEN,
    MEL_PER_TOKEN,
    TOKEN_MS,
    DecoderConfig,
    EncoderConfig,
    VoxtralConfig,
)
from vrt.voxtral.schedule import MAX_DELAY_TOKENS
from vrt.voxtral.weights.config_files import CheckpointError, Fields

MODEL_TYPE = "voxtral_realtime"
ADA_DIM = 32  # fixed in transformers

ENCODER_DEFAULTS = {
    "hidden_size": 1280,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "head_dim": 64,
    "intermediate_size": 5120,
    "sliding_window": 750,
    "rope_theta": 1e4,
    "rms_norm_eps": 1e-5,
    "num_mel_bins": 128,
}
DECODER_DEFAULTS = {
    "hidden_size": 3072,
    "num_hidden_layers": 26,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 9216,
    "sliding_window": 8192,
    "vocab_size": 131_072,
    "rope_theta": 1e6,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
# Older names of encoder fields, which transformers takes too.
ENCODER_ALIASES = {
    "d_model": "hidden_size",
    "encoder_layers": "num_hidden_layers",
    "encoder_attention_heads": "num_attention_heads",
    "encoder_ffn_dim": "intermediate_size",
}


def config_from_hf(content: dict[str, Any], where: str = "config.json") -> VoxtralConfig:
    """The engine's configuration of a config.json.

    Raises `CheckpointError` for another model type and for settings that the engine does not have.
    """
    top = Fields(where, content, {"default_num_delay_tokens": 6})
    if content.get("model_type") != MODEL_TYPE:
        raise CheckpointError(
            f"{where} is of a {content.get('model_type', 'nameless')!r} model;"
            f" this engine runs {MODEL_TYPE!r} checkpoints only"
        )
    top.insist("downsample_factor", FRAMES_PER_TOKEN)
    top.insist("audio_length_per_tok", MEL_PER_TOKEN)
    top.insist("projector_hidden_act", "gelu")
    top.insist("quantization_config", None)
    text = top.section("text_config", DECODER_DEFAULTS)
    audio = _with_aliases(top.section("audio_config", ENCODER_DEFAULTS))
    for part in (text, audio):
        part.insist("hidden_act", "silu")
    try:
        return VoxtralConfig(
            encoder=_encoder(audio),
            decoder=_decoder(text),
            mel_bins=audio.whole("num_mel_bins"),
            bos=text.whole("bos_token_id"),
            eos=_eos(text),
            delay_tokens=_delay(top),
        )
    except CheckpointError:
        raise
    except ValueError as error:
        raise CheckpointError(f"{where}: {error}") from error


def config_to_hf(config: VoxtralConfig, dtype: str) -> dict[str, Any]:
    """The config.json that transformers reads; `dtype` as torch prints it, without `torch.`.

    Raises ValueError for a delay-conditioning width other than 32, which that layout cannot say.
    """
    enc, dec = config.encoder, config.decoder
    if dec.ada_dim != ADA_DIM:
        raise ValueError(
            f"ada_dim {dec.ada_dim} cannot be saved: the Hugging Face layout has {ADA_DIM} only"
        )
    audio = _sizes(enc) | {"model_type": f"{MODEL_TYPE}_encoder", "num_mel_bins": config.mel_bins}
    text = _sizes(dec) | {
        "model_type": f"{MODEL_TYPE}_text",
        "num_key_value_heads": dec.kv_heads,
        "vocab_size": dec.vocab,
        "bos_token_id": config.bos,
        "eos_token_id": config.eos,
        "tie_word_embeddings": True,
    }
    return {
        "architectures": ["VoxtralRealtimeForConditionalGeneration"],
        "audio_config": audio,
        "audio_length_per_tok": MEL_PER_TOKEN,
        "default_num_delay_tokens": config.delay_tokens,
        "downsample_factor": FRAMES_PER_TOKEN,
        "dtype": dtype,
        "model_type": MODEL_TYPE,
        "projector_hidden_act": "gelu",
        "text_config": text,
        "tie_word_embeddings": True,
    }


def _sizes(part: EncoderConfig | DecoderConfig) -> dict[str, Any]:
    """What both transformers have."""
    return {
        "hidden_size": part.width,
        "num_hidden_layers": part.layers,
        "num_attention_heads": part.heads,
        "head_dim": part.head_dim,
        "intermediate_size": part.ff,
        "hidden_act": "silu",
        "sliding_window": part.window,
        "rms_norm_eps": part.eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": part.theta},
    }


def _encoder(audio: Fields) -> EncoderConfig:
    audio.insist("num_key_value_heads", audio.whole("num_attention_heads"), None)
    return EncoderConfig(
        width=audio.whole("hidden_size"),
        layers=audio.whole("num_hidden_layers"),
        heads=audio.whole("num_attention_heads"),
        head_dim=_head_dim(audio),
        ff=audio.whole("intermediate_size"),
        window=audio.whole("sliding_window"),
        theta=_theta(audio),
        eps=audio.real("rms_norm_eps"),
    )


def _decoder(text: Fields) -> DecoderConfig:
    heads = text.whole("num_attention_heads")
    one_each = text.get("num_key_value_heads") is None
    return DecoderConfig(
        width=text.whole("hidden_size"),
        layers=text.whole("num_hidden_layers"),
        heads=heads,
        kv_heads=heads if one_each else text.whole("num_key_value_heads"),
        head_dim=_head_dim(text),
        ff=text.whole("intermediate_size"),
        window=text.whole("sliding_window"),
        vocab=text.whole("vocab_size"),
        ada_dim=ADA_DIM,
        theta=_theta(text),
        eps=text.real("rms_norm_eps"),
    )


def _head_dim(part: Fields) -> int:
    if part.get("head_dim") is not None:
        return part.whole("head_dim")
    return part.whole("hidden_size") // part.whole("num_attention_heads")


def _theta(part: Fields) -> float:
    """Rotary theta: of `rope_parameters`, else beside it as older files have it, else default."""
    key = "rope_scaling" if part.content.get("rope_scaling") else "rope_parameters"
    rope = part.section(key, {"rope_theta": part.get("rope_theta")})
    rope.insist("rope_type", "default")
    rope.insist("type", "default")
    for place in (part, rope):
        place.insist("partial_rotary_factor", 1.0, None)
    return rope.real("rope_theta")


def _delay(top: Fields) -> int:
    tokens = top.whole("default_num_delay_tokens")
    if tokens > MAX_DELAY_TOKENS:
        raise CheckpointError(
            f"{top.where}.default_num_delay_tokens is {tokens}, not 1..{MAX_DELAY_TOKENS}"
            f" ({TOKEN_MS} ms each)"
        )
    return tokens


def _eos(text: Fields) -> int | None:
    value = text.get("eos_token_id")
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise CheckpointError(f"{text.where}.eos_token_id is {value!r}; this engine stops at one id")


def _with_aliases(audio: Fields) -> Fields:
    renamed = {ENCODER_ALIASES.get(key, key): value for key, value in audio.content.items()}
    return Fields(audio.where, renamed, audio.defaults)
