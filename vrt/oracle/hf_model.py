"""A Voxtral model of transformers, built from our sizes and from weights under its own names."""

from importlib.metadata import version

import torch
import transformers
from transformers import (
    GenerationConfig,
    VoxtralRealtimeConfig,
    VoxtralRealtimeEncoderConfig,
    VoxtralRealtimeForConditionalGeneration,
    VoxtralRealtimeTextConfig,
)

from vrt.oracle.weights import Weights
from vrt.voxtral.config import DecoderConfig, EncoderConfig, VoxtralConfig

VERSION: str = transformers.__version__
ADA_DIM = 32  # hidden width of the delay's MLP: fixed in transformers
TIED = "lm_head.weight"


def versions() -> dict[str, str]:
    """Everything that the numbers depend on."""
    return {
        "transformers": VERSION,
        "mistral_common": version("mistral-common"),
        "torch": torch.__version__,
    }


class OracleError(RuntimeError):
    """The reference cannot answer this problem, or does not agree with itself on it."""


def build(config: VoxtralConfig, weights: Weights) -> VoxtralRealtimeForConditionalGeneration:
    """The model in fp32, in eval mode, holding exactly `weights` (`lm_head` is tied)."""
    if config.decoder.ada_dim != ADA_DIM:
        raise OracleError(
            f"transformers {VERSION} fixes the delay MLP's hidden width at {ADA_DIM}, the problem"
            f" has ada_dim {config.decoder.ada_dim}"
        )
    if min(config.encoder.window, config.decoder.window) < 2:
        raise OracleError(f"transformers {VERSION} keeps every key where the window is 1; use 2")
    model = VoxtralRealtimeForConditionalGeneration(model_config(config))
    found = model.load_state_dict(weights, strict=False)
    wrong = [*found.unexpected_keys, *(name for name in found.missing_keys if name != TIED)]
    if wrong:
        raise OracleError(f"weights do not fit the model: {', '.join(wrong)}")
    model.tie_weights()
    model.generation_config = GenerationConfig(eos_token_id=config.eos, do_sample=False)
    return model.to(torch.float32).eval()


def model_config(config: VoxtralConfig) -> VoxtralRealtimeConfig:
    """Our sizes under the names of transformers."""
    return VoxtralRealtimeConfig(
        audio_config=_encoder(config.encoder, config.mel_bins),
        text_config=_decoder(config.decoder),
    )


def _encoder(encoder: EncoderConfig, mel_bins: int) -> VoxtralRealtimeEncoderConfig:
    return VoxtralRealtimeEncoderConfig(
        num_mel_bins=mel_bins,
        hidden_size=encoder.width,
        intermediate_size=encoder.ff,
        num_hidden_layers=encoder.layers,
        num_attention_heads=encoder.heads,
        head_dim=encoder.head_dim,
        sliding_window=encoder.window,
        rms_norm_eps=encoder.eps,
        rope_parameters={"rope_type": "default", "rope_theta": encoder.theta},
    )


def _decoder(decoder: DecoderConfig) -> VoxtralRealtimeTextConfig:
    return VoxtralRealtimeTextConfig(
        vocab_size=decoder.vocab,
        hidden_size=decoder.width,
        intermediate_size=decoder.ff,
        num_hidden_layers=decoder.layers,
        num_attention_heads=decoder.heads,
        num_key_value_heads=decoder.kv_heads,
        head_dim=decoder.head_dim,
        sliding_window=decoder.window,
        rms_norm_eps=decoder.eps,
        rope_parameters={"rope_type": "default", "rope_theta": decoder.theta},
    )
