"""Training of the digits model: what it is taught, on which streams, and that it repeats."""

import json
import unicodedata
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from vrt import CheckpointError, Tokenizer, load, transcribe
from vrt.train.corpus import (
    MISC_SENTENCES,
    TRAIN_SENTENCES,
    TRAIN_SPEAKERS,
    WORDS,
    Corpus,
    Digit,
    Sentence,
)
from vrt.train.fillers import KINDS, Fillers, shuffled
from vrt.train.voices import between
from vrt.train.voxtral_batches import NO_DIGIT, batch_of, frame_classes, padded_mel
from vrt.train.voxtral_digits import (
    CONFIG,
    Plan,
    Stage,
    dropped,
    initial,
    losses,
    token_loss,
    train,
)
from vrt.train.voxtral_run import trained, write
from vrt.train.voxtral_spelling import (
    PIECES,
    SPELLING,
    VOCAB,
    spoken_words,
    word_ids,
    write_vocabulary,
)
from vrt.train.voxtral_streams import (
    Recipe,
    Stream,
    StreamMaker,
    audible_end,
    narrow,
    noises,
    with_image,
)
from vrt.train.voxtral_targets import EOS_AFTER, IGNORED, Spoken, slots, targets
from vrt.voxtral.config import SAMPLES_PER_TOKEN, DecoderConfig, EncoderConfig
from vrt.voxtral.mel import LogMel
from vrt.voxtral.schedule import MAX_DELAY_TOKENS, Schedule
from vrt.voxtral.transcript import TextStream

PAD, WORD, EOS = CONFIG.streaming_pad, CONFIG.streaming_word, CONFIG.eos
SMALL = replace(
    CONFIG,
    encoder=EncoderConfig(width=16, layers=1, heads=2, head_dim=8, ff=24, window=21),
    decoder=DecoderConfig(
        width=16, layers=1, heads=2, kv_heads=1, head_dim=8, ff=24, window=40, vocab=VOCAB
    ),
)
STAGES = (
    Stage(3, Recipe(), warm_up=1),
    Stage(2, Recipe(between=0.5, flat=1), warm_up=1, helped=0.0),
)
PLAN = Plan(stages=STAGES, streams=2, slots=40, config=SMALL)


@pytest.fixture(scope="module")
def digits():
    """Two tones each, in all training voices; the last 50 ms are 60 dB down."""
    time = np.arange(4000) / 16_000
    hull = np.hanning(3200)
    hull = np.pad(hull, (0, 800)) + 1e-4

    def tones(value):
        wave = sum(np.sin(2 * np.pi * hz * time) for hz in (300 + 60 * value, 2500 - 150 * value))
        return (0.1 * wave * hull).astype(np.float32)

    return [Digit(v, s, 8, tones(v)) for s in TRAIN_SPEAKERS for v in range(10)]


@pytest.fixture(scope="module")
def sentences():
    hum = 0.1 * np.sin(2 * np.pi * 150 * np.arange(40_000) / 16_000)
    return [Sentence("hum", hum.astype(np.float32))]


@pytest.fixture(scope="module")
def maker(digits, sentences):
    return StreamMaker(digits, sentences, 112, Recipe(between=0.5), np.random.default_rng(0))


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "tekken.json"
    write_vocabulary(path)
    return Tokenizer(path)


# Spelling


def test_the_vocabulary_is_read_and_spells_the_ten_words(vocabulary):
    assert len(vocabulary) == VOCAB == CONFIG.decoder.vocab
    texts = [vocabulary.decode(word_ids(value)) for value in range(10)]
    assert [unicodedata.normalize("NFKC", text) for text in texts] == [f" {w}" for w in WORDS]
    assert spoken_words("".join(texts)) == list(WORDS)
    assert sum(len(word) > 1 for word in SPELLING) >= 5


