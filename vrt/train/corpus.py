"""The data door: spoken digits split by speaker and take, and speech that is no digits.

The folder is not part of this repository. It holds `fsdd/` (the Free Spoken Digit Dataset, one flac
a speaker and `segments.tsv`), `lj/` and `librispeech/`; `VRT_SPEECH` or an option names it.

    train       four speakers, takes 8-49
    validation  the same speakers, takes 5-7: for every choice that is made while training
    heard       the same speakers, takes 0-4: test
    unheard     two speakers that no training and no choice has met: test
"""

import csv
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from vrt.audio import SAMPLE_RATE, read

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TRAIN_SPEAKERS = ("george", "jackson", "nicolas", "yweweler")
UNHEARD_SPEAKERS = ("lucas", "theo")
HEARD_TAKES = range(5)
VALIDATION_TAKES = range(5, 8)
TRAIN_TAKES = range(8, 50)

# Sentences by file name. LJ001-0007 is left out: it says "forty-two" and "fourteen fifty-five".
TRAIN_SENTENCES = (
    *(f"lj/LJ001-{number:04d}.flac" for number in (1, 2, 3, 4, 5, 6, 8, 9)),
    "librispeech/2412-153948-0000.flac",
)
MISC_SENTENCES = ("misc/jfk.flac", "misc/goforward.flac")  # two more voices to train on
VALIDATION_SENTENCES = ("lj/LJ001-0010.flac", "lj/LJ001-0011.flac")
TEST_SENTENCES = (
    *(f"lj/LJ001-{number:04d}.flac" for number in (12, 13, 14, 15, 16)),
    "librispeech/251-118436-0001.flac",
    "librispeech/251-137823-0002.flac",
    "librispeech/251-137823-0003.flac",
    "librispeech/3536-23268-0010.flac",
)

Samples = Float32[np.ndarray, " n"]


class SpeechError(ValueError):
    """Recordings that are not there or not as expected; says what and the way out."""


@dataclass(frozen=True, eq=False)
class Digit:
    """One spoken digit, cut tight, 16 kHz (recorded at 8 kHz: nothing above 4 kHz)."""

    value: int  # 0..9
    speaker: str
    take: int
    samples: Samples

    @property
    def word(self) -> str:
        return WORDS[self.value]


@dataclass(frozen=True, eq=False)
class Sentence:
    """Speech that is no string of digits, 16 kHz."""

    name: str
    samples: Samples


@dataclass(frozen=True)
class Corpus:
    """All recordings in memory: 3000 digits are 85 MB."""

    digits: tuple[Digit, ...]
    sentences: dict[str, Sentence]

    def train(self) -> list[Digit]:
        return self._where(lambda d: d.speaker in TRAIN_SPEAKERS and d.take in TRAIN_TAKES)

    def validation(self) -> list[Digit]:
        return self._where(lambda d: d.speaker in TRAIN_SPEAKERS and d.take in VALIDATION_TAKES)

    def heard(self) -> list[Digit]:
        return self._where(lambda d: d.speaker in TRAIN_SPEAKERS and d.take in HEARD_TAKES)

    def unheard(self) -> list[Digit]:
        return self._where(lambda d: d.speaker in UNHEARD_SPEAKERS)

    def train_sentences(self) -> list[Sentence]:
        return [self.sentences[name] for name in TRAIN_SENTENCES]

    def misc_sentences(self) -> list[Sentence]:
        return [self.sentences[name] for name in MISC_SENTENCES]

    def validation_sentences(self) -> list[Sentence]:
        return [self.sentences[name] for name in VALIDATION_SENTENCES]

    def test_sentences(self) -> list[Sentence]:
        return [self.sentences[name] for name in TEST_SENTENCES]

    def _where(self, wanted: Callable[[Digit], bool]) -> list[Digit]:
        return [digit for digit in self.digits if wanted(digit)]


def find_speech(folder: str | os.PathLike[str] | None = None) -> Path:
    """The folder of recordings: `folder`, else what VRT_SPEECH names, else `shared/speech` beside
    the checkout.

    Raises:
        SpeechError: it is not there, or holds no fsdd/segments.tsv.
    """
    named = folder or os.environ.get("VRT_SPEECH")
    place = Path(named or Path(__file__).resolve().parents[3] / "shared" / "speech")
    if (place / "fsdd" / "segments.tsv").is_file():
        return place
    what = "is no folder" if not place.is_dir() else "holds no fsdd/segments.tsv"
    raise SpeechError(
        f"no recordings: {place} {what}; name the folder with --speech or VRT_SPEECH (it holds"
        " fsdd/ with segments.tsv and one flac a speaker, lj/ and librispeech/)"
    )


def load_corpus(folder: str | os.PathLike[str] | None = None) -> Corpus:
    """Read everything, each file at 16 kHz through the audio door.

    Raises:
        SpeechError: the folder or one of its files is missing, or a segment lies outside its file.
        AudioError: a file is damaged.
    """
    place = find_speech(folder)
    names = (*TRAIN_SENTENCES, *MISC_SENTENCES, *VALIDATION_SENTENCES, *TEST_SENTENCES)
    sentences = {name: Sentence(name, _read(place / name)) for name in names}
    return Corpus(tuple(_digits(place / "fsdd")), sentences)


def _read(path: Path) -> Samples:
    if not path.is_file():
        raise SpeechError(f"{path} is missing; the folder of recordings is not complete")
    return read(path).samples


def _digits(folder: Path) -> list[Digit]:
    """In the order of segments.tsv. Files are resampled whole, then cut."""
    with (folder / "segments.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    files = {name: _Recording.of(folder / name) for name in dict.fromkeys(r["file"] for r in rows)}
    return [
        Digit(
            int(row["digit"]),
            row["speaker"],
            int(row["take"]),
            files[row["file"]].cut(int(row["start_sample"]), int(row["end_sample"])),
        )
        for row in rows
    ]


@dataclass(frozen=True, eq=False)
class _Recording:
    """A speaker's file at 16 kHz; segments count samples of the file's own rate."""

    name: str
    rate: int
    samples: Samples

    @classmethod
    def of(cls, path: Path) -> "_Recording":
        if not path.is_file():
            raise SpeechError(f"{path} is missing; the folder of recordings is not complete")
        clip = read(path)
        return cls(path.name, clip.original_rate, clip.samples)

    def cut(self, start: int, end: int) -> Samples:
        first, last = (place * SAMPLE_RATE // self.rate for place in (start, end))
        if not 0 <= first < last <= len(self.samples):
            raise SpeechError(
                f"segments.tsv: {start}..{end} lies outside {self.name}, which holds"
                f" {len(self.samples) * self.rate // SAMPLE_RATE} samples"
            )
        return self.samples[first:last].copy()
