"""`vrt decode`: frames from files through the search, results on stdout, complaints by name."""

import json

import numpy as np
import pytest
import torch
from commands import fails, run
from safetensors.torch import save_file

from vrt.paths import data_dir
from vrt.rnnt import BeamConfig, ModelScorer, Transducer, TransducerConfig, greedy, malsd
from vrt.rnnt.vocabulary import Vocabulary
from vrt.rnnt.weights import save_nemo

LETTERS = ("a", "b", "c", " ")
SIZES = TransducerConfig(
    vocab=5, encoder_width=6, predictor_width=8, predictor_layers=1, joint_width=7
)


@pytest.fixture(scope="module")
def model():
    model = Transducer.random(SIZES, seed=3)
    model.vocabulary = Vocabulary(LETTERS)
    return model


@pytest.fixture(scope="module")
def archive(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "letters.nemo"
    save_nemo(model, path)
    return path


@pytest.fixture(scope="module")
def encoder_output():
    return torch.randn(2, 12, 6, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def frames_file(encoder_output, tmp_path):
    path = tmp_path / "frames.npy"
    np.save(path, encoder_output[0].numpy())
    return path


@pytest.fixture
def batch_file(encoder_output, tmp_path):
    path = tmp_path / "batch.safetensors"
    save_file({"frames": encoder_output, "lengths": torch.tensor([12, 7])}, path)
    return path


def searched(model, frames, lengths, **options):
    scorer = ModelScorer(model)
    return malsd(scorer, scorer.project(frames), torch.tensor(lengths), BeamConfig(**options))


def test_the_best_text(model, archive, frames_file, encoder_output):
    result = run("decode", frames_file, "--model", archive, "--beam", 4)
    assert result.exit_code == 0, result.output
    (nbest,) = searched(model, encoder_output[:1], [12], beam_size=4)
    assert result.stdout == model.text(nbest[0].tokens) + "\n" and nbest[0].tokens


def test_json_has_the_search_result_of_every_utterance(model, archive, batch_file, encoder_output):
    result = run(
        *("decode", batch_file, "--model", archive, "--beam", 4, "--n-best", 3, "--json"),
        *("--max-symbols", 2, "--no-score-norm"),
    )
    assert result.exit_code == 0, result.output
    said = [json.loads(line) for line in result.stdout.splitlines()]
    options = {"beam_size": 4, "max_symbols": 2, "score_norm": False}
    for utterance, nbest in enumerate(searched(model, encoder_output, [12, 7], **options)):
        assert said[utterance]["utterance"] == utterance
        for got, want in zip(said[utterance]["nbest"], nbest[:3], strict=True):
            assert got["tokens"] == list(want.tokens)
            assert got["timestamps"] == list(want.timestamps)
            assert got["text"] == model.text(want.tokens)
            assert got["score"] == pytest.approx(want.score, abs=2e-5)  # the fast search's


def test_greedy(model, archive, frames_file, encoder_output):
    result = run("decode", frames_file, "--model", archive, "--greedy")
    assert result.exit_code == 0, result.output
    scorer = ModelScorer(model)
    (want,) = greedy(scorer, scorer.project(encoder_output[:1]), torch.tensor([12]))
    assert result.stdout == model.text(want.tokens) + "\n"


def test_the_trace_has_a_row_for_every_living_hypothesis(archive, frames_file):
    result = run("decode", frames_file, "--model", archive, "--beam", 2, "--trace", "--json")
    rows = json.loads(result.stdout)["trace"]
    assert {row["slot"] for row in rows} == {0, 1} and len(rows) > 12
    table = run("decode", frames_file, "--model", archive, "--beam", 2, "--trace").stdout
    assert table.splitlines()[0].split()[:4] == ["iteration", "slot", "parent", "label"]
    assert len(table.splitlines()) == len(rows) + 2  # a head and the text


def test_phrases_raise_the_score_of_a_path_that_has_them(archive, frames_file, tmp_path):
    phrases = tmp_path / "phrases.txt"
    phrases.write_text("ccc\n\nab\n", encoding="utf-8")
    command = ("decode", frames_file, "--model", archive, "--json", "--beam", 4)
    plain = json.loads(run(*command).stdout)["nbest"][0]["text"]
    boosted = run(*command, "--phrases", phrases, "--boost", 8)
    assert boosted.exit_code == 0, boosted.output
    assert "ccc" in json.loads(boosted.stdout)["nbest"][0]["text"] and "ccc" not in plain


def test_an_ngram_joins_the_search(archive, frames_file, tmp_path):
    arpa = tmp_path / "letters.arpa"
    lines = [
        *("\\data\\", "ngram 1=6", "", "\\1-grams:", "-9\t<s>", "-9\t</s>", "-0.01\tc"),
        *("-9\ta", "-9\tb", "-9\t ", "", "\\end\\"),
    ]
    arpa.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = run(
        *("decode", frames_file, "--model", archive, "--lm", arpa, "--lm-weight", 2),
        *("--beam", 4),
    )
    fails(result, 1, "letters.arpa")  # a piece that is a space cannot be a word of an ARPA file


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros((4, 5), np.float32), "[T, 6]"),
        (np.zeros((4, 6), np.int64), "torch.int64"),
        (np.full((4, 6), np.nan, np.float32), "NaN"),
        (np.zeros(6, np.float32), "[6]"),
        (np.zeros((0, 6), np.float32), "T = 0"),
    ],
)
def test_frames_that_do_not_fit_are_refused(array, says, archive, tmp_path):
    path = tmp_path / "wrong.npy"
    np.save(path, array)
    fails(run("decode", path, "--model", archive), 1, "wrong.npy", says)


