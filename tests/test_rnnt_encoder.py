"""The small acoustic model: pieces equal whole, nothing looks ahead, files are exact."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vrt.audio import AudioError
from vrt.rnnt.acoustic import (
    FLUSH_SAMPLES,
    FRAME_SAMPLES,
    AcousticConfig,
    AcousticStream,
    AcousticTransducer,
    transcribe,
    transcribe_beam,
)
from vrt.rnnt.acoustic_files import load_acoustic, save_acoustic
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.encoder import EncoderConfig
from vrt.rnnt.front import FLOOR, HOP, MEL_BINS, WINDOW, FrontStream, LogMelFront, frame_count
from vrt.rnnt.model import Transducer, TransducerConfig
from vrt.rnnt.weights import WeightsError

LABELS = tuple("abcdefg")
# Of encoder frames, between whole and pieces. Measured: 2e-6; products of other sizes in fp32.
DRIFT = 2e-5


def tiny(seed=0):
    config = AcousticConfig(
        EncoderConfig(MEL_BINS, (3, 5), 12, 2),
        TransducerConfig(len(LABELS) + 1, 12, 8, 1, 10),
        LABELS,
    )
    torch.manual_seed(seed)
    model = AcousticTransducer(config)
    model.transducer.load_state_dict(Transducer.random(config.transducer, seed).state_dict())
    return model.eval()


def sound(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 0.1 * torch.randn(count, generator=generator)


def pieces(x, cuts):
    edges = [0, *sorted(cut % (len(x) + 1) for cut in cuts), len(x)]
    return [x[a:b] for a, b in pairwise(edges)]


# Front end


def by_hand(samples, frame):
    """One frame by a plain discrete Fourier transform in float64."""
    piece = samples[frame * HOP : frame * HOP + WINDOW].double().numpy()
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / (WINDOW - 1))
    window /= np.sqrt(np.square(window).sum())
    turns = np.outer(np.arange(257), np.arange(WINDOW)) / 512
    power = np.abs(np.exp(-2j * np.pi * turns) @ (piece * window)) ** 2
    mels = np.linspace(2595 * np.log10(1 + 60 / 700), 2595 * np.log10(1 + 3900 / 700), 42)
    edges = 700 * (10 ** (mels / 2595) - 1)
    hz = np.arange(257) * 16_000 / 512
    rows = []
    for low, centre, high in zip(edges, edges[1:], edges[2:], strict=False):
        triangle = np.interp(hz, [low, centre, high], [0, 1, 0])
        rows.append((triangle / triangle.sum()) @ power)
    return (np.log(np.array(rows) + FLOOR) + 9) / 4


def test_front_is_that_of_a_plain_transform():
    samples = sound(2000)
    mel = LogMelFront()(samples)
    assert mel.shape == (frame_count(2000), 40) == (11, 40)
    for frame in (0, 5, 10):
        # Measured: 5e-7; fp32 and an FFT.
        np.testing.assert_allclose(mel[frame], by_hand(samples, frame), rtol=0, atol=5e-6)


def test_white_noise_and_silence_have_the_promised_values():
    front = LogMelFront()
    mel = front(sound(160_000)) * 4 - 9
    power = (mel.exp() - FLOOR).mean(0)
    # 998 frames of at least one bin: 5% is over 1.5 standard errors; the seed is fixed.
    assert ((power / 0.01 - 1).abs() < 0.1).all()
    # The logarithm of the floor as a float32 and as a float64: 2.4e-7 apart, one last bit of 3.5.
    quiet = torch.full((1, 40), front.silence)
    torch.testing.assert_close(front(torch.zeros(400)), quiet, rtol=0, atol=2.4e-7)


@pytest.mark.parametrize("count", [0, 1, 399, 400, 559, 560, 561])
def test_frame_count(count):
    assert len(LogMelFront()(torch.zeros(count))) == frame_count(count)


@given(st.lists(st.integers(0, 4000), max_size=12), st.integers(0, 4000))
def test_front_in_pieces_is_the_whole(cuts, count):
    samples, front = sound(count), LogMelFront()
    stream = FrontStream(front)
    mel = torch.cat([stream.feed(piece) for piece in pieces(samples, cuts)])
    # Measured: 0; each frame is the same sums.
    torch.testing.assert_close(mel, front(samples), rtol=0, atol=1e-6)
    assert len(stream.pending) < WINDOW


# Encoder


@given(st.lists(st.integers(0, 60), max_size=20), st.integers(0, 60))
def test_encoder_in_pieces_is_the_whole(cuts, count):
    model = tiny()
    mel = torch.randn(1, count, MEL_BINS, generator=torch.Generator().manual_seed(count))
    start = model.encoder.initial(1, model.front.silence)
    with torch.no_grad():
        whole, _ = model.encoder(mel, start)
        state, parts = start, []
        for piece in pieces(mel[0], cuts):
            frames, state = model.encoder(piece[None], state)
            parts.append(frames)
    joined = torch.cat(parts, 1)
    assert joined.shape == whole.shape == (1, count // 4, 12)
    torch.testing.assert_close(joined, whole, rtol=0, atol=DRIFT)
    assert state.mel.shape[1] <= 2 and state.hidden.shape[1] <= 2


def test_states_are_not_changed_in_place():
    model = tiny()
    state = model.encoder.initial(1, model.front.silence)
    with torch.no_grad():
        _, state = model.encoder(torch.randn(1, 6, MEL_BINS), state)
        before = [part.clone() for part in state]
        model.encoder(torch.randn(1, 7, MEL_BINS), state)
    assert all(torch.equal(a, b) for a, b in zip(before, state, strict=True))


def test_nothing_looks_ahead():
    """A change in mel frame t leaves encoder frames before t // 4 as they were, and moves it."""
    model = tiny()
    mel = torch.randn(1, 24, MEL_BINS, generator=torch.Generator().manual_seed(1))
    start = model.encoder.initial(1, model.front.silence)
    with torch.no_grad():
        before, _ = model.encoder(mel, start)
        for t in range(24):
            changed = mel.clone()
            changed[0, t] += 1
            after, _ = model.encoder(changed, start)
            # A later frame also enters by the stride: 4 i + 3 is the last that frame i may see.
            assert torch.equal(after[0, : t // 4], before[0, : t // 4]), t
            assert not torch.equal(after[0, t // 4], before[0, t // 4]), t


def test_rows_do_not_meet():
    model = tiny()
    mel = torch.randn(3, 16, MEL_BINS, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        batch, _ = model.encoder(mel, model.encoder.initial(3, model.front.silence))
        alone, _ = model.encoder(mel[1:2], model.encoder.initial(1, model.front.silence))
    torch.testing.assert_close(batch[1:2], alone, rtol=0, atol=DRIFT)


def test_a_stream_that_forgets_is_caught():
    """Left context dropped between pieces: the comparison with the whole must fail."""
    model = tiny()
    mel = torch.randn(1, 32, MEL_BINS, generator=torch.Generator().manual_seed(3))
    start = model.encoder.initial(1, model.front.silence)
    with torch.no_grad():
        whole, _ = model.encoder(mel, start)
        first, state = model.encoder(mel[:, :16], start)
        for part in ("mel", "hidden", "h", "c"):
            second, _ = model.encoder(mel[:, 16:], state._replace(**{part: getattr(start, part)}))
            joined = torch.cat([first, second], 1)
            assert not torch.allclose(joined, whole, rtol=0, atol=DRIFT), part


# Whole model


@given(st.lists(st.integers(0, 20_000), max_size=10))
def test_stream_gives_the_frames_of_encode(cuts):
    model, samples = tiny(), sound(20_000, 4)
    stream = AcousticStream(model)
    parts = [stream.feed(piece) for piece in pieces(samples, cuts)]
    frames = torch.cat([*parts, stream.finalize()])
    whole = model.encode(samples)
    assert len(whole) == frame_count(20_000 + FLUSH_SAMPLES) // 4
    torch.testing.assert_close(frames, whole, rtol=0, atol=DRIFT)


def test_reset_begins_anew_and_streams_are_apart():
    model, samples = tiny(), sound(5000, 5)
    one, other = AcousticStream(model), AcousticStream(model)
    first = one.feed(samples)
    other.feed(sound(3000, 6))
    one.reset()
    assert torch.equal(one.feed(samples), first)
    assert len(first) == frame_count(5000) // 4 and FRAME_SAMPLES == 640


def test_transcribe_greedy_and_beam():
    model, samples = tiny(), sound(3000, 7).numpy()
    best = transcribe(model, samples)
    listed = transcribe_beam(model, samples, BeamConfig(beam_size=3))
    assert best.tokens and model.text(best.tokens) == "".join(LABELS[t] for t in best.tokens)
    assert 1 <= len(listed) <= 3
    assert listed[0].norm_score >= listed[-1].norm_score
    assert transcribe(model, (samples * 32767).astype(np.int16)).tokens


def test_no_samples_are_silence():
    assert isinstance(transcribe(tiny(), np.zeros(0, dtype=np.float32)).tokens, tuple)


def test_bad_samples_are_refused_by_the_door():
    with pytest.raises(AudioError, match="not finite"):
        transcribe(tiny(), np.array([0.0, np.nan], dtype=np.float32))
    with pytest.raises(AudioError, match="path"):
        transcribe(tiny(), "talk.wav")


def test_sizes_that_do_not_fit_are_refused():
    sizes = TransducerConfig(8, 12, 8, 1, 10)
    with pytest.raises(ValueError, match="3 labels do not fit a vocabulary of 8"):
        AcousticConfig(EncoderConfig(width=12), sizes, tuple("abc"))
    with pytest.raises(ValueError, match="encoder is 13 wide, the joint reads 12"):
        AcousticConfig(EncoderConfig(width=13), sizes, LABELS)


# Files


def test_saved_and_loaded_weights_are_equal_and_bytes_stable(tmp_path):
    model = tiny()
    folder = save_acoustic(model, tmp_path / "a")
    loaded = load_acoustic(folder)
    assert loaded.config == model.config and not loaded.training
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value.half().float()), name
    again = save_acoustic(loaded, tmp_path / "b")
    for name in ("config.json", "model.safetensors"):
        assert (again / name).read_bytes() == (folder / name).read_bytes()


def test_predictor_and_joint_have_nemos_names(tmp_path):
    from safetensors.torch import load_file

    names = load_file(save_acoustic(tiny(), tmp_path) / "model.safetensors").keys()
    assert "decoder.prediction.embed.weight" in names and "joint.joint_net.2.weight" in names
    assert {name.split(".")[0] for name in names} == {"encoder", "decoder", "joint"}


def edit(folder, change):
    content = json.loads((folder / "config.json").read_text())
    change(content)
    (folder / "config.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(format=2), "of kind"),
        (lambda c: c.update(model="other"), "of kind"),
        (lambda c: c["front"].update(hop_samples=80), "another front end"),
        (lambda c: c["encoder"].update(layers=3), "missing .*layers.2"),
        (lambda c: c["encoder"].update(channels=[3, 6]), "another shape .*convs.1"),
        (lambda c: c["encoder"].pop("width"), "in its sizes|encoder is"),
        (lambda c: c["labels"].pop(), "6 labels do not fit"),
        (lambda c: c["encoder"].update(mel_bins="x"), "encoder.mel_bins is 'x'; a whole number"),
        (lambda c: c["encoder"].update(layers=10**9), "encoder.layers is 1000000000; .* 1 to 64"),
        (lambda c: c["encoder"].update(channels=[3]), "two of them"),
        (lambda c: c["transducer"].update(vocab=True), "transducer.vocab is True"),
        (lambda c: c.update(format=True), "of kind"),
    ],
)
def test_a_folder_that_does_not_fit_is_refused(tmp_path, change, message):
    folder = save_acoustic(tiny(), tmp_path)
    edit(folder, change)
    with pytest.raises(WeightsError, match=message):
        load_acoustic(folder)


def test_missing_and_damaged_files_are_named(tmp_path):
    with pytest.raises(WeightsError, match=r"holds no config.json"):
        load_acoustic(tmp_path)
    folder = save_acoustic(tiny(), tmp_path)
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-100])
    with pytest.raises(WeightsError, match="damaged"):
        load_acoustic(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(WeightsError, match="truncated or no JSON"):
        load_acoustic(folder)
