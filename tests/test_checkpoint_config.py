"""config.json means what it means to transformers; params.json means what the reader of it means.

Whatever the engine does not have is refused by name.
"""

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from checkpoint_files import AUDIO, TEXT, hf_model, params
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import VoxtralRealtimeConfig

from vrt.voxtral.config import (
    LARGEST,
    MOST_LEFT_PAD,
    DecoderConfig,
    EncoderConfig,
    VoxtralConfig,
)
from vrt.voxtral.decoder import RING_SPARE
from vrt.voxtral.schedule import MAX_DELAY_TOKENS, Schedule
from vrt.voxtral.weights.config_files import CheckpointError
from vrt.voxtral.weights.hf_config import config_from_hf, config_to_hf
from vrt.voxtral.weights.mistral_config import config_from_params

ROPE = st.one_of(
    st.none(),
    st.just({}),
    st.just({"rope_type": "default"}),
    st.floats(1e3, 1e7).map(lambda theta: {"rope_theta": theta}),
    st.floats(1e3, 1e7).map(lambda theta: {"rope_theta": theta, "rope_type": "default"}),
)
SHARED = {
    "hidden_size": st.sampled_from([64, 128]),  # head_dim None: even over 32 heads too
    "intermediate_size": st.integers(1, 99),
    "num_hidden_layers": st.integers(1, 5),
    "num_attention_heads": st.sampled_from([2, 4, 8]),
    "sliding_window": st.integers(2, 900),
    "rms_norm_eps": st.sampled_from([1e-5, 1e-6, 1e-3]),
    "rope_theta": st.sampled_from([1e4, 5e5, 1e6]),
    "rope_parameters": ROPE,
}
TEXT_FIELDS = SHARED | {
    "num_attention_heads": st.sampled_from([8, 16]),  # a multiple of the default 8 kv heads
    "num_key_value_heads": st.sampled_from([1, 2, 8]),
    "head_dim": st.sampled_from([None, 8, 12]),
    "vocab_size": st.integers(40, 200_000),
    "bos_token_id": st.integers(1, 9),
    "eos_token_id": st.sampled_from([None, 2, 7, [3]]),
}
AUDIO_FIELDS = SHARED | {
    "head_dim": st.sampled_from([8, 12]),
    "num_mel_bins": st.sampled_from([80, 128]),
    "d_model": st.just(64),
    "encoder_layers": st.integers(1, 5),
    "encoder_ffn_dim": st.integers(1, 99),
}
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "text_config": st.fixed_dictionaries({}, optional=TEXT_FIELDS),
        "audio_config": st.fixed_dictionaries({}, optional=AUDIO_FIELDS).filter(
            lambda audio: (
                not {"d_model", "hidden_size"} <= audio.keys()
                and not {"encoder_layers", "num_hidden_layers"} <= audio.keys()
                and not {"encoder_ffn_dim", "intermediate_size"} <= audio.keys()
            )
        ),
        "default_num_delay_tokens": st.integers(1, 30),
    },
)


def as_transformers_reads(content: dict[str, Any]) -> VoxtralConfig:
    # Through JSON, as from a file: transformers writes its defaults into the dicts it is given,
    # and Hypothesis may put one dict into two places, where a deep copy would keep them one.
    whole = VoxtralRealtimeConfig(**json.loads(json.dumps(content)))
    text, audio = whole.text_config, whole.audio_config
    eos = text.eos_token_id
    return VoxtralConfig(
        encoder=EncoderConfig(
            width=audio.hidden_size,
            layers=audio.num_hidden_layers,
            heads=audio.num_attention_heads,
            head_dim=audio.head_dim,
            ff=audio.intermediate_size,
            window=audio.sliding_window,
            theta=audio.rope_parameters["rope_theta"],
            eps=audio.rms_norm_eps,
        ),
        decoder=DecoderConfig(
            width=text.hidden_size,
            layers=text.num_hidden_layers,
            heads=text.num_attention_heads,
            kv_heads=text.num_key_value_heads,
            head_dim=text.head_dim,
            ff=text.intermediate_size,
            window=text.sliding_window,
            vocab=text.vocab_size,
            ada_dim=32,
            theta=text.rope_parameters["rope_theta"],
            eps=text.rms_norm_eps,
        ),
        mel_bins=audio.num_mel_bins,
        bos=text.bos_token_id,
        eos=eos[0] if isinstance(eos, list) else eos,
        delay_tokens=whole.default_num_delay_tokens,
    )


@given(CONFIGS)
@settings(max_examples=150)
def test_partial_configs_mean_what_transformers_makes_of_them(content: dict[str, Any]) -> None:
    content = {"model_type": "voxtral_realtime", **content}
    assert config_from_hf(content) == as_transformers_reads(content)


