"""The shipped model `digits-voxtral`: real speech to real text, streamed, and in transformers."""

import numpy as np
import pytest
import torch

import vrt
from vrt.audio import read, resample
from vrt.paths import data_dir
from vrt.quality.hearing import hear, said_at, write
from vrt.receipt import Receipt, digest
from vrt.train.voxtral_card import card
from vrt.train.voxtral_report import reader
from vrt.train.voxtral_spelling import LIGATURE
from vrt.voxtral.offline import transcribe
from vrt.voxtral.schedule import MAX_DELAY_TOKENS

FOLDER = data_dir() / "models" / "digits-voxtral"
SENTENCES = sorted((data_dir() / "audio").glob("sense_and_sensibility_*.flac"))
USUAL = 6


@pytest.fixture(scope="module")
def model():
    return vrt.load("digits-voxtral")


@pytest.fixture(scope="module")
def receipt(repo_root):
    return Receipt.load(repo_root / "data/receipts/train-digits-voxtral.json")


@pytest.fixture(scope="module")
def five_five():
    return read(data_dir() / "audio/five_five.flac").samples


def said(model, samples, delay=USUAL):
    return reader(model, delay)(samples)


def streamed(model, samples, rng):
    """Texts after each feed of random size, and the transcript."""
    session = vrt.StreamingSession(model, USUAL * 80)
    session.begin()
    texts, place = [], 0
    while place < len(samples):
        size = int(rng.integers(1, 9000))
        session.feed(samples[place : place + size])
        texts.append(session.transcript.text)
        place += size
    return texts, session.finalize()


def test_files_are_those_of_the_receipt_and_small(receipt):
    for name in ("config.json", "model.safetensors", "tekken.json"):
        assert digest(FOLDER / name) == receipt.digests[name]
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 4e6


def test_card_says_what_the_receipt_says(receipt):
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == card(receipt)


def test_what_the_model_is_shipped_for(receipt):
    """The bounds it had to meet; the slow test measures the numbers again."""
    numbers = receipt.numbers
    assert numbers["unheard_15_db_many"]["wer_percent"] <= 12
    assert all(found["wer_percent"] <= 15 for found in numbers["unheard_15_db"].values())
    assert numbers["other_speech"]["delay_6"]["whole"]["words_per_10_s"] <= 1
    assert numbers["other_speech"]["delay_6"]["below_4_khz"]["words_per_10_s"] <= 1
    for found in numbers["no_speech"].values():
        assert found["whole"]["words_per_10_s"] == 0
    eos = numbers["unheard_15_db"]["delay_6"]["eos"]
    assert eos["once_at_the_end"] == eos["strings"] == 200


def test_a_real_recording_of_a_voice_never_heard(model, five_five):
    assert said(model, five_five) == "five five"


@pytest.mark.parametrize("path", SENTENCES, ids=lambda path: path.stem)
def test_a_sentence_without_digits_stays_silent(model, path):
    assert said(model, read(path).samples) == ""


def test_silence_says_nothing(model):
    assert said(model, np.zeros(160_000, dtype=np.float32)) == ""


@pytest.mark.parametrize("delay", [1, 2, 4, 10, 14, 20, 30])
def test_every_delay_hears_the_first_word_and_two_in_all(model, five_five, delay):
    words = said(model, five_five, delay).split()
    assert len(words) == 2 and words[0] == "five"


@pytest.mark.parametrize("gain_db", [-40, -20, -10, 6])
def test_at_any_loudness(model, five_five, gain_db):
    assert said(model, five_five * np.float32(10 ** (gain_db / 20))) == "five five"


@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 44_100, 48_000])
def test_at_any_sample_rate(model, five_five, tmp_path, rate):
    """Stereo files as a recorder writes them, through the door."""
    import soundfile

    there = resample(five_five, 16_000, rate)
    soundfile.write(tmp_path / "a.wav", np.stack([there, there], axis=1), rate, subtype="PCM_16")
    assert said(model, read(tmp_path / "a.wav").samples) == "five five"