def test_special_ids_are_those_of_the_released_model(vocabulary):
    names = ("<s>", "</s>", "[STREAMING_PAD]", "[STREAMING_WORD]")
    assert [vocabulary.special_id(name) for name in names] == [1, 2, 32, 33]
    assert (vocabulary.left_pad_tokens, vocabulary.delay_tokens) == (32, 6)
    assert all(vocabulary.piece(id) == b"" for id in (1, 2, 32, 33))


def test_one_piece_ends_inside_a_character(vocabulary):
    """A decoder of each piece alone shows two replacement characters; ours shows none."""
    stream, shown = TextStream(), []
    for id in word_ids(5):
        shown.append(stream.feed(vocabulary.piece(id)))
    assert shown == [" ", "\N{LATIN SMALL LIGATURE FI}ve"] and not stream.holds
    alone = [vocabulary.piece(id).decode("utf-8", errors="replace") for id in word_ids(5)]
    assert "".join(alone).count("\N{REPLACEMENT CHARACTER}") == 2


# Targets


def sound(count, *silent):
    """Which of `count` slots are zeros."""
    zeros = np.zeros(count, dtype=bool)
    for first, last in silent:
        zeros[first:last] = True
    return zeros


def at(slot, value=1):
    """A word that ends in the middle of a slot."""
    return Spoken(value, max(0, slot - 3) * SAMPLES_PER_TOKEN, slot * SAMPLES_PER_TOKEN + 600)


def test_mark_before_the_words_end_pieces_from_it_on():
    said = slots([at(4, 7), at(9, 1)], sound(14), 6, CONFIG)
    expected = [PAD] * 14
    expected[3:6] = [WORD, *word_ids(7)]
    expected[8:10] = [WORD, *word_ids(1)]
    assert said.tolist() == expected


def test_words_that_would_overlap_wait():
    said = slots([at(4, 7), at(6, 0), at(7, 1)], sound(14), 6, CONFIG)
    assert said[3:11].tolist() == [WORD, *word_ids(7), WORD, *word_ids(0), WORD, *word_ids(1)]


@given(st.data())
def test_whatever_the_times_the_words_come_in_order_and_not_early(data):
    ends = sorted(data.draw(st.lists(st.integers(0, 60 * SAMPLES_PER_TOKEN - 1), max_size=12)))
    spoken = [Spoken(i % 10, max(0, end - 100), end) for i, end in enumerate(ends)]
    said = slots(spoken, sound(120), 6, CONFIG)
    marks = np.flatnonzero(said == WORD)
    assert [id for id in said if id not in (PAD, WORD)] == [
        id for word in spoken for id in word_ids(word.value)
    ]
    for mark, word in zip(marks, spoken, strict=True):
        assert mark >= word.end // SAMPLES_PER_TOKEN - 1


@pytest.mark.parametrize("delay", [1, 6, MAX_DELAY_TOKENS])
def test_a_transcription_ends_with_eos_two_positions_before_its_end(delay):
    """The paddings are the engine's own: 20 slots of audio, then the right pad."""
    schedule = Schedule.of(CONFIG, delay)
    samples = 19 * SAMPLES_PER_TOKEN + 5
    total = schedule.positions(samples)
    zeros = sound(total - schedule.left_pad, (20, total))
    labels = targets([at(4)], zeros, delay, CONFIG).labels
    assert len(labels) == total
    assert np.flatnonzero(labels == EOS).tolist() == [total - 3]


def test_eos_waits_for_zeros_only_and_comes_once():
    quiet = (20, 20 + EOS_AFTER + 7)
    for zeros, expected in (
        (sound(60, quiet), [20 + EOS_AFTER]),  # delay 6: all that is heard are zeros
        (sound(60, (20, quiet[1] - 1)), []),  # the next sound is heard already
        (sound(60, (20, 60)), [20 + EOS_AFTER]),
        (sound(60, (0, 30)), []),  # before the first sound
        (sound(60, (0, 60)), []),
        (sound(60, (5, 25), (40, 60)), [5 + EOS_AFTER, 40 + EOS_AFTER]),
    ):
        said = slots([], zeros, 6, CONFIG)
        assert np.flatnonzero(said == EOS).tolist() == expected