def test_no_sizes_at_all_means_the_class_defaults() -> None:
    found = config_from_hf({"model_type": "voxtral_realtime"})
    assert found == as_transformers_reads({})
    assert found.encoder.theta == 1e4 != VoxtralConfig().encoder.theta  # the class default
    assert found.decoder == DecoderConfig()


@pytest.mark.parametrize(
    "config",
    [
        VoxtralConfig(),
        VoxtralConfig(
            EncoderConfig(36, 2, 3, 10, 40, window=7, theta=1234.5, eps=1e-4),
            DecoderConfig(44, 2, 6, 3, 18, 52, window=5, vocab=77, theta=77.0, eps=1e-3),
            mel_bins=80,
            bos=3,
            eos=None,
            delay_tokens=9,
        ),
    ],
)
def test_written_configs_read_the_same_here_and_in_transformers(config: VoxtralConfig) -> None:
    content = json.loads(json.dumps(config_to_hf(config, "bfloat16")))
    assert config_from_hf(content) == config == as_transformers_reads(content)


def test_a_width_that_the_layout_cannot_say_is_refused() -> None:
    config = VoxtralConfig(decoder=DecoderConfig(ada_dim=16))
    with pytest.raises(ValueError, match="ada_dim 16 cannot be saved"):
        config_to_hf(config, "float32")


def changed(content: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    """A copy with the dotted `place` set to `value`, or removed where `value` is ..."""
    content = copy.deepcopy(content)
    *path, last = place.split(".")
    at = content
    for key in path:
        at = at[key]
    at[last] = value
    if value is ...:
        del at[last]
    return content


HF = {"model_type": "voxtral_realtime", "text_config": TEXT, "audio_config": AUDIO}


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        ("model_type", "whisper", "of a 'whisper' model; this engine runs 'voxtral_realtime'"),
        ("model_type", ..., "of a 'nameless' model"),
        ("downsample_factor", 2, "downsample_factor is 2; this engine knows 4 only"),
        ("audio_length_per_tok", 4, "audio_length_per_tok is 4"),
        ("projector_hidden_act", "relu", "projector_hidden_act is 'relu'"),
        ("quantization_config", {"bits": 4}, "quantization_config is {'bits': 4}"),
        ("text_config.hidden_act", "gelu", "text_config.hidden_act is 'gelu'"),
        ("audio_config.hidden_act", "gelu", "audio_config.hidden_act is 'gelu'"),
        ("text_config.sliding_window", None, "text_config.sliding_window is None"),
        ("audio_config.sliding_window", None, "audio_config.sliding_window is None"),
        ("text_config.rope_parameters", {"rope_type": "yarn"}, "rope_parameters.rope_type is 'ya"),
        ("text_config.rope_scaling", {"type": "linear"}, "rope_scaling.type is 'linear'"),
        ("audio_config.rope_parameters.rope_type", "llama3", "rope_type is 'llama3'"),
        ("audio_config.rope_parameters.rope_theta", "big", "rope_theta is 'big', not a positive"),
        ("audio_config.rope_parameters.partial_rotary_factor", 0.5, "partial_rotary_factor is 0.5"),
        ("audio_config.num_key_value_heads", 2, "num_key_value_heads is 2; this engine knows 4"),
        ("text_config.hidden_size", 64.5, "text_config.hidden_size is 64.5, not a positive whole"),
        ("text_config.vocab_size", True, "text_config.vocab_size is True"),
        ("text_config.rms_norm_eps", 0, "rms_norm_eps is 0, not a positive number"),
        ("text_config.eos_token_id", [2, 5], "eos_token_id is [2, 5]; this engine stops at one"),
        ("text_config", 7, "config.json.text_config is 7, not an object"),
        ("text_config.num_key_value_heads", 3, "4 query heads do not divide into 3 kv heads"),
        ("audio_config.head_dim", 15, "encoder head_dim 15 is odd"),
        ("text_config.vocab_size", 30, "need a vocabulary larger than 30"),
        (
            "text_config.sliding_window",
            10**9,
            "decoder window is 1000000000, not a whole number of",
        ),
        ("audio_config.sliding_window", 10**20, "encoder window is 100000000000000000000, not"),
        ("audio_config.num_mel_bins", 10**12, "mel_bins is 1000000000000, not a whole number of 1"),
        ("text_config.num_hidden_layers", 2 * 10**7, "decoder layers is 20000000, not a whole"),
        ("audio_config.hidden_size", 10**19, "encoder width is 10000000000000000000, not"),
        ("text_config.hidden_size", 65, "decoder width 65 is odd"),
        ("text_config.rms_norm_eps", float("inf"), "rms_norm_eps is inf, not a positive number"),
        ("text_config.rms_norm_eps", 10**400, "not a positive number"),
        ("default_num_delay_tokens", 99, "default_num_delay_tokens is 99, not 1..30"),
        ("default_num_delay_tokens", 31, "default_num_delay_tokens is 31, not 1..30"),
    ],
)
def test_what_the_engine_does_not_have_is_refused_by_name(
    place: str, value: Any, complaint: str
) -> None:
    with pytest.raises(CheckpointError) as error:
        config_from_hf(changed(HF, place, value))
    assert complaint in str(error.value) and str(error.value).startswith("config.json")