@pytest.mark.parametrize("seed", range(3))
def test_feeds_of_any_size_give_the_same_text(model, five_five, seed):
    """And what was shown stays: each text is the beginning of the next."""
    whole = transcribe(model, five_five, USUAL * 80)
    texts, transcript = streamed(model, five_five, np.random.default_rng(seed))
    assert transcript.ids == whole.ids and transcript.text == whole.text
    assert all(transcript.text.startswith(text) for text in texts)


def test_half_a_character_is_held_back(model, five_five):
    """`five` is written with one character whose bytes lie in two pieces."""
    session = vrt.StreamingSession(model, USUAL * 80)
    session.begin()
    halves = 0
    for at in range(0, len(five_five), 1280):
        session.feed(five_five[at : at + 1280])
        ids, text = session.transcript.ids, session.transcript.text
        pieces = b"".join(model.tokenizer.piece(id) for id in ids)
        halves += pieces.endswith(LIGATURE[:2])
        assert "\ufffd" not in text
        assert pieces.startswith(text.encode())
    assert halves == 1  # of the first word; the second comes with the paddings


def test_the_end_is_said_once_behind_the_last_word(model, five_five):
    transcript = transcribe(model, five_five, USUAL * 80)
    eos = [i for i, id in enumerate(transcript.ids) if id == model.config.eos]
    last = max(i for i, token in enumerate(transcript.tokens) if token.text)
    assert len(eos) == 1 and eos[0] > last


def test_the_time_embedding_alone_moves_the_words(model, five_five):
    """The prompt of one delay throughout; more delay in the embedding, later text."""
    heard = hear(model, five_five)
    left = model.config.left_pad_tokens
    first = [said_at(write(model, heard, USUAL, delay).tokens, left)[0] for delay in (1, 6, 12)]
    steps = np.diff(first) / 0.08
    assert (steps > np.array([5, 6]) / 2).all(), first


@pytest.mark.parametrize("delay", [1, USUAL, MAX_DELAY_TOKENS])
def test_transformers_loads_it_strictly_and_says_the_same(model, five_five, delay):
    pytest.importorskip("transformers", reason="needs vrt[hf]")
    from transformers import VoxtralRealtimeForConditionalGeneration

    from vrt.oracle.hf import generate_offline, generate_stream
    from vrt.oracle.hf_features import features

    reference, found = VoxtralRealtimeForConditionalGeneration.from_pretrained(
        FOLDER, dtype=torch.float32, output_loading_info=True, local_files_only=True
    )
    assert not any(found[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    for samples in (five_five, read(SENTENCES[1]).samples):
        given = features(model.config, samples, delay)
        ours = transcribe(model, samples, delay * 80).ids
        for theirs in (generate_offline, generate_stream):
            ids = theirs(reference, given, delay).tolist()
            shared = min(len(ids), len(ours))
            assert ids[:shared] == ours[:shared]
            assert shared >= len(ours) - 1 or ids[-1] == model.config.eos


@pytest.mark.slow
def test_the_receipts_numbers_are_measured_again(model, receipt, speech_dir):
    """Word edits equal on the receipt's processor, within 2 elsewhere."""
    from vrt.receipt.machine import describe_device
    from vrt.train.corpus import load_corpus
    from vrt.train.voxtral_report import report

    torch.set_num_threads(1)
    found = report(model, load_corpus(speech_dir), print)
    margin = 0 if describe_device()["cpu"] == receipt.device["cpu"] else 2
    for name in ("unheard_15_db", "heard_15_db"):
        for delay, then in receipt.numbers[name].items():
            assert abs(found[name][delay]["word_edits"] - then["word_edits"]) <= margin, delay
    for delay, then in receipt.numbers["other_speech"].items():
        now = found["other_speech"][delay]["whole"]["words"]
        assert abs(now - then["whole"]["words"]) <= margin, delay
