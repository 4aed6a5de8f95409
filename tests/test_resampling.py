"""Resampling keeps what is below the new Nyquist, drops what is above, whole or piece by piece."""

import numpy as np
import pytest
import soundfile

from vrt.audio import AudioError, StreamingResampler, read, resample

RATES = [8_000, 11_025, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000]
SIZES = [1, 7, 160, 441, 1024, "whole", "random"]
EDGE = 1_600  # samples at 16 kHz where the filter still sees the clip's end


def tone(hertz, rate, seconds=2.0):
    n = np.arange(round(rate * seconds))
    return np.sin(2 * np.pi * hertz * n / rate).astype(np.float32)


def level_db(x):
    """RMS over a full-scale tone's, away from the ends."""
    inner = x[EDGE:-EDGE].astype(np.float64)
    return 20 * np.log10(np.sqrt(2 * np.mean(inner**2)) + 1e-12)


def pieces(x, size):
    if size == "whole":
        return [x]
    if size == "random":
        cuts = np.sort(np.random.default_rng(3).integers(0, len(x) + 1, size=40))
        return np.split(x, [0, *cuts])  # empty pieces among them
    return [x[i : i + size] for i in range(0, len(x), size)]


def streamed(x, size, rate, resampler=None):
    resampler = resampler or StreamingResampler(rate)
    parts = [resampler.feed(piece) for piece in pieces(x, size)]
    return np.concatenate([*parts, resampler.finish()])


# --- the whole clip -------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", RATES)
def test_tones_in_the_passband_are_the_same_tones_at_16_khz(rate):
    """The oracle is the formula: the same sum of sines, sampled at 16 kHz."""
    rng = np.random.default_rng(rate)
    hertz, phase = rng.uniform(100, 0.42 * min(rate, 16_000), 8), rng.uniform(0, 6, 8)

    def chord(count, at):
        time = np.arange(count)[:, None] / at
        return np.sin(2 * np.pi * hertz * time + phase).mean(axis=1)

    got = resample(chord(2 * rate, rate), rate)
    assert len(got) == 32_000
    # Measured: 3e-7 (fp32 rounding) at rates that divide, up to 1.2e-4 at 11.025, 22.05 and
    # 44.1 kHz, where the passband droops by 0.006 dB towards its edge.
    assert np.abs(got - chord(32_000, 16_000))[EDGE:-EDGE].max() < 3e-4


@pytest.mark.parametrize("rate", [22_050, 24_000, 32_000, 44_100, 48_000, 96_000])
def test_1_khz_keeps_its_level_and_tones_above_8_khz_are_gone(rate):
    assert abs(level_db(resample(tone(1_000, rate), rate))) < 0.001  # measured 2e-6 dB
    for hertz in (8_200, 9_000, 10_500):
        # Measured -130 dB and below at every rate; a tone that starts at once is a click too,
        # whose part below 8 kHz rightly stays.
        assert level_db(resample(tone(hertz, rate), rate)) < -120


def test_a_linear_resampler_would_not_pass():
    rate, hertz = 44_100, 9_000
    at = np.arange(32_000) * rate / 16_000
    linear = np.interp(at, np.arange(2 * rate), tone(hertz, rate))
    assert level_db(linear) > -2


def test_a_9_khz_tone_in_a_44100_hz_file_is_gone(tmp_path):
    both = 0.5 * tone(1_000, 44_100) + 0.5 * tone(9_000, 44_100)
    soundfile.write(tmp_path / "both.wav", np.stack([both, both], axis=1), 44_100, "FLOAT")
    samples = read(tmp_path / "both.wav").samples
    rest = samples - 0.5 * tone(1_000, 16_000)
    assert level_db(samples) == pytest.approx(20 * np.log10(0.5), abs=0.001)
    assert level_db(rest) < -120  # measured -139 dB


@pytest.mark.parametrize("rate", RATES)
def test_the_number_of_samples_is_the_ratio_to_the_nearest(rate):
    for count in (0, 1, 2, 3, 79, 441, 1001, rate):
        got = len(resample(np.zeros(count, np.float32), rate))
        assert abs(got - count * 16_000 / rate) <= 0.75, count


# --- piece by piece -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rate", RATES)
def test_pieces_equal_whole(rate, size):
    noise = np.random.default_rng(rate).standard_normal(round(1.237 * rate)) * 0.3
    whole = resample(noise, rate)
    got = streamed(noise.astype(np.float32), size, rate)
    assert got.dtype == np.float32 and len(got) == len(whole)
    assert np.abs(got - whole).max() == 0.0  # soxr's blocks do not depend on the pieces


