"""What `digits-rnnt` can do, in the numbers of its receipt."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from vrt.audio import SAMPLE_RATE
from vrt.rnnt.acoustic import AcousticTransducer, transcribe, transcribe_beam
from vrt.rnnt.config import BeamConfig
from vrt.train import augment
from vrt.train.corpus import Corpus, Digit, Sentence
from vrt.train.evaluation import Errors, Reader, false_words, read_strings
from vrt.train.strings import Example, test_strings

STRINGS = 200
SEED = 20_240  # of the test strings and their noise
BEAM = BeamConfig(beam_size=8)
PEAKS_DB = (-50.0, -40.0, -30.0, -20.0, -6.0, 0.0)  # of a string, dB of full scale
QUIET_S = 10.0


def greedy_reader(model: AcousticTransducer) -> Reader:
    return lambda samples: model.text(transcribe(model, samples).tokens)


def beam_reader(model: AcousticTransducer, config: BeamConfig) -> Reader:
    """The best of the exact beam; empty where no hypothesis survived."""

    def read(samples: np.ndarray) -> str:
        found = transcribe_beam(model, samples, config)
        return model.text(found[0].tokens) if found else ""

    return read


def validation(model: AcousticTransducer, corpus: Corpus) -> dict[str, Any]:
    """For choices: takes and sentences that neither training nor a test reads."""
    strings = test_strings(corpus.validation(), STRINGS, SEED, 15.0)
    return {
        "strings_15_db": read_strings(greedy_reader(model), strings).describe(),
        "sentences": false_words(greedy_reader(model), corpus.validation_sentences()),
    }


def storing(
    before: AcousticTransducer, after: AcousticTransducer, corpus: Corpus
) -> dict[str, int]:
    """What fp16 in the file changes: strings whose greedy tokens are those of the fp32 weights."""
    strings = test_strings(corpus.validation(), STRINGS, SEED, 5.0)
    pairs = [[transcribe(model, e.samples).tokens for model in (before, after)] for e in strings]
    return {"strings": len(pairs), "strings_equal": sum(one == other for one, other in pairs)}


def report(
    model: AcousticTransducer, corpus: Corpus, tell: Callable[[str], None]
) -> dict[str, Any]:
    """All numbers: greedy and beam on unheard and on heard speakers, levels, and quiet."""
    sets = {
        "unheard_15_db": test_strings(corpus.unheard(), STRINGS, SEED, 15.0),
        "unheard_5_db": test_strings(corpus.unheard(), STRINGS, SEED, 5.0),
        "heard_15_db": test_strings(corpus.heard(), STRINGS, SEED, 15.0),
    }
    numbers: dict[str, Any] = {"validation": validation(model, corpus)}
    for name, strings in sets.items():
        numbers[name] = _both(model, strings)
        tell(f"{name}: {_line(numbers[name])}")
    numbers["unheard_15_db"]["by_speaker"] = _by_speaker(model, sets["unheard_15_db"])
    numbers["unheard_peaks"] = _levels(model, corpus.unheard())
    numbers["quiet"] = _quiet(model, corpus.test_sentences())
    return numbers


def _both(model: AcousticTransducer, strings: list[Example]) -> dict[str, Any]:
    greedy, beam = (
        read_strings(r, strings) for r in (greedy_reader(model), beam_reader(model, BEAM))
    )
    difference, interval = beam.difference(greedy)
    return {
        "greedy": greedy.describe(),
        "beam_8": beam.describe(),
        "beam_8_less_greedy": {"points": difference, "points_95": list(interval)},
    }


def _line(numbers: dict[str, Any]) -> str:
    greedy, beam = (numbers[name]["wer_percent"] for name in ("greedy", "beam_8"))
    low, high = numbers["beam_8_less_greedy"]["points_95"]
    return f"greedy {greedy:.2f}%, beam 8 {beam:.2f}% ({low:+.2f} to {high:+.2f})"


def _by_speaker(model: AcousticTransducer, strings: list[Example]) -> dict[str, Any]:
    reader = greedy_reader(model)
    names = sorted({example.speaker for example in strings})
    chosen = {name: [e for e in strings if e.speaker == name] for name in names}
    return {name: read_strings(reader, own).describe() for name, own in chosen.items()}


def _levels(model: AcousticTransducer, pool: list[Digit]) -> dict[str, Any]:
    """The same strings at 15 dB, scaled: what loudness alone does."""
    strings = test_strings(pool, STRINGS // 2, SEED, 15.0)
    reader = greedy_reader(model)

    def at(peak_db: float) -> Errors:
        peak = np.float32(10 ** (peak_db / 20))
        scaled = [replace(e, samples=e.samples * (peak / abs(e.samples).max())) for e in strings]
        return read_strings(reader, scaled)

    return {f"peak_{db:g}_db": at(db).describe() for db in PEAKS_DB}


def _quiet(model: AcousticTransducer, sentences: list[Sentence]) -> dict[str, Any]:
    """Words said on other speech, on noise of three levels, and on zeros."""
    rng = np.random.default_rng(SEED)
    count = int(QUIET_S * SAMPLE_RATE)
    made = [Sentence("zeros", np.zeros(count, dtype=np.float32))]
    for db in (-60.0, -40.0, -20.0):
        noise = augment.at_level(augment.white(count, rng), db)
        made.append(Sentence(f"white noise {db:g} dB", noise))
    reader = greedy_reader(model)
    return {"sentences": false_words(reader, sentences), "no_speech": false_words(reader, made)}
