"""The whole of `vrt train digits-rnnt`: read, train, store, measure what was stored, receipt."""

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from vrt.receipt import Receipt, digest
from vrt.rnnt.acoustic_files import CONFIG, WEIGHTS, load_acoustic, save_acoustic
from vrt.train.corpus import find_speech, load_corpus
from vrt.train.rnnt_card import card
from vrt.train.rnnt_digits import Plan, train
from vrt.train.rnnt_report import report, storing


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
    begun = Receipt.begin({"model": "digits-rnnt", "plan": asdict(plan)})
    started = time.process_time()
    model = train(corpus, plan, tell)
    spent = time.process_time() - started
    save_acoustic(model, output)
    numbers = {
        "training_cpu_s": spent,
        "weights": sum(weight.numel() for weight in model.parameters()),
        "weights_bytes": (output / WEIGHTS).stat().st_size,
    }
    if measure:  # what is stored, in fp16, is what is measured
        loaded = load_acoustic(output)
        numbers |= report(loaded, corpus, tell) | {"fp16": storing(model, loaded, corpus)}
    files = [*(output / name for name in (CONFIG, WEIGHTS)), *sorted((place / "fsdd").iterdir())]
    done = begun.end(numbers, {file.name: digest(file) for file in files})
    done.write(receipt)
    if measure:
        (output / "README.md").write_text(card(done), encoding="utf-8")
