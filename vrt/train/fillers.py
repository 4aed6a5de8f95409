"""Sound that is no digit, so that the model learns to stay silent: speech, almost speech, bursts.

n samples (16 kHz).
"""

import numpy as np
from jaxtyping import Float32

from vrt.audio import SAMPLE_RATE
from vrt.train.augment import at_level, colour, noise, reverberate, speed
from vrt.train.corpus import Digit, Sentence

Samples = Float32[np.ndarray, " n"]

KINDS = ("excerpt", "backwards", "shuffled", "babble", "burst")
SHARES = (0.6, 0.1, 0.05, 0.12, 0.13)
PALINDROME = 9  # "nine" backwards is not far from "nine"


class Fillers:
    """Draws from recorded sentences and from digits turned around or cut to pieces."""

    def __init__(self, digits: list[Digit], sentences: list[Sentence]):
        self.sentences = sentences
        self.digits = [digit for digit in digits if digit.value != PALINDROME]

    def draw(self, rng: np.random.Generator) -> Samples:
        """One piece of 0.1 to about 4 seconds."""
        kind = rng.choice(KINDS, p=SHARES)
        match kind:
            case "excerpt":
                piece = self.excerpt(rng, rng.uniform(0.6, 3.5))
            case "backwards":
                piece = self._clips(rng)[::-1].copy()
            case "shuffled":
                piece = shuffled(self._clips(rng), rng)
            case "babble":
                piece = self.babble(rng, int(rng.uniform(0.6, 3) * SAMPLE_RATE))
            case _:
                piece = burst(rng)
        return in_room(colour(piece, rng), rng)

    def excerpt(self, rng: np.random.Generator, seconds: float) -> Samples:
        """Some of a sentence in another voice; one of five backwards."""
        whole = self.sentences[int(rng.integers(len(self.sentences)))].samples
        factor = np.exp(rng.uniform(np.log(0.72), np.log(1.38)))
        length = min(len(whole), int(seconds * factor * SAMPLE_RATE))
        first = int(rng.integers(0, len(whole) - length + 1))
        piece = speed(faded(whole[first : first + length]), factor)
        return piece[::-1].copy() if rng.random() < 0.2 else piece

    def babble(self, rng: np.random.Generator, length: int) -> Samples:
        """Two to four voices at once."""
        mixed = np.zeros(length, dtype=np.float32)
        for _ in range(int(rng.integers(2, 5))):
            piece = at_level(self.excerpt(rng, length / SAMPLE_RATE), rng.uniform(-26, -20))
            times = -(-length // len(piece))
            mixed += np.tile(piece, times)[:length]
        return mixed

    def _clips(self, rng: np.random.Generator) -> Samples:
        """One to four digits in one voice."""
        first = self.digits[int(rng.integers(len(self.digits)))]
        factor = np.exp(rng.uniform(np.log(0.75), np.log(1.35)))
        clips = [first]
        while len(clips) < 1 + int(rng.integers(4)):
            other = self.digits[int(rng.integers(len(self.digits)))]
            if other.speaker == first.speaker:
                clips.append(other)
        return np.concatenate([speed(clip.samples, factor) for clip in clips])


def in_room(samples: Samples, rng: np.random.Generator) -> Samples:
    """Three times of ten with the echo of a room that dies in 0.05 to 0.35 s."""
    if rng.random() < 0.7:
        return samples
    return reverberate(samples, rng, rng.uniform(0.05, 0.35))


def shuffled(samples: Samples, rng: np.random.Generator) -> Samples:
    """Pieces of 60 to 140 ms in another order, some of them backwards."""
    pieces = []
    at = 0
    while at < len(samples):
        length = int(rng.uniform(0.06, 0.14) * SAMPLE_RATE)
        piece = faded(samples[at : at + length])
        pieces.append(piece[::-1] if rng.random() < 0.5 else piece)
        at += length
    return np.concatenate([pieces[int(n)] for n in rng.permutation(len(pieces))])


def burst(rng: np.random.Generator) -> Samples:
    """Noise that comes and goes in 0.05 to 0.7 s."""
    length = int(rng.uniform(0.05, 0.7) * SAMPLE_RATE)
    rise = rng.uniform(0.02, 0.5)
    shape = np.interp(np.linspace(0, 1, length), (0, rise, 1), (0, 1, 0))
    return (noise(length, rng) * shape ** rng.uniform(0.5, 3)).astype(np.float32)


def faded(samples: Samples) -> Samples:
    """With 5 ms at both ends brought down to zero."""
    length = min(len(samples) // 2, SAMPLE_RATE // 200)
    out = samples.copy()
    if length:
        ramp = np.linspace(0, 1, length, dtype=np.float32)
        out[:length] *= ramp
        out[-length:] *= ramp[::-1]
    return out
