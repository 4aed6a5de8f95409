"""A rotation of held-out speaker pairs: train anew without each pair, measure on it.

Intervals over strings of two speakers say nothing about a third. Each of the 15 pairs of six
speakers is held out in turn; a pair's receipt, once written, is not made again, so the rotation can
be stopped and taken up.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from vrt.quality.clips import encode
from vrt.quality.errors import QualityError, at_least, need_tools
from vrt.quality.runs import FEWEST, RECORDINGS, one_thread
from vrt.quality.scoring import difference, errors_of
from vrt.quality.searches import beam_search, greedy_search, run_over
from vrt.receipt import Receipt, digest
from vrt.receipt.plain import plain, rounded
from vrt.rnnt.acoustic import AcousticTransducer
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.model import ModelScorer
from vrt.train.corpus import (
    HEARD_TAKES,
    TRAIN_SPEAKERS,
    TRAIN_TAKES,
    UNHEARD_SPEAKERS,
    VALIDATION_TAKES,
    Corpus,
    Digit,
    find_speech,
    load_corpus,
)
from vrt.train.rnnt_digits import Plan, train
from vrt.train.rnnt_report import SEED
from vrt.train.strings import test_strings

SPEAKERS = tuple(sorted((*TRAIN_SPEAKERS, *UNHEARD_SPEAKERS)))
PAIRS = tuple(combinations(SPEAKERS, 2))
BEAM = BeamConfig(beam_size=8)
SNR_DB = 15.0
SUMMARY = "quality-speakers.json"


@dataclass(frozen=True)
class Rotation(Corpus):
    """The recordings with other speakers held out."""

    held_out: tuple[str, str] = UNHEARD_SPEAKERS

    def train(self) -> list[Digit]:
        return self._where(lambda d: d.speaker not in self.held_out and d.take in TRAIN_TAKES)

    def validation(self) -> list[Digit]:
        return self._where(lambda d: d.speaker not in self.held_out and d.take in VALIDATION_TAKES)

    def heard(self) -> list[Digit]:
        return self._where(lambda d: d.speaker not in self.held_out and d.take in HEARD_TAKES)

    def unheard(self) -> list[Digit]:
        return self._where(lambda d: d.speaker in self.held_out)


def run(
    plan: Plan,
    strings: int,
    speech: Path | None,
    folder: Path,
    most: int,
    tell: Callable[[str], None],
) -> Receipt | None:
    """Train and measure up to `most` pairs that have no receipt in `folder` yet; the summary once
    all have one, None before that.

    Raises:
        QualityError: a receipt there is of another plan or other strings, or a library is missing.
        SpeechError: the recordings are not there.
    """
    need_tools()
    at_least(FEWEST, "strings", strings)
    at_least(1, "pairs", most)
    place = find_speech(speech)
    corpus = load_corpus(place)
    summary = Receipt.begin({"plan": asdict(plan), "strings": strings})
    todo = [pair for pair in PAIRS if not _done(pair, plan, strings, folder)]
    tell(f"{len(PAIRS) - len(todo)} of {len(PAIRS)} pairs are there")
    for pair in todo[:most]:
        tell(f"without {' and '.join(pair)}")
        begun = Receipt.begin(_parameters(pair, plan, strings))
        with one_thread():
            model = train(Rotation(corpus.digits, corpus.sentences, pair), plan, tell)
            numbers = measure(model, corpus, pair, strings)
        done = begun.end(numbers, {"segments.tsv": digest(place / RECORDINGS)})
        done.write(receipt_of(pair, folder))
    if len(todo) > most:
        return None
    receipts = [Receipt.load(receipt_of(pair, folder)) for pair in PAIRS]
    written = summary.end(summarised(receipts))
    written.write(folder / SUMMARY)
    return written


def receipt_of(pair: tuple[str, str], folder: Path) -> Path:
    return folder / f"quality-speakers-{pair[0]}-{pair[1]}.json"


def _parameters(pair: tuple[str, str], plan: Plan, strings: int) -> dict[str, Any]:
    return {"held_out": list(pair), "plan": asdict(plan), "strings": strings}


def _done(pair: tuple[str, str], plan: Plan, strings: int, folder: Path) -> bool:
    file = receipt_of(pair, folder)
    if not file.is_file():
        return False
    if Receipt.load(file).parameters != plain(_parameters(pair, plan, strings), "parameters"):
        raise QualityError(
            f"{file.name} is of another plan or number of strings; name another folder, or remove"
            " it"
        )
    return True


def measure(
    model: AcousticTransducer, corpus: Corpus, pair: Sequence[str], strings: int
) -> dict[str, Any]:
    """Greedy and beam on each of the two, by name."""
    scorer = ModelScorer(model.transducer)
    numbers: dict[str, Any] = {}
    for speaker in pair:
        pool = [digit for digit in corpus.digits if digit.speaker == speaker]
        clips = encode(model, test_strings(pool, strings, SEED, SNR_DB))
        greedy, beam = (
            errors_of(model, clips, run_over(search, clips))
            for search in (greedy_search(scorer), beam_search(scorer, BEAM))
        )
        numbers[speaker] = {
            "greedy": greedy.describe(),
            "beam_8": beam.describe(),
            "beam_8_less_greedy": difference(beam, greedy),
        }
    return numbers


def summarised(receipts: Sequence[Receipt]) -> dict[str, Any]:
    """Each speaker's mean over the five trainings without them, and what that says of speakers.

    A t interval over six speakers: they are few, and trainings share their data, so it is wide and
    still not quite honest; the range is beside it.
    """
    names = ("greedy", "beam_8")
    by_speaker: dict[str, Any] = {}
    for speaker in SPEAKERS:
        own = [r.numbers[speaker] for r in receipts if speaker in r.numbers]
        rates = {n: [one[n]["wer_percent"] for one in own] for n in names}
        points = [one["beam_8_less_greedy"]["points"] for one in own]
        by_speaker[speaker] = {f"{n}_wer_percent": float(np.mean(v)) for n, v in rates.items()}
        by_speaker[speaker] |= {
            "greedy_range": [min(rates["greedy"]), max(rates["greedy"])],
            "beam_8_less_greedy_points": float(np.mean(points)),
        }
    keys = ("greedy_wer_percent", "beam_8_wer_percent", "beam_8_less_greedy_points")
    over = {key: over_speakers([by_speaker[s][key] for s in SPEAKERS]) for key in keys}
    return rounded({"pairs": len(receipts), "by_speaker": by_speaker, "over_speakers": over})


def over_speakers(values: Sequence[float]) -> dict[str, Any]:
    """Mean and 95% interval of Student's t."""
    from scipy.stats import t

    mean, error = float(np.mean(values)), float(np.std(values, ddof=1)) / len(values) ** 0.5
    half = float(t.ppf(0.975, len(values) - 1)) * error
    return {"mean": mean, "mean_95": [mean - half, mean + half]}