@pytest.mark.parametrize("name", [name for name in LARGEST if name != "head_dim"])
def test_sizes_are_taken_up_to_their_limit(name: str) -> None:
    """`replace` makes a configuration anew, so it is checked as a new one is."""
    whole = VoxtralConfig(decoder=DecoderConfig(heads=1000, kv_heads=1))
    for value in (LARGEST[name], 0, -1, LARGEST[name] + 1):
        decoder = replace(whole.decoder, **{name: value})
        if value == LARGEST[name]:
            assert replace(whole, decoder=decoder).decoder == decoder
            continue
        with pytest.raises(ValueError, match=f"decoder {name} is {value}, not a whole number"):
            replace(whole, decoder=decoder)


def test_the_longest_prompt_fits_the_decoders_spare_slots() -> None:
    longest = VoxtralConfig(left_pad_tokens=MOST_LEFT_PAD)
    assert Schedule.of(longest, MAX_DELAY_TOKENS).prompt_len <= RING_SPARE
    for pad in (MOST_LEFT_PAD + 1, -1):
        with pytest.raises(ValueError, match=f"left_pad_tokens is {pad}, not a whole number of"):
            VoxtralConfig(left_pad_tokens=pad)


@pytest.fixture(scope="module")
def released_style() -> dict[str, Any]:
    return json.loads(json.dumps(params(hf_model())))


def test_params_say_the_same_as_the_config_of_the_same_model(
    released_style: dict[str, Any],
) -> None:
    theirs = json.loads(hf_model().config.to_json_string(use_diff=False))
    assert config_from_params(released_style) == config_from_hf(theirs)
    as_text = changed(released_style, "sliding_window", str(released_style["sliding_window"]))
    assert config_from_params(as_text) == config_from_params(released_style)


ENCODER = "multimodal.whisper_model_args.encoder_args"


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        ("multimodal", ..., "has no multimodal section"),
        ("ada_rms_norm_t_cond", False, "this is no Voxtral Realtime model"),
        ("ada_rms_norm_t_cond", ..., "this is no Voxtral Realtime model"),
        ("use_biases", True, "params.json.use_biases is True"),
        ("moe", {"num_experts": 8}, "params.json.moe is"),
        ("dim", ..., "has no dim, and no default of it is safe"),
        ("rope_theta", ..., "has no rope_theta"),
        ("sliding_window", None, "sliding_window is None"),
        ("multimodal.whisper_model_args.downsample_args.downsample_factor", 8, "factor is 8"),
        (f"{ENCODER}.pos_embed", "sinusoidal", "encoder_args.pos_embed is 'sinusoidal'"),
        (f"{ENCODER}.ffn_type", "gelu", "ffn_type is 'gelu'"),
        (f"{ENCODER}.norm_type", "layer_norm", "norm_type is 'layer_norm'"),
        (f"{ENCODER}.causal", False, "encoder_args.causal is False"),
        (f"{ENCODER}.n_kv_heads", 1, "n_kv_heads is 1"),
        (f"{ENCODER}.rope_theta", ..., "has no rope_theta"),
        (f"{ENCODER}.audio_encoding_args.global_log_mel_max", None, "global_log_mel_max is None"),
        (f"{ENCODER}.audio_encoding_args.hop_length", 320, "hop_length is 320"),
        (f"{ENCODER}.audio_encoding_args.frame_rate", 25.0, "frame_rate is 25.0"),
        (f"{ENCODER}.audio_encoding_args.transcription_format", "instruct", "is 'instruct'"),
    ],
)
def test_params_that_the_engine_does_not_have_are_refused_by_name(
    released_style: dict[str, Any], place: str, value: Any, complaint: str
) -> None:
    with pytest.raises(CheckpointError) as error:
        config_from_params(changed(released_style, place, value))
    assert complaint in str(error.value)


def test_released_sizes_are_the_defaults_of_this_package() -> None:
    """The public description of params.json (antirez/voxtral.c MODEL.md) against our defaults."""
    whole = params(hf_model())
    audio = whole["multimodal"]["whisper_model_args"]["encoder_args"]
    whole |= {"dim": 3072, "n_layers": 26, "head_dim": 128, "hidden_dim": 9216, "n_heads": 32}
    whole |= {"n_kv_heads": 8, "vocab_size": 131072, "sliding_window": 8192, "norm_eps": 1e-5}
    audio |= {"dim": 1280, "n_layers": 32, "head_dim": 64, "hidden_dim": 5120, "n_heads": 32}
    audio |= {"n_kv_heads": 32, "sliding_window": 750, "rope_theta": 1e6, "norm_eps": 1e-5}
    assert config_from_params(whole) == VoxtralConfig()
