"""Arms: ways to search the same frames, each with its n-best lists and its work.

B clips, T encoder frames, J joint width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jaxtyping import Float, Int64
from torch import Tensor

from vrt.quality.clips import Clip, batches
from vrt.quality.counts import Work, WorkCounter
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.greedy import greedy
from vrt.rnnt.malsd import malsd
from vrt.rnnt.nbest import Hypothesis, NBest
from vrt.rnnt.scorer import Scorer


@dataclass(frozen=True)
class Answer:
    """Of one clip. `nbest` is empty where no hypothesis survived."""

    nbest: NBest
    work: Work

    @property
    def tokens(self) -> tuple[int, ...]:
        return self.nbest[0].tokens if self.nbest else ()


Search = Callable[[Float[Tensor, "B T J"], Int64[Tensor, "B"]], list[Answer]]


def answers(found: Sequence[NBest], counter: WorkCounter) -> list[Answer]:
    sizes = [len(nbest[0].tokens) if nbest else 0 for nbest in found]
    works = counter.works(sizes)
    return [Answer(nbest, work) for nbest, work in zip(found, works, strict=True)]


def beam_search(scorer: Scorer, config: BeamConfig) -> Search:
    """The exact beam."""

    def search(frames: Float[Tensor, "B T J"], lengths: Int64[Tensor, "B"]) -> list[Answer]:
        counter = WorkCounter(lengths, config.beam_size, scorer.blank)
        return answers(malsd(scorer, frames, lengths, config, counter), counter)

    return search


def greedy_search(scorer: Scorer, max_symbols: int | None = 10) -> Search:
    """Label looping: a joint row a frame and a label, a predictor row a label."""

    def search(frames: Float[Tensor, "B T J"], lengths: Int64[Tensor, "B"]) -> list[Answer]:
        found = greedy(scorer, frames, lengths, max_symbols)
        return [
            Answer(NBest([one]), _greedy_work(one, length, max_symbols))
            for one, length in zip(found, lengths.tolist(), strict=True)
        ]

    return search


def _greedy_work(found: Hypothesis, frames: int, max_symbols: int | None) -> Work:
    """A frame whose labels reach the cap is left without asking for its blank."""
    labels = len(found.tokens)
    stamps = found.timestamps
    full = sum(stamps.count(frame) == max_symbols for frame in set(stamps))
    steps, blanks = frames - full + labels, frames - full
    return Work(steps, steps, labels, blanks, labels, 0, 0, full, steps, labels)


def run_over(search: Search, clips: Sequence[Clip]) -> list[Answer]:
    """The answers in the order of the clips."""
    found: dict[int, Answer] = {}
    for batch in batches([clip.frames for clip in clips]):
        found |= zip(batch.places, search(batch.values, batch.lengths), strict=True)
    return [found[place] for place in range(len(clips))]
