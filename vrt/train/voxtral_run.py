"""The whole of `vrt train digits-voxtral`: read, train, store, measure what was stored, receipt."""

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from vrt.receipt import Receipt, digest
from vrt.train.corpus import Corpus, find_speech, load_corpus
from vrt.train.voxtral_card import card
from vrt.train.voxtral_digits import Plan, in_stages, train_stage
from vrt.train.voxtral_report import report
from vrt.train.voxtral_spelling import write_vocabulary
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.tokenizer import Tokenizer
from vrt.voxtral.weights import load
from vrt.voxtral.weights.saving import save

WEIGHTS, VOCABULARY, CONFIG = "model.safetensors", "tekken.json", "config.json"
SNAPSHOT = "snapshot"  # of the averaged weights, on the way
STAGE = "stage.json"  # beside the weights of a finished stage: the plan so far and what it cost


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
    """Train and write the model; what that cost.

    Each finished stage stays in `output` until all are done: after an interruption the same command
    goes on behind it, to the same bytes.
    """
    snapshot = output / SNAPSHOT

    def look(step: int, average: VoxtralRealtime) -> None:
        write(average, snapshot)
        tell(f"step {step}: so far in {snapshot}")

    sentences = [*corpus.train_sentences(), *corpus.misc_sentences()]
    spent: list[float] = []

    def stage(before: VoxtralRealtime | None, number: int) -> VoxtralRealtime:
        folder = output / f"stage-{number + 1}"
        cost = _finished(folder, plan, number)
        if cost is None:
            started = time.process_time()
            model = train_stage(before, corpus.train(), sentences, plan, number, tell, look)
            cost = time.process_time() - started
            write(model, folder)
            _note(folder, plan, number, cost)
        else:
            tell(f"stage {number + 1} is in {folder} already")
            model = load(folder, dtype=torch.float32)
            model.tokenizer = None
        spent.append(cost)
        return model

    model = in_stages(plan, stage)
    write(model, output)
    for folder in (snapshot, *output.glob("stage-*")):
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "training_cpu_s": sum(spent),
        "weights": sum(weight.numel() for weight in model.parameters()),
        "weights_bytes": (output / WEIGHTS).stat().st_size,
    }


def _note(folder: Path, plan: Plan, number: int, cost: float) -> None:
    """Written last: a stage without it is not finished."""
    content = _stages(plan, number) | {"cpu_s": cost, "weights": digest(folder / WEIGHTS)}
    (folder / STAGE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _finished(folder: Path, plan: Plan, number: int) -> float | None:
    """CPU seconds of the stage that is kept there, or None.

    Raises:
        ValueError: what is there is of another plan, or its weights were changed.
    """
    if not (folder / STAGE).is_file():
        return None
    content = json.loads((folder / STAGE).read_text(encoding="utf-8"))
    cost, weights = content.pop("cpu_s"), content.pop("weights")
    if content != _stages(plan, number) or weights != digest(folder / WEIGHTS):
        raise ValueError(f"{folder} is of another plan or was changed; remove it to train anew")
    return cost


def _stages(plan: Plan, number: int) -> dict[str, Any]:
    """The plan up to a stage, as JSON gives it back."""
    so_far = replace(plan, stages=plan.stages[: number + 1])
    return {"plan": json.loads(json.dumps(asdict(so_far)))}


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
