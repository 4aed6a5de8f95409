"""Delay against word errors and against the measured time from a word's end to its text.

Also: the conditioning alone (one prompt, other delays in the time embedding), and whether text that
was shown ever changes while a stream is fed in pieces of random sizes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vrt.quality.hearing import Heard, hear, said_at, scored_text, write
from vrt.quality.runs import Request, recorded
from vrt.quality.scoring import difference
from vrt.quality.stability import stability
from vrt.quality.timed import Timed, latencies, spread_ms, timed_strings
from vrt.receipt import Receipt
from vrt.train.corpus import Corpus
from vrt.train.evaluation import Errors, word_errors
from vrt.voxtral.config import TOKEN_MS
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.weights import load

SETS = ("unheard_15_db", "heard_15_db")
DELAYS = (1, 2, 3, 4, 6, 8, 10, 14, 20, 25, 30)  # tokens of 80 ms
BASE = 6  # the released delay; others are compared with it
CONDITIONED = (1, 3, 6, 12)
STREAMED = 20  # strings fed in pieces


def run(request: Request, output: Path, tell: Callable[[str], None]) -> Receipt:
    """The receipt of `vrt quality delay`."""
    return recorded(request, lambda f, c: measure(load(f), c, request, tell), output)


def measure(
    model: VoxtralRealtime, corpus: Corpus, request: Request, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Numbers by set and delay; conditioning and stability on the first set."""
    numbers: dict[str, Any] = {}
    for name in SETS:
        strings = timed_strings(corpus, name, request.strings)
        heard = [hear(model, string.example.samples) for string in strings]
        numbers[name] = by_delay(
            model, strings, heard, lambda line, name=name: tell(f"{name}: {line}")
        )
        if name == SETS[0]:
            numbers["conditioning"] = conditioning(model, strings, heard)
            tell(f"conditioning: {medians(numbers['conditioning'])}")
            numbers["stability"] = stability(
                model, [s.example.samples for s in strings[:STREAMED]], np.random.default_rng(0)
            )
    return numbers


@dataclass(frozen=True)
class Outcome:
    """What one setting gave on all strings."""

    errors: Errors
    late: list[float]  # seconds, of words in strings without errors

    def describe(self) -> dict[str, Any]:
        return self.errors.describe() | {"emission_after_word_end": spread_ms(self.late)}


def by_delay(
    model: VoxtralRealtime,
    strings: Sequence[Timed],
    heard: Sequence[Heard],
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Each delay, and its difference to the base."""
    found: dict[int, Outcome] = {}
    for delay in DELAYS:
        found[delay] = outcome(model, strings, heard, delay, None)
        tell(f"{delay * TOKEN_MS} ms {found[delay].errors.rate:.2f}%")
    return {
        f"{delay * TOKEN_MS}_ms": one.describe()
        | {f"less_{BASE * TOKEN_MS}_ms": difference(one.errors, found[BASE].errors)}
        for delay, one in found.items()
    }


def conditioning(
    model: VoxtralRealtime, strings: Sequence[Timed], heard: Sequence[Heard]
) -> dict[str, Any]:
    """The prompt of the base delay throughout; only the time embedding changes."""
    numbers: dict[str, Any] = {"prompt_ms": BASE * TOKEN_MS}
    for delay in CONDITIONED:
        one = outcome(model, strings, heard, BASE, delay)
        numbers[f"embedding_{delay * TOKEN_MS}_ms"] = one.describe()
    return numbers


def outcome(
    model: VoxtralRealtime,
    strings: Sequence[Timed],
    heard: Sequence[Heard],
    delay: int,
    conditioned: int | None,
) -> Outcome:
    transcripts = [write(model, one, delay, conditioned) for one in heard]
    texts = [scored_text(transcript) for transcript in transcripts]
    left_pad = model.config.left_pad_tokens
    times = [said_at(transcript.tokens, left_pad) for transcript in transcripts]
    errors = word_errors([string.example.text for string in strings], texts)
    return Outcome(errors, latencies(strings, texts, times))


def medians(numbers: dict[str, Any]) -> str:
    """One line for a person."""
    parts = [
        f"{name.removeprefix('embedding_')} -> {value['emission_after_word_end']['p50_ms']}"
        for name, value in numbers.items()
        if name != "prompt_ms"
    ]
    return ", ".join(parts)
