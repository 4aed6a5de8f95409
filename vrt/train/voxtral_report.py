"""What `digits-voxtral` can do, in the numbers of its receipt, measured through the real engine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vrt.audio import SAMPLE_RATE
from vrt.train import augment
from vrt.train.corpus import UNHEARD_SPEAKERS, Corpus, Sentence
from vrt.train.evaluation import Errors, Reader, false_words, read_strings, word_errors
from vrt.train.strings import Example, test_strings
from vrt.train.voxtral_spelling import spoken_words
from vrt.voxtral.config import TOKEN_MS
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.offline import transcribe
from vrt.voxtral.transcript import Transcript

STRINGS = 200
MANY = 1000  # at the usual delay alone: 200 strings draw a luck of 2 points either way
SEED = 20_241  # of the test strings and their noise
DELAYS = (1, 2, 4, 6, 10, 14, 20, 30)  # tokens
SOME = (1, 6, 30)
USUAL = 6
LEVELS_DB = (-50.0, -35.0, -20.0, -10.0)  # root mean square of a string, dB of full scale
QUIET_S = 20.0


def reader(model: VoxtralRealtime, delay: int) -> Reader:
    """Samples to words, normalised; a stream says the same, bit for bit."""
    return lambda samples: " ".join(spoken_words(transcribe(model, samples, delay * TOKEN_MS).text))


@dataclass(frozen=True)
class Read:
    """Strings and what was made of them."""

    strings: list[Example]
    found: list[Transcript]

    @classmethod
    def of(cls, model: VoxtralRealtime, strings: list[Example], delay: int) -> "Read":
        return cls(strings, [transcribe(model, e.samples, delay * TOKEN_MS) for e in strings])

    def errors(self, speaker: str | None = None) -> Errors:
        pairs = [
            (e.text, " ".join(spoken_words(t.text)))
            for e, t in zip(self.strings, self.found, strict=True)
            if speaker in (None, e.speaker)
        ]
        return word_errors([said for said, _ in pairs], [found for _, found in pairs])

    def ends(self, eos: int | None) -> dict[str, int]:
        """How many transcripts hold one EOS with no piece behind it, and how many hold none."""
        places = [[i for i, id in enumerate(t.ids) if id == eos] for t in self.found]
        last = [max((i for i, k in enumerate(t.tokens) if k.text), default=-1) for t in self.found]
        right = sum(len(p) == 1 and p[0] > end for p, end in zip(places, last, strict=True))
        return {"strings": len(places), "once_at_the_end": right, "none": places.count([])}


def validation(model: VoxtralRealtime, corpus: Corpus, delays: tuple[int, ...]) -> dict[str, Any]:
    """For choices: takes and sentences that neither training nor a test reads."""
    strings = test_strings(corpus.validation(), STRINGS // 2, SEED, 15.0)
    return {
        f"delay_{delay}": {
            "strings_15_db": Read.of(model, strings, delay).errors().describe(),
            "sentences": false_words(reader(model, delay), corpus.validation_sentences()),
        }
        for delay in delays
    }


def report(model: VoxtralRealtime, corpus: Corpus, tell: Callable[[str], None]) -> dict[str, Any]:
    """All numbers: by delay on unheard and heard speakers, levels, EOS, other speech and quiet."""
    numbers: dict[str, Any] = {"validation": validation(model, corpus, (USUAL,))}
    strings = test_strings(corpus.unheard(), STRINGS, SEED, 15.0)
    numbers["unheard_15_db"] = by_delay(model, strings, DELAYS, tell)
    many = Read.of(model, test_strings(corpus.unheard(), MANY, SEED + 1, 15.0), USUAL)
    numbers["unheard_15_db_many"] = many.errors().describe() | {
        "by_speaker": {name: many.errors(name).describe() for name in UNHEARD_SPEAKERS}
    }
    tell(f"{MANY} other strings: WER {many.errors().rate:.2f}%")
    heard = test_strings(corpus.heard(), STRINGS // 2, SEED, 15.0)
    numbers["heard_15_db"] = by_delay(model, heard, DELAYS, tell)
    numbers["unheard_levels"] = _levels(model, strings[: STRINGS // 2])
    numbers["other_speech"] = _quiet(model, corpus.test_sentences(), tell)
    numbers["no_speech"] = _quiet(model, _no_speech(), tell)
    return numbers


def by_delay(
    model: VoxtralRealtime,
    strings: list[Example],
    delays: tuple[int, ...],
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Word errors under each delay, by speaker too, and less those of the usual delay."""
    read = {delay: Read.of(model, strings, delay) for delay in delays}
    usual, found = read[USUAL].errors(), {}
    for delay, one in read.items():
        errors = one.errors()
        points, interval = errors.difference(usual)
        speakers = sorted({example.speaker for example in strings})
        found[f"delay_{delay}"] = errors.describe() | {
            "less_delay_6": {"points": points, "points_95": list(interval)},
            "by_speaker": {name: one.errors(name).describe() for name in speakers},
            "eos": one.ends(model.config.eos),
        }
        tell(f"{delay * TOKEN_MS} ms: WER {errors.rate:.2f}% of {sum(errors.words)} words")
    return found


def _levels(model: VoxtralRealtime, strings: list[Example]) -> dict[str, Any]:
    """The same strings at 15 dB, scaled, and clipped as a file would: what loudness alone does."""

    def at(db: float) -> Errors:
        scaled = [np.clip(augment.at_level(e.samples, db), -1, 1) for e in strings]
        made = [Example(s, e.text, e.speaker) for s, e in zip(scaled, strings, strict=True)]
        return read_strings(reader(model, USUAL), made)

    return {f"rms_{db:g}_db": at(db).describe() for db in LEVELS_DB}


def _no_speech() -> list[Sentence]:
    """Zeros, and noise of three levels and two colours."""
    rng = np.random.default_rng(SEED)
    count = int(QUIET_S * SAMPLE_RATE)
    made = [Sentence("zeros", np.zeros(count, dtype=np.float32))]
    for name, draw in (("white", augment.white), ("coloured", augment.noise)):
        for db in (-60.0, -40.0, -20.0):
            made.append(Sentence(f"{name} {db:g} dB", augment.at_level(draw(count, rng), db)))
    return made


def _quiet(
    model: VoxtralRealtime, sentences: list[Sentence], tell: Callable[[str], None]
) -> dict[str, Any]:
    """Words made up where no digit was said; telephone speech too, as no digit is above 4 kHz."""
    narrow = [Sentence(s.name, augment.speed(_halved(s), 0.5)) for s in sentences]
    found: dict[str, Any] = {}
    for delay in SOME:
        read = reader(model, delay)
        wide, low = false_words(read, sentences), false_words(read, narrow)
        found[f"delay_{delay}"] = {"whole": wide, "below_4_khz": low}
        rates = f"{wide['words_per_10_s']:.2f}, below 4 kHz {low['words_per_10_s']:.2f}"
        tell(f"{delay * TOKEN_MS} ms: false words in 10 s {rates}")
    return found


def _halved(sentence: Sentence) -> np.ndarray:
    """Every second sample of what lies below 4 kHz."""
    return augment.speed(sentence.samples, 2.0)
