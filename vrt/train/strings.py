"""Strings of spoken digits, joined from single clips: plain ones for tests, varied ones to train.

n samples (16 kHz), T mel frames (10 ms), M mel bins.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Float32
from torch import Tensor

from vrt.audio import SAMPLE_RATE
from vrt.train import augment
from vrt.train.corpus import WORDS, Digit, Samples, Sentence
from vrt.train.fillers import Fillers
from vrt.train.voices import between

LONGEST = 6  # digits
NOTHING = len(WORDS)  # the value of a span of other speech


@dataclass(frozen=True, eq=False)
class Example:
    """What is heard and what was said; empty text where no digit was said."""

    samples: Samples
    text: str
    speaker: str = ""
    spans: tuple[tuple[int, int, int], ...] = ()  # first sample, end, value of each clip


@dataclass(frozen=True)
class Recipe:
    """Ranges that training examples are drawn from: uniform between the two numbers."""

    speed: tuple[float, float] = (0.8, 1.25)  # log-uniform, one a string
    speed_jitter: float = 0.05  # of each digit, either way
    gap_s: tuple[float, float] = (0.0, 0.25)
    long_gap: float = 0.1  # share of gaps that reach up to 0.7 s
    edge_s: tuple[float, float] = (0.0, 0.4)  # silence before the first and after the last digit
    digit_db: float = 3.0  # standard deviation
    between: float = 0.5  # of the digits moved toward another speaker's
    level_db: tuple[float, float] = (-62.0, -12.0)  # of the whole, root mean square
    snr_db: tuple[float, float] = (3.0, 30.0)
    flat: float = 0.5  # of the noises are white; the others fall with frequency
    clean: float = 0.1  # share without noise
    babble: float = 0.15  # share with a sentence below it, 12 to 30 dB
    reverberant: float = 0.3
    decay_s: tuple[float, float] = (0.1, 0.5)
    warp: tuple[float, float] = (0.83, 1.2)  # log-uniform
    empty: float = 0.15  # share without digits: other speech, noise, silence
    beside: float = 0.15  # share of strings with other speech before or behind them
    beside_s: float = 1.5  # of it at most


def join(
    clips: Sequence[Float32[np.ndarray, "_"]], gaps_s: Sequence[float]
) -> Float32[np.ndarray, "m"]:
    """Clips with silence before, between and after them: one gap more than clips."""
    zeros = [np.zeros(round(gap * SAMPLE_RATE), dtype=np.float32) for gap in gaps_s]
    parts = [part for pair in zip(zeros, clips, strict=False) for part in pair]
    return np.concatenate([*parts, zeros[-1]])


def spans(
    clips: Sequence[Float32[np.ndarray, "_"]], gaps_s: Sequence[float], values: Sequence[int]
) -> tuple[tuple[int, int, int], ...]:
    """Where `join` puts each clip, with its value."""
    found, place = [], 0
    for clip, gap, value in zip(clips, gaps_s, values, strict=False):
        first = place + round(gap * SAMPLE_RATE)
        place = first + len(clip)
        found.append((first, place, value))
    return tuple(found)


def test_strings(
    pool: Sequence[Digit], count: int, seed: int, snr_db: float | None
) -> list[Example]:
    """Strings of 1 to 6 digits of one speaker, at recorded speed and level.

    The noise is flat from 0 to 4 kHz, where the digits are, `snr_db` below the string.
    """
    rng = np.random.default_rng(seed)
    speakers = sorted({digit.speaker for digit in pool})
    by_speaker = {name: [digit for digit in pool if digit.speaker == name] for name in speakers}
    made = []
    for index in range(count):
        name = speakers[index % len(speakers)]
        own = by_speaker[name]
        digits = [own[i] for i in rng.integers(0, len(own), rng.integers(1, LONGEST + 1))]
        gaps = [0.2, *rng.uniform(0, 0.2, len(digits) - 1), 0.2]
        samples = join([digit.samples for digit in digits], gaps)
        if snr_db is not None:
            flat = augment.speed(augment.white(-(-len(samples) // 2), rng), 0.5)[: len(samples)]
            samples = augment.mix(samples, flat, snr_db)
        made.append(Example(samples, " ".join(digit.word for digit in digits), name))
    return made


test_strings.__test__ = False  # a name that pytest would collect


@dataclass(frozen=True)
class Drawer:
    """Draws varied training examples from the digits and sentences of the training part."""

    digits: dict[str, list[Digit]]  # by speaker
    sentences: list[Sentence]
    fillers: Fillers
    recipe: Recipe

    @classmethod
    def of(cls, pool: Sequence[Digit], sentences: list[Sentence], recipe: Recipe) -> "Drawer":
        by_speaker: dict[str, list[Digit]] = {}
        for digit in pool:
            by_speaker.setdefault(digit.speaker, []).append(digit)
        return cls(by_speaker, sentences, Fillers(list(pool), sentences), recipe)

    def draw(self, rng: np.random.Generator, count: int) -> Example:
        """An example of `count` digits, or of none."""
        if rng.uniform() < self.recipe.empty:
            return self.varied(Example(self._nothing(rng), ""), rng)
        return self.varied(self._string(rng, count), rng)

    def varied(self, example: Example, rng: np.random.Generator) -> Example:
        """The same words in another room, through another microphone, in noise, at any level."""
        recipe, samples = self.recipe, augment.colour(example.samples, rng)
        if rng.uniform() < recipe.reverberant:
            samples = augment.reverberate(samples, rng, rng.uniform(*recipe.decay_s))
        if rng.uniform() < recipe.babble:
            below = self._piece(rng, len(samples) / SAMPLE_RATE)
            below = np.resize(below, len(samples))
            samples = augment.mix(samples, below, rng.uniform(12, 30))
        if rng.uniform() >= recipe.clean:
            drawn = augment.white if rng.uniform() < recipe.flat else augment.noise
            samples = augment.mix(samples, drawn(len(samples), rng), rng.uniform(*recipe.snr_db))
        samples = augment.at_level(samples, rng.uniform(*recipe.level_db))
        return replace(example, samples=samples)

    def _string(self, rng: np.random.Generator, count: int) -> Example:
        recipe = self.recipe
        speakers = sorted(self.digits)
        own = self.digits[speakers[rng.integers(len(speakers))]]
        digits = [own[i] for i in rng.integers(0, len(own), count)]
        pace = _log_uniform(rng, recipe.speed)
        clips = []
        for digit in digits:
            factor = pace * rng.uniform(1 - recipe.speed_jitter, 1 + recipe.speed_jitter)
            level = rng.normal(0, recipe.digit_db)
            clips.append(augment.gain(augment.speed(self._said(digit, rng), factor), level))
        gaps = rng.uniform(*recipe.gap_s, count + 1)
        gaps = np.where(rng.uniform(size=count + 1) < recipe.long_gap, 0.7 * rng.uniform(), gaps)
        gaps[[0, -1]] = rng.uniform(*recipe.edge_s, 2)
        edges, values = gaps.tolist(), [digit.value for digit in digits]
        if rng.uniform() < recipe.beside:
            place = int(rng.integers(2)) * count  # before the first digit or behind the last
            level = augment.level_db(clips[0]) + rng.normal(0, recipe.digit_db)
            piece = self.fillers.draw(rng)[: int(recipe.beside_s * SAMPLE_RATE)]
            clips.insert(place, augment.at_level(piece, level))
            values.insert(place, NOTHING)
            edges.insert(1, rng.uniform(0.1, 0.4))
        return Example(
            join(clips, edges),
            " ".join(digit.word for digit in digits),
            digits[0].speaker,
            spans(clips, edges, values),
        )

    def _said(self, digit: Digit, rng: np.random.Generator) -> Samples:
        """The digit, or the digit in a voice between two."""
        if rng.uniform() >= self.recipe.between:
            return digit.samples
        speakers = sorted(self.digits)
        others = self.digits[speakers[rng.integers(len(speakers))]]
        same = [other for other in others if other.value == digit.value]
        return between(digit.samples, same[rng.integers(len(same))].samples, rng.uniform(0.2, 0.8))

    def _nothing(self, rng: np.random.Generator) -> Samples:
        """Other speech for the most part; one in five is noise or zeros."""
        kind, count = rng.uniform(), round(rng.uniform(0.5, 3.5) * SAMPLE_RATE)
        if kind < 0.05:
            return np.zeros(count, dtype=np.float32)
        if kind < 0.2:
            return augment.noise(count, rng)
        return self.fillers.draw(rng)

    def _piece(self, rng: np.random.Generator, seconds: float) -> Samples:
        """At most `seconds` from anywhere in a sentence, faded at both ends."""
        samples = self.sentences[rng.integers(len(self.sentences))].samples
        count = min(len(samples), round(seconds * SAMPLE_RATE))
        first = rng.integers(0, len(samples) - count + 1)
        ramp = np.minimum(1, np.arange(count, dtype=np.float32) / 160)
        return samples[first : first + count] * ramp * ramp[::-1]


def varied_mel(
    mel: Float[Tensor, "T M"], rng: np.random.Generator, recipe: Recipe, value: float
) -> Float[Tensor, "T M"]:
    """Another vocal tract, and stretches blanked out with `value`."""
    return augment.mask(augment.warp(mel, _log_uniform(rng, recipe.warp)), rng, value)


def _log_uniform(rng: np.random.Generator, bounds: tuple[float, float]) -> float:
    return float(np.exp(rng.uniform(*np.log(bounds))))
