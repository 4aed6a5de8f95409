"""Paddings, prompt, delays and times, against mistral_common's own numbers where it has them."""

import numpy as np
import pytest

from vrt.voxtral.config import VoxtralConfig
from vrt.voxtral.schedule import AudioClock, DelayError, Schedule, delay_tokens


def schedule(delay: int = 6) -> Schedule:
    return Schedule.of(VoxtralConfig(), delay)


@pytest.mark.parametrize("delay_ms", range(80, 2401, 80))
def test_every_allowed_delay(delay_ms: int) -> None:
    assert delay_tokens(delay_ms) == delay_ms // 80


@pytest.mark.parametrize(
    ("delay_ms", "nearest"),
    [
        (0, "80 ms"),
        (-80, "80 ms"),
        (90, "80 or 160 ms"),
        (500, "480 or 560 ms"),
        (2401, "2400 ms"),
        (2480, "2400 ms"),
        (480.5, "480 or 560 ms"),
        (float("inf"), "2400 ms"),
        (10**400, "2400 ms"),
        (float("nan"), "80..2400 in steps of 80"),
    ],
)
def test_other_delays_are_refused_with_the_nearest_allowed(delay_ms: object, nearest: str) -> None:
    with pytest.raises(DelayError, match=f"nearest allowed: {nearest}$"):
        delay_tokens(delay_ms)


def test_numbers_of_numpy_and_the_models_own_delay() -> None:
    assert delay_tokens(np.int64(480)) == delay_tokens(np.float32(480)) == 6
    assert Schedule.for_delay_ms(VoxtralConfig(delay_tokens=9), None).delay == 9


@pytest.mark.parametrize("delay_ms", [None, "480", True])
def test_a_delay_that_is_no_number_is_refused(delay_ms: object) -> None:
    with pytest.raises(DelayError, match="must be a number"):
        delay_tokens(delay_ms)


@pytest.mark.parametrize("delay", [1, 2, 6, 30])
@pytest.mark.parametrize("samples", [0, 1, 39, 40, 1279, 1280, 1281, 160_000])
def test_paddings_equal_mistral_common(samples: int, delay: int) -> None:
    audio = pytest.importorskip("mistral_common.tokens.tokenizers.audio")
    config = audio.AudioConfig(
        sampling_rate=16_000,
        frame_rate=12.5,
        encoding_config=audio.AudioSpectrogramConfig(128, 160, 400),
        transcription_format=audio.TranscriptionFormat.STREAMING,
        transcription_delay_ms=480,
        streaming_look_ahead_ms=2.5,
        streaming_look_back_ms=52.5,
        streaming_n_left_pad_tokens=32,
    )
    encoder = audio.AudioEncoder(config, audio.SpecialAudioIDs(None, None, 32, None, None))
    left, right = encoder._get_streaming_pad(samples, transcription_delay_ms=80 * delay)
    plan = schedule(delay)
    assert left == plan.left_pad * 1280
    assert right == plan.right_pad_samples(samples)
    assert (left + samples + right) // 1280 == plan.positions(samples)


def test_prompt() -> None:
    assert schedule(6).prompt == [1] + [32] * 38
    assert schedule(6).prompt_len == 39


def test_a_token_speaks_about_the_audio_its_delay_ago() -> None:
    """The first token, put out by the prompt's last position, speaks about the first 80 ms.

    Forgetting the left pad would date every word 2.56 s late.
    """
    for delay in (1, 6, 30):
        plan = schedule(delay)
        assert plan.audio_start(plan.prompt_len - 1) == 0
        assert plan.audio_start(plan.prompt_len + 9) == 10 * 1280


def test_inserted_zeros_do_not_count() -> None:
    clock = AudioClock()
    clock.insert(16_000, 8_000)
    clock.insert(40_000, 16_000)
    assert [clock.seconds(s) for s in (0, 16_000, 20_000, 24_000, 32_000)] == [0, 1, 1, 1, 1.5]
    assert [clock.seconds(s) for s in (40_000, 56_000, 72_000)] == [2, 2, 3]