@pytest.mark.parametrize("delay", range(1, MAX_DELAY_TOKENS + 1))
def test_every_position_is_fed_the_token_before_it(delay):
    schedule = Schedule.of(CONFIG, delay)
    made = targets([at(4, 7), at(60, 3)], sound(112), delay, CONFIG)
    assert len(made.inputs) == len(made.labels) == 112 + CONFIG.left_pad_tokens
    first = schedule.prompt_len - 1
    assert (made.labels[:first] == IGNORED).all() and (made.labels[first:] != IGNORED).all()
    assert made.inputs[: first + 1].tolist() == schedule.prompt
    assert made.inputs[first + 1 :].tolist() == made.labels[first:-1].tolist()
    # Slot 3 speaks about samples from 3 * 1280 on: the engine's clock says where it is put out.
    mark = int(np.flatnonzero(made.labels == WORD)[0])
    assert schedule.audio_start(mark) == 3 * SAMPLES_PER_TOKEN


# Streams


def test_a_word_ends_where_it_can_last_be_heard(digits):
    clip = digits[3].samples
    assert 2900 <= audible_end(clip) <= 3200 < len(clip)
    assert audible_end(np.ones(250, dtype=np.float32)) == 250


def test_the_same_chance_gives_the_same_stream(maker):
    one, again, other = (maker.make(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(one.samples, again.samples) and one.spoken == again.spoken
    assert not np.array_equal(one.samples, other.samples)


def test_streams_are_whole_slots_with_words_in_order_and_all_kinds_of_ends(maker):
    made = [maker.make(np.random.default_rng(seed)) for seed in range(60)]
    for stream in made:
        assert len(stream.samples) == 112 * SAMPLES_PER_TOKEN and stream.samples.dtype == np.float32
        assert np.isfinite(stream.samples).all() and np.abs(stream.samples).max() <= 1
        ends = [word.end for word in stream.spoken]
        assert ends == sorted(ends) and all(
            w.start < w.end <= len(stream.samples) for w in stream.spoken
        )
        heard = [w.end // SAMPLES_PER_TOKEN for w in stream.spoken]
        assert not stream.zeros[[min(slot, 111) for slot in heard]].all() or not heard
    ended = [stream.zeros[-1] for stream in made]
    assert 10 < sum(ended) < 40
    assert any(not stream.spoken for stream in made)
    assert sum(EOS in slots(s.spoken, s.zeros, 6, CONFIG) for s in made) > 5
    words = [len(maker.make(np.random.default_rng(s), digits_only=True).spoken) for s in range(10)]
    assert min(words) > 0


def test_telephone_and_mirror_image_meet_at_4_khz():
    rng = np.random.default_rng(0)
    spectrum = np.fft.rfft(rng.standard_normal(16_000))
    spectrum[4001:] = 0
    voice = np.fft.irfft(spectrum, 16_000).astype(np.float32)

    def power(samples, low, high):
        return float((np.abs(np.fft.rfft(samples))[low:high] ** 2).sum())

    images = [with_image(voice, np.random.default_rng(seed)) for seed in range(8)]
    added = [power(image, 4100, 8000) > 0.001 * power(voice, 0, 4000) for image in images]
    assert 1 <= sum(added) <= 7
    whole = rng.standard_normal(16_000).astype(np.float32)
    assert power(narrow(whole, rng), 5300, 8000) < 1e-6 * power(whole, 5300, 8000)


def test_every_kind_of_filler_is_heard(digits, sentences, monkeypatch):
    for kind in KINDS:
        fillers = Fillers(digits, sentences)
        shares = tuple(float(kind == other) for other in KINDS)
        monkeypatch.setattr("vrt.train.fillers.SHARES", shares)
        piece = fillers.draw(np.random.default_rng(1))
        assert 0.04 * 16_000 < len(piece) < 6 * 16_000 and np.abs(piece).max() > 1e-4, kind


def test_shuffled_digits_are_the_same_sound_in_another_order():
    clip = np.sin(np.arange(16_000) / 9).astype(np.float32)
    mixed = shuffled(clip, np.random.default_rng(0))
    assert len(mixed) == len(clip) and not np.array_equal(mixed, clip)
    assert np.square(mixed).sum() == pytest.approx(np.square(clip).sum(), rel=0.1)  # less the fades


def test_noises_are_flat_falling_and_rising():
    made = noises(65_536, 2, np.random.default_rng(0))
    assert len(made) == 10
    low_share = []
    for one in made:
        assert np.square(one).mean() == pytest.approx(1, rel=0.05)
        power = np.abs(np.fft.rfft(one)) ** 2
        low_share.append(float(power[: len(power) // 2].sum() / power.sum()))
    assert all(abs(share - 0.5) < 0.02 for share in low_share[:4])
    assert all(share > 0.5 for share in low_share[4:8])
    assert all(share < 0.3 for share in low_share[8:])


def resonance(hertz, pitch):
    """A buzz of `pitch` with one resonance."""
    time = np.arange(6000) / 16_000
    tones = np.arange(pitch, 3900, pitch)
    sizes = 1 / (1 + ((tones - hertz) / 150) ** 2)
    wave = (sizes[:, None] * np.sin(2 * np.pi * tones[:, None] * time)).sum(0)
    return (0.1 * wave).astype(np.float32)


def test_a_voice_between_two_keeps_the_pitch_and_moves_the_resonance():
    own, other = resonance(1000, 120), resonance(1800, 150)[:4000]

    def centre(samples):
        power = np.abs(np.fft.rfft(samples[1000:-1000])) ** 2
        hertz = np.fft.rfftfreq(len(samples) - 2000, 1 / 16_000)
        return float((power * hertz).sum() / power.sum())

    assert np.abs(between(own, other, 0.0) - own).max() < 1e-6
    half, far = between(own, other, 0.5), between(own, other, 0.9)
    assert centre(own) + 100 < centre(half) < centre(far) < centre(other) + 100
    assert len(half) == len(own)
    spectrum = np.abs(np.fft.rfft(half[1000:-1000] * np.hanning(4000)))
    loudest = np.argsort(spectrum)[-3:] * 4.0  # Hz
    assert all(min(hz % 120, 120 - hz % 120) < 8 for hz in loudest)


# Batches


def test_a_batch_keeps_the_left_pad_and_labels_and_errs_in_pieces_only(maker):
    rng = np.random.default_rng(5)
    streams = [maker.make(rng, digits_only=True) for _ in range(6)]
    batch = batch_of(streams, LogMel(), CONFIG, rng)
    assert batch.mels.shape == (6, 144 * 8, 128) and batch.labels.shape == (12, 144)
    assert all(1 <= d <= 10 for d in batch.delays[::2])
    assert max(batch.delays) > 10 and max(batch.delays) <= MAX_DELAY_TOKENS
    spoken = {*range(VOCAB - len(PIECES), VOCAB), WORD}
    wrong = 0
    for row in range(12):
        stream = streams[row // 2]
        clean = targets(stream.spoken, stream.zeros, batch.delays[row], CONFIG)
        assert batch.labels[row].tolist() == clean.labels.tolist()
        differ = np.flatnonzero(batch.inputs[row].numpy() != clean.inputs)
        assert {int(clean.inputs[i]) for i in differ} <= spoken
        wrong += len(differ)
    assert 0.05 < wrong / sum(int(id) in spoken for id in batch.labels.flatten()) < 0.25
    for stream, mel in zip(streams, batch.mels, strict=True):
        assert torch.equal(mel[:256], padded_mel(stream, LogMel(), CONFIG)[:256])


def test_frames_are_told_a_digit_from_a_third_of_it_on():
    stream = Stream(np.zeros(12 * SAMPLES_PER_TOKEN, np.float32), (Spoken(7, 3200, 6400),))
    classes = frame_classes(stream, CONFIG)
    assert len(classes) == (32 + 12) * 4
    # Samples 3200 + 1066 = frame 13; the end, frame 20, and two more.
    assert np.flatnonzero(classes != NO_DIGIT).tolist() == list(range(128 + 13, 128 + 23))
    assert set(classes.tolist()) == {7, NO_DIGIT}


# Training


def quiet(_line):
    pass


def test_the_same_plan_gives_the_same_bytes(digits, sentences, tmp_path):
    torch.manual_seed(99)  # whatever came before
    files = []
    for name, plan in (("a", PLAN), ("b", PLAN), ("c", replace(PLAN, seed=2))):
        write(train(digits, sentences, plan, quiet), tmp_path / name)
        files.append((tmp_path / name / "model.safetensors").read_bytes())
    assert files[0] == files[1] != files[2]


def test_training_looks_at_the_averaged_model_and_leaves_no_hooks(digits, sentences):
    seen = []
    model = train(digits, sentences, PLAN, quiet, lambda step, _m: seen.append(step))
    assert seen == [1, 2, 3, 1, 2]
    assert not any(module._forward_hooks for module in model.modules())
    assert not model.training


def test_the_second_stage_begins_where_the_first_was_stored(digits, sentences):
    """So a stage may be run again from the file of the one before it."""
    first = train(digits, sentences, replace(PLAN, stages=STAGES[:1]), quiet)
    assert all(torch.equal(w, w.half().float()) for w in first.parameters())
    still = Stage(1, Recipe(), peak=0.0, warm_up=1)
    second = train(digits, sentences, replace(PLAN, stages=(STAGES[0], still)), quiet)
    assert all(map(torch.equal, first.parameters(), second.parameters()))


def test_the_end_lies_between_the_last_two_stages(digits, sentences):
    first = train(digits, sentences, replace(PLAN, stages=STAGES[:1]), quiet)
    ends = [train(digits, sentences, replace(PLAN, last=share), quiet) for share in (0.0, 0.5, 1.0)]
    start, middle, second = (next(iter(m.parameters())) for m in ends)
    assert torch.equal(start, next(iter(first.parameters())))
    assert not torch.equal(start, second)
    torch.testing.assert_close(middle, (start + second) / 2, rtol=1e-3, atol=1e-6)  # float16


def test_an_interrupted_training_goes_on_behind_its_last_whole_stage(digits, sentences, tmp_path):
    names = (*TRAIN_SENTENCES, *MISC_SENTENCES)
    corpus = Corpus(tuple(digits), {name: sentences[0] for name in names})
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    trained(corpus, PLAN, whole, quiet)
    looks = []

    def stop(line):
        looks.extend(["look"] if "so far" in line else [])
        if len(looks) > STAGES[0].steps:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(corpus, PLAN, stopped, stop)
    with pytest.raises(ValueError, match="stage-1 is of another plan or was changed; remove it"):
        trained(corpus, replace(PLAN, seed=5), stopped, quiet)
    told = []
    assert trained(corpus, PLAN, stopped, told.append)["training_cpu_s"] > 0
    assert any("stage 1 is in" in line for line in told)
    one, other = ((folder / "model.safetensors").read_bytes() for folder in (whole, stopped))
    assert one == other
    assert not [*whole.glob("stage-*"), *stopped.glob("stage-*")]


def test_it_learns_what_it_is_shown(maker):
    """One stream again and again: the loss falls far below that of a model that hears nothing."""
    torch.manual_seed(0)
    config = replace(
        SMALL,
        encoder=replace(SMALL.encoder, width=32, head_dim=16, ff=48),
        decoder=replace(SMALL.decoder, width=32, head_dim=16, ff=48),
    )
    model, helper = initial(config), torch.nn.Linear(32, NO_DIGIT + 1)
    rng = np.random.default_rng(4)
    stream = maker.make(rng, digits_only=True)
    batch = batch_of([stream], model.log_mel, config, rng)
    batch = replace(batch, mels=padded_mel(stream, model.log_mel, config)[None])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    values = []
    for _ in range(120):
        optimizer.zero_grad()
        loss = losses(model, helper, batch, PLAN, 0.0)
        loss.backward()
        optimizer.step()
        values.append(loss.item())
    labels = batch.labels[batch.labels != IGNORED]
    ids, counts = labels.unique(return_counts=True)
    weights = counts * torch.where(ids == PAD, PLAN.pad_weight, 1.0)
    shares = weights / weights.sum()
    deaf = float(-(shares * shares.log()).sum())
    assert values[0] > 4 and min(values) < 0.5 * deaf


def test_dropout_is_there_while_training_and_gone_after():
    model = initial(SMALL)
    mel = torch.randn(96, 128, generator=torch.Generator().manual_seed(0))
    plain = model.encoder(model.stem(mel))
    drops = dropped(model, 0.5)
    assert not torch.equal(model.encoder(model.stem(mel)), plain)
    for drop in drops:
        drop.remove()
    assert torch.equal(model.encoder(model.stem(mel)), plain)


def test_the_loss_is_a_weighted_mean_over_labelled_positions():
    logits = torch.randn(1, 5, VOCAB, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([[IGNORED, PAD, WORD, EOS, PAD]])
    nats = -logits[0].log_softmax(-1)
    pad = PLAN.pad_weight
    each = [pad * nats[1, PAD], nats[2, WORD], nats[3, EOS], pad * nats[4, PAD]]
    mean = float(sum(each)) / (2 + 2 * pad)
    assert token_loss(logits, labels, PLAN) == pytest.approx(mean, rel=1e-5)


# What is stored


@pytest.fixture(scope="module")
def stored(digits, sentences, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    write(train(digits, sentences, PLAN, quiet), folder)
    return folder


def test_a_stored_model_is_half_precision_and_loads(stored):
    with safe_open(stored / "model.safetensors", framework="pt") as file:
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {"F16"}  # noqa: SIM118
    model = load(stored)
    assert model.config == SMALL and model.dtype == torch.float32
    assert len(transcribe(model, np.zeros(5000, np.float32), 80).ids) == 4 + 11


@pytest.mark.parametrize("said", ["float16", None])
def test_float16_files_stay_so_unless_the_configuration_says_float32(stored, tmp_path, said):
    for name in ("model.safetensors", "tekken.json"):
        (tmp_path / name).write_bytes((stored / name).read_bytes())
    content = json.loads((stored / "config.json").read_text())
    assert content.pop("dtype") == "float32"
    (tmp_path / "config.json").write_text(json.dumps(content | ({"dtype": said} if said else {})))
    assert load(tmp_path).dtype == torch.float16
    assert load(stored, dtype=torch.float16).dtype == torch.float16


def test_a_model_of_another_size_does_not_take_its_weights(stored, tmp_path):
    content = json.loads((stored / "config.json").read_text())
    content["text_config"]["intermediate_size"] = 28
    for name in ("model.safetensors", "tekken.json"):
        (tmp_path / name).write_bytes((stored / name).read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match="of another shape"):
        load(tmp_path)


def test_transformers_loads_it_strictly_and_computes_in_fp32(stored):
    transformers = pytest.importorskip("transformers")
    kind = transformers.VoxtralRealtimeForConditionalGeneration
    model, found = kind.from_pretrained(stored, output_loading_info=True)
    assert not any(found.values()), found
    assert model.dtype == torch.float32


def test_recordings_are_the_only_thing_that_a_corpus_needs(digits, sentences):
    corpus = Corpus(
        tuple(digits), {"misc/jfk.flac": sentences[0], "misc/goforward.flac": sentences[0]}
    )
    assert corpus.train() == digits and len(corpus.misc_sentences()) == 2
