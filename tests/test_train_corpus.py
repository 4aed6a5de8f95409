"""The data door: who is trained on, who is not, and what is said where recordings are missing."""

from itertools import combinations

import numpy as np
import pytest

from vrt.train import corpus as door
from vrt.train.corpus import SpeechError, find_speech, load_corpus


@pytest.fixture(scope="module")
def corpus(speech_dir):
    return load_corpus(speech_dir)


def keys(digits):
    return {(digit.speaker, digit.value, digit.take) for digit in digits}


def test_parts_do_not_meet_and_are_all_there_is(corpus):
    parts = [corpus.train(), corpus.validation(), corpus.heard(), corpus.unheard()]
    assert [len(part) for part in parts] == [1680, 120, 200, 1000]
    for one, other in combinations(parts, 2):
        assert not keys(one) & keys(other)
    assert keys(corpus.digits) == set().union(*map(keys, parts))
    assert len(keys(corpus.digits)) == len(corpus.digits) == 3000


def test_training_and_validation_meet_no_test_speaker_and_no_test_take(corpus):
    for digit in [*corpus.train(), *corpus.validation()]:
        assert digit.speaker not in ("lucas", "theo") and digit.take >= 5


def test_sentences_do_not_meet(corpus):
    parts = [corpus.train_sentences(), corpus.misc_sentences()]
    parts += [corpus.validation_sentences(), corpus.test_sentences()]
    names = [{sentence.name for sentence in part} for part in parts]
    for one, other in combinations(names, 2):
        assert not one & other
    assert not any("LJ001-0007" in name for part in names for name in part)  # it says numbers
    assert all(len(sentence.samples) > 16_000 for part in parts for sentence in part)


def test_clips_are_the_recordings(corpus, speech_dir):
    """Cut at half the place in a file of 8 kHz: the same power, nothing above 4 kHz."""
    import soundfile

    raw, rate = soundfile.read(speech_dir / "fsdd/jackson.flac", dtype="float32")
    rows = (speech_dir / "fsdd/segments.tsv").read_text().splitlines()[1:]
    row = next(r.split("\t") for r in rows if r.startswith("jackson.flac\tjackson\t7\t9\t"))
    start, end = int(row[4]), int(row[5])
    (digit,) = [d for d in corpus.digits if (d.speaker, d.value, d.take) == ("jackson", 7, 9)]
    assert rate == 8000 and len(digit.samples) == 2 * (end - start) and digit.word == "seven"
    assert digit.samples.dtype == np.float32
    # soxr keeps the old samples to the width of its filter's ripple.
    assert np.abs(digit.samples[::2] - raw[start:end]).max() < 0.02
    spectrum = np.abs(np.fft.rfft(digit.samples)) ** 2
    assert spectrum[len(spectrum) * 21 // 40 :].sum() < 1e-3 * spectrum.sum()


def test_a_missing_folder_is_named(tmp_path, monkeypatch):
    with pytest.raises(SpeechError, match=r"nowhere is no folder; .*--speech or VRT_SPEECH"):
        find_speech(tmp_path / "nowhere")
    with pytest.raises(SpeechError, match=r"holds no fsdd/segments.tsv"):
        find_speech(tmp_path)
    monkeypatch.setenv("VRT_SPEECH", str(tmp_path / "elsewhere"))
    with pytest.raises(SpeechError, match="elsewhere is no folder"):
        find_speech()


def test_a_folder_that_is_not_complete_is_named(tmp_path, repo_root, monkeypatch):
    for name in ("TRAIN_SENTENCES", "MISC_SENTENCES", "VALIDATION_SENTENCES"):
        monkeypatch.setattr(door, name, ())
    monkeypatch.setattr(door, "TEST_SENTENCES", ("lj/one.flac",))
    fsdd = tmp_path / "fsdd"
    fsdd.mkdir()
    head = "file\tspeaker\tdigit\ttake\tstart_sample\tend_sample\n"
    (fsdd / "segments.tsv").write_text(head + "a.flac\ta\t0\t0\t0\t99999999\n")
    with pytest.raises(SpeechError, match=r"one.flac is missing"):
        load_corpus(tmp_path)
    clip = (repo_root / "data/audio/five_five.flac").read_bytes()
    (tmp_path / "lj").mkdir()
    (tmp_path / "lj/one.flac").write_bytes(clip)
    with pytest.raises(SpeechError, match=r"a.flac is missing"):
        load_corpus(tmp_path)
    (fsdd / "a.flac").write_bytes(clip)
    with pytest.raises(SpeechError, match=r"0..99999999 lies outside a.flac"):
        load_corpus(tmp_path)
