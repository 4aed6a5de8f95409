"""The shipped models' numbers, measured again, are those of their receipts."""

from itertools import pairwise

import pytest

from vrt.paths import data_dir
from vrt.quality.beam import BASE
from vrt.quality.clips import SETS, encode, strings_of
from vrt.quality.delay import CONDITIONED, conditioning
from vrt.quality.hearing import hear, scored_text, write
from vrt.quality.runs import one_thread
from vrt.quality.scoring import errors_of
from vrt.quality.searches import beam_search, greedy_search, run_over
from vrt.quality.timed import timed_strings
from vrt.receipt import Receipt
from vrt.receipt.machine import describe_device
from vrt.rnnt.acoustic_files import load_acoustic
from vrt.rnnt.model import ModelScorer
from vrt.train.corpus import load_corpus
from vrt.train.evaluation import word_errors
from vrt.voxtral.config import TOKEN_MS
from vrt.voxtral.weights import load

pytestmark = pytest.mark.slow
ELSEWHERE = 2  # word edits: another processor's products are rounded otherwise


@pytest.fixture(scope="module")
def corpus(speech_dir):
    return load_corpus(speech_dir)


def shipped(repo_root, model, receipt):
    folder, file = data_dir() / "models" / model, repo_root / "data" / "receipts" / receipt
    if not (folder / "model.safetensors").is_file() or not file.is_file():
        pytest.skip(f"no {folder.name} or no {file.name}")
    return folder, Receipt.load(file)


def tolerance(receipt):
    return 0 if describe_device()["cpu"] == receipt.device["cpu"] else ELSEWHERE


@pytest.mark.parametrize("name", list(SETS))
def test_digits_rnnt_reads_as_its_receipt_says(repo_root, corpus, name):
    folder, receipt = shipped(repo_root, "digits-rnnt", "quality-beam.json")
    with one_thread():
        model = load_acoustic(folder)
        scorer = ModelScorer(model.transducer)
        clips = encode(model, strings_of(corpus, name, receipt.parameters["strings"]))
        searches = {"greedy": greedy_search(scorer), "beam_8": beam_search(scorer, BASE)}
        found = {n: errors_of(model, clips, run_over(s, clips)) for n, s in searches.items()}
    for search, errors in found.items():
        wanted = receipt.numbers[name][search]["word_edits"]
        assert abs(int(errors.edits.sum()) - wanted) <= tolerance(receipt), (name, search)


@pytest.mark.parametrize("delay", [1, 6, 30])
def test_digits_voxtral_reads_as_its_receipt_says(repo_root, corpus, delay):
    folder, receipt = shipped(repo_root, "digits-voxtral", "quality-delay.json")
    name = "unheard_15_db"
    strings = strings_of(corpus, name, receipt.parameters["strings"])
    with one_thread():
        model = load(folder)
        texts = [scored_text(write(model, hear(model, s.samples), delay)) for s in strings]
    edits = int(word_errors([s.text for s in strings], texts).edits.sum())
    wanted = receipt.numbers[name][f"{delay * TOKEN_MS}_ms"]["word_edits"]
    assert abs(edits - wanted) <= tolerance(receipt)


def test_digits_voxtral_is_conditioned_by_the_embedding_alone(repo_root, corpus):
    """One prompt, other delays in the time embedding: words come as much later as it says."""
    folder, _ = shipped(repo_root, "digits-voxtral", "quality-delay.json")
    strings = timed_strings(corpus, "heard_15_db", 40)
    with one_thread():
        model = load(folder)
        heard = [hear(model, string.example.samples) for string in strings]
        found = conditioning(model, strings, heard)
    medians = [
        found[f"embedding_{delay * TOKEN_MS}_ms"]["emission_after_word_end"]["p50_ms"]
        for delay in CONDITIONED
    ]
    steps = [later - sooner for sooner, later in pairwise(medians)]
    wanted = [TOKEN_MS * (later - sooner) for sooner, later in pairwise(CONDITIONED)]
    # A word comes in steps of a token; half of each step is far above what chance would give.
    assert all(step > want / 2 for step, want in zip(steps, wanted, strict=True)), medians
