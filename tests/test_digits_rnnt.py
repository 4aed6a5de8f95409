"""The shipped model `digits-rnnt`: real speech to real text, whole, streamed, and in NeMo."""

import numpy as np
import pytest
import torch

from vrt.audio import read, resample
from vrt.paths import data_dir
from vrt.receipt import Receipt, digest
from vrt.rnnt import BeamConfig, BeamSession, ModelScorer, greedy
from vrt.rnnt.acoustic import AcousticStream, transcribe, transcribe_beam
from vrt.rnnt.acoustic_files import load_acoustic
from vrt.train.rnnt_card import card

FOLDER = data_dir() / "models" / "digits-rnnt"
SENTENCES = sorted((data_dir() / "audio").glob("sense_and_sensibility_*.flac"))
BEAM = BeamConfig(beam_size=8)


@pytest.fixture(scope="module")
def model():
    return load_acoustic(FOLDER)


@pytest.fixture(scope="module")
def receipt(repo_root):
    return Receipt.load(repo_root / "data/receipts/train-digits-rnnt.json")


@pytest.fixture(scope="module")
def five_five():
    return read(data_dir() / "audio/five_five.flac").samples


def said(model, samples):
    return model.text(transcribe(model, samples).tokens)


def test_files_are_those_of_the_receipt_and_small(receipt):
    for name in ("config.json", "model.safetensors"):
        assert digest(FOLDER / name) == receipt.digests[name]
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 4e6


def test_card_says_what_the_receipt_says(receipt):
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == card(receipt)


def test_a_real_recording_of_a_voice_never_heard(model, five_five):
    assert said(model, five_five) == "five five"
    assert model.text(transcribe_beam(model, five_five, BEAM)[0].tokens) == "five five"


@pytest.mark.parametrize("gain_db", [-20, -10, 6])
def test_at_any_loudness(model, five_five, gain_db):
    assert said(model, five_five * np.float32(10 ** (gain_db / 20))) == "five five"


@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 44_100, 48_000])
def test_at_any_sample_rate(model, five_five, tmp_path, rate):
    """Stereo files as a recorder writes them, through the door."""
    import soundfile

    there = resample(five_five, 16_000, rate)
    soundfile.write(tmp_path / "a.wav", np.stack([there, there], axis=1), rate, subtype="PCM_16")
    assert said(model, read(tmp_path / "a.wav").samples) == "five five"


def test_silence_says_nothing(model):
    assert said(model, np.zeros(160_000, dtype=np.float32)) == ""


@pytest.mark.parametrize("seed", range(3))
def test_feeds_of_any_size_give_the_same_tokens(model, five_five, seed):
    """Encoder and beam both live: the n-best list of the whole, which begins with the committed."""
    rng = np.random.default_rng(seed)
    stream, session = AcousticStream(model), BeamSession(ModelScorer(model.transducer), BEAM)
    project = session.scorer.project
    session.begin()
    committed, place = [], 0
    while place < len(five_five):
        size = int(rng.integers(1, 8000))
        feed = torch.from_numpy(five_five[place : place + size])
        committed += session.feed(project(stream.feed(feed))).committed
        place += size
    committed += session.feed(project(stream.finalize())).committed
    found, whole = session.finalize(), transcribe_beam(model, five_five, BEAM)
    assert [h.tokens for h in found] == [h.tokens for h in whole]
    assert found[0].tokens[: len(committed)] == tuple(committed)


def test_nemo_reads_the_same_tokens(model, five_five):
    """Predictor and joint loaded strictly into NeMo's modules, under NeMo's own searches."""
    pytest.importorskip("nemo", reason="NeMo is not installed (pip install 'vrt[nemo]')")
    from vrt.oracle.nemo_model import NemoBeam, NemoGreedy

    beam, line = NemoBeam(model.transducer, BEAM), NemoGreedy(model.transducer)
    scorer = ModelScorer(model.transducer)
    for samples in (five_five, *(read(path).samples for path in SENTENCES)):
        frames = model.encode(torch.from_numpy(samples)).unsqueeze(0)
        length = torch.tensor([frames.shape[1]])
        (one,), (many,) = line(frames, length), beam(frames, length)
        (ours,) = greedy(scorer, scorer.project(frames), length)
        assert ours.tokens == one.tokens == transcribe(model, samples).tokens
        assert many[0].tokens == transcribe_beam(model, samples, BEAM)[0].tokens


@pytest.mark.slow
def test_the_receipts_numbers_are_measured_again(model, receipt, speech_dir):
    """Word edits equal on the receipt's processor, within 2 elsewhere."""
    from vrt.receipt.machine import describe_device
    from vrt.train.corpus import load_corpus
    from vrt.train.rnnt_report import report

    found = report(model, load_corpus(speech_dir), print)
    margin = 0 if describe_device()["cpu"] == receipt.device["cpu"] else 2
    for name in ("unheard_15_db", "unheard_5_db", "heard_15_db"):
        for search in ("greedy", "beam_8"):
            now, then = (n[name][search]["word_edits"] for n in (found, receipt.numbers))
            assert abs(now - then) <= margin, (name, search)
    assert found["quiet"]["sentences"]["words"] == pytest.approx(
        receipt.numbers["quiet"]["sentences"]["words"], abs=margin
    )