def test_pieces_equal_whole_on_real_speech(repo_root, tmp_path):
    speech = read(repo_root / "data/audio/sense_and_sensibility_0880.flac").samples
    at_48k = resample(speech, 16_000, 48_000)
    soundfile.write(tmp_path / "speech.wav", at_48k, 48_000, "FLOAT")
    file = read(tmp_path / "speech.wav")
    assert np.array_equal(streamed(at_48k, 480, 48_000), file.samples)
    # There and back: the recording has little above 7.3 kHz, where the filters fall off.
    assert np.corrcoef(file.samples, speech)[0, 1] > 0.9999


@pytest.mark.parametrize("count", [0, 1, 2, 3, 50, 441])
@pytest.mark.parametrize("rate", RATES)
def test_short_streams_have_as_many_samples_as_the_whole(rate, count):
    x = np.full(count, 0.5, dtype=np.float32)
    assert np.array_equal(streamed(x, 7, rate), resample(x, rate))


def test_a_resampler_without_memory_would_not_pass():
    noise = np.random.default_rng(0).standard_normal(44_100).astype(np.float32) * 0.3
    forgetful = np.concatenate([resample(piece, 44_100) for piece in pieces(noise, 441)])
    assert np.abs(forgetful - resample(noise, 44_100)[: len(forgetful)]).max() > 0.05


@pytest.mark.parametrize("rate", RATES)
def test_samples_come_before_the_end(rate):
    """What is kept back stays below 120 ms (measured 37 to 115), however long the stream."""
    resampler, piece = StreamingResampler(rate), np.zeros(rate // 100, np.float32)
    got = 0
    for count in range(1, 301):
        got += len(resampler.feed(piece))
        assert got / 16_000 >= count * len(piece) / rate - 0.120


def test_the_same_rate_passes_through():
    x = tone(440, 16_000, 0.1)
    resampler = StreamingResampler(16_000)
    got = resampler.feed(x)
    assert np.array_equal(got, x) and not np.shares_memory(got, x)
    assert len(resampler.finish()) == 0


def test_other_output_rates():
    x = tone(440, 16_000, 0.5)
    resampler = StreamingResampler(16_000, 24_000)
    assert np.array_equal(streamed(x, 160, 16_000, resampler), resample(x, 16_000, 24_000))


def test_int16_pieces_are_scaled():
    integers = (tone(440, 48_000, 0.2) * 20_000).astype(np.int16)
    expected = resample(integers.astype(np.float32) / 32_768, 48_000)
    assert np.array_equal(streamed(integers, 480, 48_000), expected)


@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_order_of_calls(rate):
    resampler = StreamingResampler(rate)
    x = tone(440, rate, 0.3)
    first = streamed(x, 160, rate, resampler)
    with pytest.raises(AudioError, match="feed after finish"):
        resampler.feed(x)
    with pytest.raises(AudioError, match="finish after finish"):
        resampler.finish()
    resampler.reset()
    resampler.feed(x[: len(x) // 2])  # a stream that is given up leaves nothing behind
    resampler.reset()
    assert np.array_equal(streamed(x, 441, rate, resampler), first)


def test_a_refused_piece_leaves_the_stream_unharmed():
    x = tone(440, 44_100, 0.3)
    resampler = StreamingResampler(44_100)
    got = [resampler.feed(x[:5000])]
    for bad in (np.zeros((2, 5), np.float32), np.array([np.nan]), np.zeros(3, np.int32), [0.0]):
        with pytest.raises(AudioError):
            resampler.feed(bad)
    got += [resampler.feed(x[5000:]), resampler.finish()]
    assert np.array_equal(np.concatenate(got), resample(x, 44_100))


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        (0, "lies in 1000..1000000 Hz, got 0"),
        (-16_000, "got -16000"),
        (44.1, "a whole number of Hz, got 44.1"),
        (44_100.0, "a whole number of Hz, got 44100.0"),
        (44, "got 44"),
        (10**9, "got 1000000000"),
        (True, "got True"),
    ],
)
def test_absurd_rates_are_refused_by_name(rate, message):
    for make in (
        lambda: StreamingResampler(rate),
        lambda: StreamingResampler(44_100, rate),
        lambda: resample(np.zeros(3, np.float32), rate),
    ):
        with pytest.raises(AudioError, match=message):
            make()