def test_bad_files_are_named_and_the_others_are_decoded(archive, frames_file, tmp_path):
    broken, other = tmp_path / "broken.npy", tmp_path / "other.safetensors"
    broken.write_bytes(frames_file.read_bytes()[:70])
    save_file({"x": torch.zeros(1)}, other)
    files = (broken, other, tmp_path / "none.npy", frames_file)
    result = run("decode", *files, "-m", archive, "--beam", 4)
    lines = fails(result, 1, "broken.npy")
    assert any("none called frames" in line for line in lines)
    assert any("none.npy: No such file" in line for line in lines)
    assert result.stdout.startswith(f"{frames_file}: ")


def test_audio_needs_a_model_with_an_encoder(archive, tmp_path):
    fails(run("decode", tmp_path / "a.wav", "--model", archive), 1, "has no encoder here")


def test_wrong_models_and_contradictions_are_refused(archive, frames_file, tmp_path):
    fails(run("decode", frames_file, "--model", tmp_path / "none.nemo"), 1, "none.nemo")
    fails(run("decode", frames_file, "-m", archive, "--beam", 9), 1, "--beam 9", "5 classes")
    fails(run("decode", frames_file, "-m", archive, "--boost", "nan"), 1, "--boost nan")
    fails(run("decode", frames_file, "-m", archive, "--greedy", "--trace"), 2, "--greedy")


def test_other_commands_point_here():
    result = run("transcribe", "any.wav", "--model", "digits-rnnt")
    fails(result, 1, "digits-rnnt is a small transducer", "vrt decode FILE")


def test_the_shipped_model_hears_digits():
    clip = data_dir() / "audio" / "five_five.flac"
    assert run("decode", clip).stdout == "five five\n"
    said = json.loads(run("decode", clip, "--json").stdout)["nbest"][0]
    assert said["seconds"] == [round(0.04 * frame, 3) for frame in said["timestamps"]]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\xff\xfe\x00\x01", "not UTF-8"),
        (b"\n \n", "holds no phrase"),
        ("zero\n日本\n".encode(), "'日' of '日本'"),
    ],
)
def test_a_phrases_file_that_cannot_be_used_is_named(content, says, tmp_path):
    file = tmp_path / "names.txt"
    file.write_bytes(content)
    clip = data_dir() / "audio" / "five_five.flac"
    fails(run("decode", clip, "--phrases", file), 1, "names.txt", says)


def test_short_and_long_files_are_searched_alike(monkeypatch):
    """A short file does without the compiled searches: the same list either way."""
    file = str(data_dir() / "audio" / "five_five.flac")
    found = []
    for bound in (10**9, 0):
        monkeypatch.setattr("vrt.cli.decode_search.LONG", bound)
        found.append(
            [run("decode", file, "--n-best", "4", *more).stdout for more in ([], ["--greedy"])]
        )
    assert found[0] == found[1] and "five five" in found[0][0]
