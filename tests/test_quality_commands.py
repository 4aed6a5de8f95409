"""Every experiment as a command, on a tiny random model and three strings; what is refused."""

import json
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from quality_cases import TINY, quiet, random_model, tones
from typer.testing import CliRunner

from vrt.cli.app import app
from vrt.quality import (
    approximations,
    beam,
    clips,
    delay,
    errors,
    parity,
    runs,
    speakers,
    two_pass,
)
from vrt.quality.clips import encode, strings_of
from vrt.quality.counts import Work
from vrt.quality.errors import QualityError
from vrt.quality.searches import Answer, beam_search, run_over
from vrt.receipt import Receipt
from vrt.rnnt.acoustic import AcousticStream
from vrt.rnnt.acoustic_files import save_acoustic
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.model import ModelScorer
from vrt.rnnt.nbest import Hypothesis, NBest
from vrt.train import evaluation

STRINGS = ["--strings", "3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_acoustic(random_model(blank=7.0), tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def recordings(tmp_path, monkeypatch):
    """Tones in place of the folder of recordings."""
    (tmp_path / "fsdd").mkdir()
    (tmp_path / "fsdd" / "segments.tsv").write_text("tones\n")
    for module in (runs, speakers):
        monkeypatch.setattr(module, "find_speech", lambda named: tmp_path)
        monkeypatch.setattr(module, "load_corpus", lambda place: tones())
    monkeypatch.setattr(evaluation, "RESAMPLES", 50)
    monkeypatch.setattr(clips, "SETS", {"unheard_5_db": clips.SETS["unheard_5_db"]})
    for module in (beam, parity, delay, two_pass):
        monkeypatch.setattr(module, "SETS", {"unheard_5_db": clips.SETS["unheard_5_db"]})
    return tmp_path


def called(*words):
    return CliRunner().invoke(app, ["quality", *map(str, words)])


def receipt_of(result, file):
    assert result.exit_code == 0, result.output
    assert f"receipt: {file}" in result.stderr
    return Receipt.load(file)


def test_beam(folder, recordings, tmp_path, monkeypatch):
    monkeypatch.setattr(beam, "WIDTHS", (2, 8))
    monkeypatch.setattr(beam, "MAX_SYMBOLS", (1,))
    monkeypatch.setattr(beam, "LM_TEXTS", 50)
    out = tmp_path / "beam.json"
    receipt = receipt_of(called("beam", "-m", folder, *STRINGS, "-o", out), out)
    arms = receipt.numbers["unheard_5_db"]
    assert list(receipt.parameters.items()) == [("model", "tiny"), ("strings", 3)]
    assert {*arms} == {
        *("greedy", "beam_2", "beam_8", "beam_8_no_score_norm", "beam_8_max_symbols_1"),
        *("beam_8_ngram_0.2", "beam_8_ngram_0.4"),
        *("beam_8_hotwords_0.25", "beam_8_hotwords_0.5", "beam_8_hotwords_1"),
    }
    for name, arm in arms.items():
        assert arm["oracle_wer_percent"] <= arm["wer_percent"], name
        assert arm["strings"] == 3 and arm["work_a_clip"]["joint_rows"] > 0
    assert arms["greedy"]["equal_to_greedy"] == arms["beam_8"]["equal_to_widest"] == 1.0
    assert arms["beam_8"]["less_beam_8"]["points"] == 0.0
    text = json.dumps(receipt.numbers)
    assert "NaN" not in text and str(tmp_path) not in out.read_text()


def test_two_pass(folder, recordings, tmp_path, monkeypatch):
    monkeypatch.setattr(two_pass, "STREAMED", 1)
    out = tmp_path / "two.json"
    receipt = receipt_of(called("two-pass", "-m", folder, *STRINGS, "-o", out), out)
    numbers = receipt.numbers["unheard_5_db"]
    assert numbers["changes"]["strings"] == 3
    assert numbers["committing_beam"]["committed_changes"] == 0
    assert numbers["committing_beam"]["feeds"] > 10


def test_delay(recordings, tmp_path, monkeypatch):
    monkeypatch.setattr(delay, "DELAYS", (1, 6))
    monkeypatch.setattr(delay, "CONDITIONED", (1, 6))
    monkeypatch.setattr(delay, "SETS", ("unheard_5_db",))
    monkeypatch.setattr(delay, "STREAMED", 1)
    out = tmp_path / "delay.json"
    receipt = receipt_of(called("delay", "-m", "random-tiny", *STRINGS, "-o", out), out)
    numbers = receipt.numbers
    assert {*numbers} == {"unheard_5_db", "conditioning", "stability"}
    assert numbers["conditioning"]["prompt_ms"] == 480
    assert numbers["stability"]["committed_changes"] == 0
    assert numbers["unheard_5_db"]["480_ms"]["strings"] == 3


def test_approximations(folder, recordings, tmp_path, monkeypatch):
    monkeypatch.setattr(approximations, "SETS", ("unheard_5_db",))
    some = [
        arm for arm in approximations.arms(random_model(blank=7.0)) if arm[0] in ("beam_2", "top_2")
    ]
    monkeypatch.setattr(approximations, "arms", lambda model: some)
    out = tmp_path / "approximations.json"
    receipt = receipt_of(called("approximations", "-m", folder, *STRINGS, "-o", out), out)
    assert receipt.numbers["retain_at_least"] == approximations.RETAIN_AT_LEAST
    assert {*receipt.numbers["unheard_5_db"]["arms"]} == {"beam_2", "top_2"}


def test_speakers_rotate_and_resume(recordings, tmp_path, monkeypatch):
    plan = replace(TINY, steps=2)
    pairs = (("george", "theo"), ("jackson", "lucas"))
    monkeypatch.setattr(speakers, "PAIRS", pairs)
    monkeypatch.setattr(speakers, "BEAM", BeamConfig(beam_size=2, max_symbols=1))
    monkeypatch.setattr(speakers, "SPEAKERS", ("george", "jackson", "lucas", "theo"))
    receipts = tmp_path / "rotation"
    trained = []
    monkeypatch.setattr(
        speakers,
        "train",
        lambda corpus, plan, tell: trained.append(corpus) or speakers_train(corpus, plan, tell),
    )
    assert speakers.run(plan, 2, None, receipts, 1, quiet) is None
    summary = speakers.run(plan, 2, None, receipts, 15, quiet)
    assert len(trained) == 2 and [c.held_out for c in trained] == list(pairs)
    first = trained[0]
    assert {d.speaker for d in first.unheard()} == {"george", "theo"}
    assert not {d.speaker for d in [*first.train(), *first.validation(), *first.heard()]} & {
        "george",
        "theo",
    }
    assert {d.speaker for d in first.train()} == {"jackson", "lucas", "nicolas", "yweweler"}
    assert {*summary.numbers["by_speaker"]} == {"george", "jackson", "lucas", "theo"}
    again = speakers.run(plan, 2, None, receipts, 15, quiet)
    assert len(trained) == 2 and again.numbers == summary.numbers
    with pytest.raises(QualityError, match="another plan or number of strings"):
        speakers.run(plan, 3, None, receipts, 15, quiet)


speakers_train = speakers.train


def test_speakers_command(recordings, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(speakers, "run", lambda *arguments: asked.append(arguments))
    result = called("speakers", "--steps", 5, "--pairs", 2, "--folder", tmp_path / "r")
    assert result.exit_code == 0 and "run it again for the other pairs" in result.stderr
    ((plan, strings, _, _, most, _),) = asked
    assert (plan.steps, strings, most) == (5, 200, 2)
    (tmp_path / "taken").touch()
    assert called("speakers", "--folder", tmp_path / "taken").exit_code == 2


def test_parity_needs_nemo(folder, recordings, tmp_path):
    result = called("parity", "-m", folder, *STRINGS, "-o", tmp_path / "p.json")
    if find_spec("nemo"):
        receipt = receipt_of(result, tmp_path / "p.json")
        for search in ("greedy", "beam_4", "beam_8"):
            compared = receipt.numbers["unheard_5_db"][search]
            assert compared["tokens_equal"] == compared["clips"] == 3
            assert compared["first_mismatch"] is None
    else:
        assert result.exit_code == 1
        assert "parity with NeMo needs NeMo: pip install 'vrt[nemo]'" in result.stderr


def test_parity_sees_another_model():
    model = random_model(blank=7.0)
    strings = encode(model, strings_of(tones(), "unheard_5_db", 2))
    config = beam.BASE
    ours, other = (
        parity.decode(parity.our_beam(random_model(seed, 7.0), config), strings) for seed in (0, 1)
    )
    same = parity.compare(model, strings, ours, ours)
    assert same["tokens_equal"] == same["nbest_equal"] == 2 and same["score_difference_max"] == 0
    differs = parity.compare(model, strings, ours, other)
    assert differs["tokens_equal"] < 2 and differs["score_difference_max"] > 0.01
    assert differs["first_mismatch"]["said"] in {clip.text for clip in strings}


def test_audio_of_a_frame_is_what_a_stream_needs():
    model, samples = random_model(), np.zeros(8000, dtype=np.float32)
    stream, came = AcousticStream(model), []
    for first in range(0, len(samples), 80):
        frames = stream.feed(torch.from_numpy(samples[first : first + 80]))
        came += [(first + 80) / 16_000] * len(frames)
    assert len(came) > 8
    assert came == pytest.approx([two_pass.frame_seconds(n) for n in range(len(came))])


def test_words_end_with_their_last_character():
    model = random_model()
    spell = model.transducer.vocabulary.tokens
    tokens = spell("one  two")
    stamps = tuple(range(3, 3 + len(tokens)))
    best = Answer(NBest([Hypothesis(tokens, -1.0, -1.0, stamps)]), Work(*[0] * 10))
    wanted = [two_pass.frame_seconds(frame) for frame in (5, 10)]
    assert two_pass.word_times(model, best) == wanted


def test_what_was_taken_back_is_counted():
    totals = {"tentative_changes": 0, "characters_taken_back": 0}
    for before, now in [((), (1,)), ((1, 2), (1, 2, 3)), ((1, 2, 3), (1, 4)), ((1, 2), (1,))]:
        two_pass._count_taken_back(before, now, totals)
    assert totals == {"tentative_changes": 2, "characters_taken_back": 3}


def test_changes_between_two_texts():
    found = two_pass.changes(["one two", "", "six", "ten"], ["one", "four", "six", ""])
    assert found["strings_changed"] == 3 and found["word_edits"] == 3
    assert found["word_edits_percent"] == 75.0


def test_a_committed_text_that_changes_is_caught(monkeypatch):
    model = random_model(blank=7.0)
    strings = encode(model, strings_of(tones(), "unheard_5_db", 1))
    finals = run_over(beam_search(ModelScorer(model.transducer), two_pass.BEAM), strings)
    good = finals[0].tokens
    monkeypatch.setattr(two_pass, "_streamed", lambda *_: ((99,), good))
    with pytest.raises(QualityError, match=r"committed \(99,\), in the end"):
        two_pass.committing(model, strings, finals)
    monkeypatch.setattr(two_pass, "_streamed", lambda *_: ((), (*good, 1)))
    with pytest.raises(QualityError, match="is not the whole search's"):
        two_pass.committing(model, strings, finals)


COMMANDS = ["beam", "parity", "approximations", "two-pass", "delay"]


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_input_is_named(command, tmp_path, monkeypatch):
    monkeypatch.setattr(parity, "need_nemo", lambda: None)
    result = called(command, "--model", "nobody", "-o", tmp_path / "x.json")
    assert result.exit_code == 1 and "nobody is no folder with model.safetensors" in result.stderr
    result = called(command, "--strings", 0)
    assert result.exit_code == 2 and "strings" in result.stderr
    result = called(command, "-o", tmp_path)
    assert result.exit_code == 2 and "is a folder; name a file" in result.stderr
    result = called(
        command, "--model", "random-tiny", "--speech", tmp_path / "gone", "-o", tmp_path / "x"
    )
    assert result.exit_code == 1 and "no recordings" in result.stderr
    assert "Traceback" not in result.output


def test_a_missing_library_stops_before_any_work(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    result = called("beam", "-m", folder, "-o", tmp_path / "x.json")
    assert result.exit_code == 1 and "need jiwer: pip install 'vrt[quality]'" in result.stderr


def test_threads_are_given_back():
    before = torch.get_num_threads()
    with pytest.raises(KeyError), runs.one_thread():
        raise KeyError
    assert torch.get_num_threads() == before
