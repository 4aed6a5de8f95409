"""How well strings of digits are read: word errors by jiwer, intervals by scipy over strings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vrt.train.corpus import WORDS, Samples, Sentence, SpeechError
from vrt.train.strings import Example

RESAMPLES = 10_000
CONFIDENCE = 0.95

Reader = Callable[[Samples], str]  # samples to text


@dataclass(frozen=True)
class Errors:
    """Word edits of each string: substitutions, deletions and insertions."""

    words: tuple[int, ...]
    substitutions: tuple[int, ...]
    deletions: tuple[int, ...]
    insertions: tuple[int, ...]

    @property
    def edits(self) -> np.ndarray:
        parts = (self.substitutions, self.deletions, self.insertions)
        return np.sum(np.array(parts), axis=0)

    @property
    def rate(self) -> float:
        """Word error rate in percent."""
        return 100 * float(self.edits.sum()) / sum(self.words)

    def interval(self) -> tuple[float, float]:
        """95% of the rate: a percentile bootstrap over strings."""
        return _bootstrap(self.edits, np.array(self.words))

    def difference(self, other: "Errors") -> tuple[float, tuple[float, float]]:
        """This rate less another's on the same strings, with the interval of paired resampling."""
        if self.words != other.words:
            raise ValueError("the two were not measured on the same strings")
        interval = _bootstrap(self.edits - other.edits, np.array(self.words))
        return self.rate - other.rate, interval

    def describe(self) -> dict[str, Any]:
        """For a receipt."""
        return {
            "wer_percent": self.rate,
            "wer_percent_95": list(self.interval()),
            "strings": len(self.words),
            "words": sum(self.words),
            "word_edits": int(self.edits.sum()),
            "substitutions": sum(self.substitutions),
            "deletions": sum(self.deletions),
            "insertions": sum(self.insertions),
        }


def word_errors(references: Sequence[str], found: Sequence[str]) -> Errors:
    """Edits of each string.

    Raises:
        SpeechError: jiwer is not installed.
    """
    try:
        import jiwer
    except ImportError as error:
        raise SpeechError("word error rates need jiwer: pip install 'vrt[quality]'") from error
    outputs = [jiwer.process_words([r], [f]) for r, f in zip(references, found, strict=True)]
    return Errors(
        tuple(o.hits + o.substitutions + o.deletions for o in outputs),
        tuple(o.substitutions for o in outputs),
        tuple(o.deletions for o in outputs),
        tuple(o.insertions for o in outputs),
    )


def read_strings(reader: Reader, examples: Sequence[Example]) -> Errors:
    """The errors of a reader over strings."""
    return word_errors([e.text for e in examples], [reader(e.samples) for e in examples])


def false_words(reader: Reader, sentences: Sequence[Sentence]) -> dict[str, Any]:
    """Words put out where no digit is asked for, by file; digits are those spelt right."""
    found = {sentence.name: reader(sentence.samples).split() for sentence in sentences}
    seconds = sum(len(sentence.samples) for sentence in sentences) / 16_000
    words = sum(map(len, found.values()))
    return {
        "seconds": seconds,
        "words": words,
        "digits": sum(word in WORDS for line in found.values() for word in line),
        "words_per_10_s": 10 * words / seconds,
        "by_file": {name: " ".join(line) for name, line in found.items()},
    }


def _bootstrap(edits: np.ndarray, words: np.ndarray) -> tuple[float, float]:
    """Percentiles of 100 * sum(edits) / sum(words) over resampled strings."""
    try:
        from scipy.stats import bootstrap
    except ImportError as error:
        raise SpeechError("intervals need scipy: pip install 'vrt[quality]'") from error
    found = bootstrap(
        (edits, words),
        lambda e, w, axis: 100 * e.sum(axis) / w.sum(axis),
        paired=True,
        vectorized=True,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),
        batch=1000,
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)
