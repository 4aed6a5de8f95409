"""The whole of `vrt train digits-voxtral`: read, train, store, measure what was stored, receipt."""

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from vrt.receipt import Receipt, digest
from vrt.train.corpus import Corpus, find_speech, load_corpus
from vrt.train.voxtral_card import card
from vrt.train.voxtral_digits import Plan, train
from vrt.train.voxtral_report import report
from vrt.train.voxtral_spelling import write_vocabulary
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.tokenizer import Tokenizer
from vrt.voxtral.weights import load
from vrt.voxtral.weights.saving import save

WEIGHTS, VOCABULARY, CONFIG = "model.safetensors", "tekken.json", "config.json"
SNAPSHOT = "snapshot"  # of the averaged weights, on the way


def run(
    plan: Plan,
    speech: Path | None,
    output: Path,
    receipt: Path,
    measure: bool,
    tell: Callable[[str], None],
) -> None:
    """Write the model into `output` and the receipt to `receipt`; with numbers, a card too.

    Raises:
        SpeechError: no recordings, or jiwer or scipy is missing for the measurements.
    """
    place = find_speech(speech)
    corpus = load_corpus(place)
    begun = Receipt.begin({"model": "digits-voxtral", "plan": asdict(plan)})
    numbers = trained(corpus, plan, output, tell)
    finish(begun, numbers, corpus, place, output, receipt, measure, tell)


def trained(
    corpus: Corpus, plan: Plan, output: Path, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Train and write the model; what that cost."""
    started = time.process_time()
    snapshot = output / SNAPSHOT

    def look(step: int, average: VoxtralRealtime) -> None:
        write(average, snapshot)
        tell(f"step {step}: so far in {snapshot}")

    sentences = [*corpus.train_sentences(), *corpus.misc_sentences()]
    model = train(corpus.train(), sentences, plan, tell, look)
    write(model, output)
    shutil.rmtree(snapshot, ignore_errors=True)
    return {
        "training_cpu_s": time.process_time() - started,
        "weights": sum(weight.numel() for weight in model.parameters()),
        "weights_bytes": (output / WEIGHTS).stat().st_size,
    }


def finish(
    begun: Receipt,
    numbers: dict[str, Any],
    corpus: Corpus,
    place: Path,
    output: Path,
    receipt: Path,
    measure: bool,
    tell: Callable[[str], None],
) -> None:
    """Measure what is stored, write the receipt and the card."""
    if measure:
        numbers = numbers | report(load(output, dtype=torch.float32), corpus, tell)
    ours = [output / name for name in (CONFIG, WEIGHTS, VOCABULARY)]
    digests = {file.name: digest(file) for file in [*ours, *sorted((place / "fsdd").iterdir())]}
    done = begun.end(numbers, digests)
    done.write(receipt)
    if measure:
        (output / "README.md").write_text(card(done), encoding="utf-8")


def write(model: VoxtralRealtime, folder: Path) -> None:
    """In the Hugging Face layout, weights in float16; config.json says to compute in float32.

    A float16 holds a trained weight to 0.05% and halves the file; products in float16 are slow on
    a CPU and overflow at 65,504.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_vocabulary(folder / VOCABULARY)
    half = VoxtralRealtime(model.config)
    half.load_state_dict(model.state_dict())
    half = half.to(torch.float16)
    half.tokenizer = Tokenizer(folder / VOCABULARY)
    save(half, folder)
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8")) | {"dtype": "float32"}
    text = json.dumps(config, indent=2, sort_keys=True) + "\n"
    (folder / CONFIG).write_text(text, encoding="utf-8")
