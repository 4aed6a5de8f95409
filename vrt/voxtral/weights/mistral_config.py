"""params.json of a Mistral checkpoint.

Sizes have no defaults: a file that does not say them is refused. Source: the public readers of the
released file, which agree on its keys.
"""

from typing import Any

from vrt.voxtral.config import (
    FRAMES_PER_TOKEN,
    HOP,
    N_FFT,
    SAMPLE_RATE,
    TOKEN_SECONDS,
    DecoderConfig,
    EncoderConfig,
    VoxtralConfig,
)
from vrt.voxtral.mel import LOG_MEL_MAX
from vrt.voxtral.weights.config_files import CheckpointError, Fields


def config_from_params(content: dict[str, Any], where: str = "params.json") -> VoxtralConfig:
    """The engine's configuration of a params.json; prompt ids and paddings are tekken.json's.

    Raises `CheckpointError` for a model without a streaming audio encoder, for missing sizes, and
    for settings that the engine does not have.
    """
    text = Fields(where, content)
    if not isinstance(content.get("multimodal"), dict):
        raise CheckpointError(
            f"{where} has no multimodal section: this is no speech model of the Voxtral family"
        )
    whisper = text.section("multimodal").section("whisper_model_args")
    audio = whisper.section("encoder_args")
    whisper.section("downsample_args").insist("downsample_factor", FRAMES_PER_TOKEN)
    _insist_on_text(text)
    _insist_on_audio(audio)
    try:
        return VoxtralConfig(
            encoder=_encoder(audio), decoder=_decoder(text), mel_bins=_mel_bins(audio)
        )
    except CheckpointError:
        raise
    except ValueError as error:
        raise CheckpointError(f"{where}: {error}") from error


def _insist_on_text(text: Fields) -> None:
    if text.content.get("ada_rms_norm_t_cond") is not True:
        raise CheckpointError(
            f"{text.where}.ada_rms_norm_t_cond is not true: this is no Voxtral Realtime model"
        )
    text.insist("use_biases", False, None)
    text.insist("causal", True, None)
    text.insist("moe", None)
    text.insist("quantization", None)


def _insist_on_audio(audio: Fields) -> None:
    audio.insist("pos_embed", "rope")
    audio.insist("ffn_type", "swiglu")
    audio.insist("norm_type", "rms_norm")
    audio.insist("use_biases", True, None)
    audio.insist("causal", True, None)
    audio.insist("n_kv_heads", audio.whole("n_heads"), None)
    sound = audio.section("audio_encoding_args")
    sound.insist("sampling_rate", SAMPLE_RATE)
    sound.insist("frame_rate", 1 / TOKEN_SECONDS)
    sound.insist("hop_length", HOP)
    sound.insist("window_size", N_FFT)
    sound.insist("transcription_format", "streaming", None)
    sound.insist("global_log_mel_max", LOG_MEL_MAX)


def _encoder(audio: Fields) -> EncoderConfig:
    return EncoderConfig(
        width=audio.whole("dim"),
        layers=audio.whole("n_layers"),
        heads=audio.whole("n_heads"),
        head_dim=audio.whole("head_dim"),
        ff=audio.whole("hidden_dim"),
        window=audio.whole("sliding_window"),
        theta=audio.real("rope_theta"),
        eps=audio.real("norm_eps"),
    )


def _decoder(text: Fields) -> DecoderConfig:
    return DecoderConfig(
        width=text.whole("dim"),
        layers=text.whole("n_layers"),
        heads=text.whole("n_heads"),
        kv_heads=text.whole("n_kv_heads"),
        head_dim=text.whole("head_dim"),
        ff=text.whole("hidden_dim"),
        window=text.whole("sliding_window"),
        vocab=text.whole("vocab_size"),
        ada_dim=text.whole("ada_rms_norm_t_cond_dim"),
        theta=text.real("rope_theta"),
        eps=text.real("norm_eps"),
    )


def _mel_bins(audio: Fields) -> int:
    return audio.section("audio_encoding_args").whole("num_mel_bins")
