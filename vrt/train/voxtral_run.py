"""`digits-voxtral` from recordings to a folder that `vrt.load` and transformers read."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch

from vrt.receipt import Receipt, digest
from vrt.train.corpus import Corpus
from vrt.train.voxtral_digits import Plan, train
from vrt.train.voxtral_spelling import write_vocabulary
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.tokenizer import Tokenizer
from vrt.voxtral.weights.saving import save

WEIGHTS, VOCABULARY, CONFIG = "model.safetensors", "tekken.json", "config.json"
SNAPSHOT = "snapshot"


def run(
    corpus: Corpus, plan: Plan, folder: Path, command: str, tell: Callable[[str], None]
) -> Receipt:
    """Train, write the model to `folder`, and give back the receipt of it.

    On the way the averaged model so far lies in `folder`/snapshot, for who wants to look.
    """
    receipt = Receipt.begin(asdict(plan), command)
    started = time.process_time()

    def look(step: int, average: VoxtralRealtime) -> None:
        write(average, folder / SNAPSHOT)
        tell(f"step {step}: {folder / SNAPSHOT} written")

    sentences = [*corpus.train_sentences(), *corpus.misc_sentences()]
    model = train(corpus.train(), sentences, plan, tell, look)
    write(model, folder)
    numbers = {
        "cpu_seconds": time.process_time() - started,
        "weights": sum(weight.numel() for weight in model.parameters()),
        "bytes": {name: (folder / name).stat().st_size for name in (WEIGHTS, VOCABULARY, CONFIG)},
        "clips": len(corpus.train()),
        "sentences": [sentence.name for sentence in sentences],
    }
    digests = {name: digest(folder / name) for name in (WEIGHTS, VOCABULARY, CONFIG)}
    return receipt.end(numbers, digests)


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
