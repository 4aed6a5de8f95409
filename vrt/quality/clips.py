"""Test strings as encoder frames: each clip is encoded once, and all arms search the same frames.

B clips, T encoder frames (40 ms), E encoder width, J joint width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vrt.rnnt.acoustic import AcousticTransducer
from vrt.rnnt.model import ModelScorer
from vrt.train.corpus import Corpus, Digit
from vrt.train.rnnt_report import SEED
from vrt.train.strings import Example, test_strings

BATCH = 20  # clips that are searched together
# The sets of the model's own receipt: same seed, same strings.
SETS: dict[str, tuple[Callable[[Corpus], list[Digit]], float]] = {
    "unheard_15_db": (Corpus.unheard, 15.0),
    "unheard_5_db": (Corpus.unheard, 5.0),
    "heard_15_db": (Corpus.heard, 15.0),
}


@dataclass(frozen=True, eq=False)
class Clip:
    """`frames` are what a search takes: `encoded`, projected by the joint."""

    text: str
    speaker: str
    encoded: Float[Tensor, "T E"]
    frames: Float[Tensor, "T J"]


def strings_of(corpus: Corpus, name: str, count: int) -> list[Example]:
    """The strings of one set."""
    pool, snr_db = SETS[name]
    return test_strings(pool(corpus), count, SEED, snr_db)


def encode(model: AcousticTransducer, strings: Sequence[Example]) -> list[Clip]:
    """One clip after another, as `transcribe` does it."""
    scorer = ModelScorer(model.transducer)
    clips = []
    for example in strings:
        encoded = model.encode(torch.from_numpy(example.samples))
        clips.append(Clip(example.text, example.speaker, encoded, scorer.project(encoded)))
    return clips


@dataclass(frozen=True, eq=False)
class Batch:
    """`places` are those of its clips in the whole list."""

    places: tuple[int, ...]
    values: Float[Tensor, "B T J"]
    lengths: Int64[Tensor, "B"]


def batches(frames: Sequence[Float[Tensor, "_ J"]], size: int = BATCH) -> list[Batch]:
    """Clips of about equal length together, padded with zeros."""
    order = sorted(range(len(frames)), key=lambda place: (len(frames[place]), place))
    made = []
    for first in range(0, len(order), size):
        places = tuple(order[first : first + size])
        chosen = [frames[place] for place in places]
        padded = torch.nn.utils.rnn.pad_sequence(chosen, batch_first=True)
        made.append(Batch(places, padded, torch.tensor([len(f) for f in chosen])))
    return made
