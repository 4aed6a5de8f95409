"""Made-up streams for training: digits, other speech, noise and silence, with what was said when.

n samples (16 kHz), S slots (80 ms). Everything is drawn from one numpy Generator.

Digits were recorded at 8 kHz and sentences at 16: if nothing were done, what lies above 4 kHz would
tell digits from speech. So streams are often made narrow, and digits get a mirror image above.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float32

from vrt.audio import SAMPLE_RATE
from vrt.train.augment import at_level, colour, gain, noise, speed, white
from vrt.train.corpus import Digit, Sentence
from vrt.train.fillers import Fillers, in_room
from vrt.train.voices import between
from vrt.train.voxtral_targets import Spoken
from vrt.voxtral.config import SAMPLES_PER_TOKEN

AUDIBLE_DB = 32  # a word ends with its last 10 ms that are within this of its loudest
STEP = SAMPLE_RATE // 100
SLOWEST, FASTEST = 0.78, 1.28  # of a voice, pitch and all
PACE_JITTER = 0.06  # of each digit
QUIET, LOUD = -42.0, -14.0  # dB of full scale
MOST_DIGITS = 6  # in one breath
RESPONSE_DB = 4.0  # standard deviation of a microphone's response
NO_DIGITS = 0.08  # of the streams
NOISES = 2  # kept of each kind; a stream takes one from a random place on

Samples = Float32[np.ndarray, " n"]


@dataclass(frozen=True)
class Recipe:
    """What a stage of training is made of."""

    digits: float = 0.77  # of the pieces of a stream; the rest is other speech and noise
    noise_db: tuple[float, float] = (8.0, 35.0)  # below the speech
    flat: int = 2  # kinds of noise that are flat, to two that fall and one that rises
    between: float = 0.0  # of the digits moved toward another speaker's


@dataclass(frozen=True, eq=False)
class Stream:
    """`samples` are whole slots long; `pieces` are the samples at which another voice begins."""

    samples: Samples
    spoken: tuple[Spoken, ...]
    pieces: tuple[int, ...] = ()

    @cached_property
    def zeros(self) -> Bool[np.ndarray, " S"]:
        """Which slots hold nothing but zeros."""
        return ~self.samples.reshape(-1, SAMPLES_PER_TOKEN).any(axis=1)


def audible_end(samples: Samples) -> int:
    """The sample after the last 10 ms that are within 32 dB of the loudest 10 ms."""
    count = -(-len(samples) // STEP)
    power = np.square(np.pad(samples, (0, count * STEP - len(samples))).reshape(count, STEP)).sum(1)
    last = np.flatnonzero(power >= power.max() * 10 ** (-AUDIBLE_DB / 10))[-1]
    return min(len(samples), (int(last) + 1) * STEP)


class StreamMaker:
    """Streams of `slots` slots from recordings of digits and of other speech."""

    def __init__(
        self,
        digits: list[Digit],
        sentences: list[Sentence],
        slots: int,
        recipe: Recipe,
        rng: np.random.Generator,
    ):
        self.length, self.recipe = slots * SAMPLES_PER_TOKEN, recipe
        self.noises = noises(2 * self.length, recipe.flat, rng)
        self.digits = digits
        self.speakers: dict[str, list[Digit]] = {}
        for digit in digits:
            self.speakers.setdefault(digit.speaker, []).append(digit)
        self.ends = {id(digit): audible_end(digit.samples) for digit in digits}
        self.fillers = Fillers(digits, sentences)

    def make(self, rng: np.random.Generator, digits_only: bool = False) -> Stream:
        """`digits_only` leaves out other speech: how training begins."""
        out = np.zeros(self.length, dtype=np.float32)
        sound = np.ones(self.length, dtype=bool)  # False: digital zeros
        spoken: list[Spoken] = []
        pieces: list[int] = []
        level = rng.uniform(QUIET, LOUD)
        ended = rng.random() < 0.4
        stop = int(self.length * rng.uniform(0.35, 1)) if ended else self.length
        digits = 1.0 if digits_only else self.recipe.digits * (rng.random() >= NO_DIGITS)
        last = 0
        at = 0 if rng.random() < 0.3 else _pause(rng, sound, 0)
        while at < stop:
            piece, said = (
                self._group(rng) if rng.random() < digits else (self.fillers.draw(rng), [])
            )
            shown = at_level(piece, level + rng.uniform(-5, 5))[: self.length - at]
            out[at : at + len(shown)] = shown
            pieces.append(at)
            spoken += [Spoken(w.value, at + w.start, at + w.end) for w in said]
            last = at + len(piece)
            at = _pause(rng, sound, last)
        if ended:
            last += int(rng.choice([0.0, rng.uniform(0, 0.6)]) * SAMPLE_RATE)
            sound[last:] = False
        samples = self._finish(rng, out, sound, level)
        heard = tuple(word for word in spoken if word.end <= self.length)
        return Stream(samples, heard, tuple(pieces))

    def _group(self, rng: np.random.Generator) -> tuple[Samples, list[Spoken]]:
        """One to six digits in one voice, as in one breath."""
        voice = self.speakers[rng.choice(sorted(self.speakers))]
        pace = np.exp(rng.uniform(np.log(SLOWEST), np.log(FASTEST)))
        widest = rng.uniform(0, 0.22)
        pieces: list[Samples] = []
        said: list[Spoken] = []
        at = 0
        for _ in range(int(rng.integers(1, MOST_DIGITS + 1))):
            digit = voice[int(rng.integers(len(voice)))]
            factor = pace * np.exp(rng.normal(0, PACE_JITTER))
            clip = gain(speed(self._said(digit, rng), factor), rng.normal(0, 2))
            said.append(Spoken(digit.value, at, at + int(self.ends[id(digit)] / factor)))
            gap = np.zeros(int(rng.uniform(0, widest) * SAMPLE_RATE), dtype=np.float32)
            pieces += [clip, gap]
            at += len(clip) + len(gap)
        joined = with_image(np.concatenate(pieces), rng)
        return in_room(colour(joined, rng, db=RESPONSE_DB), rng), said

    def _said(self, digit: Digit, rng: np.random.Generator) -> Samples:
        """The digit, or the digit in a voice between two."""
        if not self.recipe.between or rng.random() >= self.recipe.between:
            return digit.samples
        others = [other for other in self.digits if other.value == digit.value]
        other = others[int(rng.integers(len(others)))]
        return between(digit.samples, other.samples, rng.uniform(0.2, 0.8))

    def _finish(
        self, rng: np.random.Generator, speech: Samples, sound: Bool[np.ndarray, " n"], level: float
    ) -> Samples:
        """Channel and noise."""
        if rng.random() < 0.35:
            speech = narrow(speech, rng)
        loudness = level - rng.uniform(*self.recipe.noise_db)
        drawn = rng.random()
        if drawn < 0.1:
            background = np.zeros_like(speech)
        elif drawn < 0.18:
            background = at_level(self.fillers.babble(rng, len(speech)), loudness - 4)
        else:
            kept = self.noises[int(rng.integers(len(self.noises)))]
            first = int(rng.integers(len(kept) - len(speech)))
            background = gain(kept[first : first + len(speech)], loudness)
        samples = speech + background
        if rng.random() < 0.3:
            samples = narrow(samples, rng)
        samples[~sound] = 0
        return np.clip(samples, -1, 1)


def noises(length: int, flat: int, rng: np.random.Generator) -> list[Samples]:
    """Flat ones, falling ones and rising ones (6 dB an octave), of unit level."""
    even = [white(length, rng) for _ in range(NOISES * flat)]
    falling = [noise(length, rng) for _ in range(NOISES * 2)]
    rising = [at_level(np.diff(other, prepend=other[:1]), 0.0) for other in even[:NOISES]]
    return [*even, *falling, *rising]


def _pause(rng: np.random.Generator, sound: Bool[np.ndarray, " n"], at: int) -> int:
    """Where the next piece begins; sometimes the pause is digital zeros."""
    seconds = rng.uniform(0.05, 0.4) if rng.random() < 0.3 else rng.uniform(0.25, 0.9)
    zeros = rng.random() < 0.12
    if zeros:
        seconds = np.exp(rng.uniform(np.log(0.3), np.log(3.0)))
    end = at + int(seconds * SAMPLE_RATE)
    if zeros:
        sound[at:end] = False
    return end


def with_image(samples: Samples, rng: np.random.Generator) -> Samples:
    """Something above 4 kHz for a voice recorded at 8 kHz: half the time, its mirror image.

    Twice differenced, so that hisses are mirrored and vowels hardly; then turned over at 4 kHz.
    """
    if rng.random() < 0.5:
        return samples
    image = np.diff(samples, n=2, prepend=np.zeros(2, dtype=np.float32))
    image[1::2] *= -1
    return samples + gain(image, rng.uniform(-20, 2))


def narrow(samples: Samples, rng: np.random.Generator) -> Samples:
    """A telephone: nothing above a frequency of 3.2 to 5 kHz."""
    spectrum = np.fft.rfft(samples)
    top = int(len(spectrum) * rng.uniform(3200, 5000) / (SAMPLE_RATE / 2))
    slope = min(len(spectrum) - top, len(spectrum) // 40)
    spectrum[top : top + slope] *= np.linspace(1, 0, slope)
    spectrum[top + slope :] = 0
    return np.fft.irfft(spectrum, len(samples)).astype(np.float32)
