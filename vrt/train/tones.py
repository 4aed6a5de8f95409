"""A corpus that needs no recordings: each digit is two tones, each sentence a hum.

It has the same speakers, takes and names as the recorded one, so that all that trains or tests on
a corpus runs on it. Nothing about speech can be learned from it.
"""

from functools import cache

import numpy as np

from vrt.audio import SAMPLE_RATE
from vrt.train.corpus import (
    MISC_SENTENCES,
    TEST_SENTENCES,
    TRAIN_SENTENCES,
    TRAIN_SPEAKERS,
    UNHEARD_SPEAKERS,
    VALIDATION_SENTENCES,
    WORDS,
    Corpus,
    Digit,
    Samples,
    Sentence,
)

DIGIT_S, HUM_S, HUM_HZ = 0.25, 2.5, 150
TAKES = (0, 5, 8)  # one each for the heard test, validation and training
NAMES = (*TRAIN_SENTENCES, *MISC_SENTENCES, *VALIDATION_SENTENCES, *TEST_SENTENCES)


@cache
def tone_corpus() -> Corpus:
    """The same at every call; every speaker says a digit in the same way."""
    said = [_digit(value) for value in range(len(WORDS))]
    digits = [
        Digit(value, speaker, take, samples)
        for speaker in (*TRAIN_SPEAKERS, *UNHEARD_SPEAKERS)
        for take in TAKES
        for value, samples in enumerate(said)
    ]
    hum = 0.1 * np.sin(2 * np.pi * HUM_HZ * _seconds(HUM_S))
    sentences = {name: Sentence(name, hum.astype(np.float32)) for name in NAMES}
    return Corpus(tuple(digits), sentences)


def _digit(value: int) -> Samples:
    """A rising and a falling scale of tones: no two digits share one."""
    time = _seconds(DIGIT_S)
    wave = sum(np.sin(2 * np.pi * hz * time) for hz in (300 + 60 * value, 2500 - 150 * value))
    return (0.1 * wave * np.hanning(len(time))).astype(np.float32)


def _seconds(length: float) -> np.ndarray:
    return np.arange(round(length * SAMPLE_RATE)) / SAMPLE_RATE
