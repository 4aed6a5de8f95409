"""What a bench of the beam measures, checked before anything long starts.

B utterances searched together, K beam slots, T encoder frames, V classes with blank.
"""

from dataclasses import dataclass
from importlib.util import find_spec

from vrt.bench.settings import BenchError
from vrt.rnnt.model import PARAKEET, TransducerConfig

PEERS = ("nemo", "none")
SPEECH_RATE = 0.35  # labels an encoder frame, as of speech at 80 ms a frame
BLANK_RICH_RATE = 0.07  # 13 labels in 188 frames: what an uncalibrated random model says


@dataclass(frozen=True)
class Case:
    """One problem: B utterances, K slots (None: greedy), and how many labels a frame it yields."""

    batch: int
    beam: int | None
    rate: float = SPEECH_RATE

    @property
    def name(self) -> str:
        search = "greedy" if self.beam is None else f"beam {self.beam}"
        rich = ", blank-rich" if self.rate < SPEECH_RATE else ""
        return f"{search}, B={self.batch}{rich}"


def cases(beams: tuple[int, ...], batches: tuple[int, ...]) -> tuple[Case, ...]:
    """Of every beam (0: greedy) at every batch; the blank-rich one where K = 8 at B = 1 is in."""
    found = [Case(batch, beam or None) for batch in batches for beam in beams]
    rich = [Case(1, 8, BLANK_RICH_RATE)] if Case(1, 8) in found else []
    return tuple(dict.fromkeys([*found, *rich]))


# CPU time of NeMo over that of vrt, at least: against its better setting, and as installed.
GOALS = {
    Case(1, 8): (4.0, 6.0),
    Case(8, 8): (3.0, None),
    Case(1, 8, BLANK_RICH_RATE): (6.0, None),
    Case(1, None): (2.0, None),
    Case(8, None): (2.0, None),
}


@dataclass(frozen=True)
class BeamBenchSettings:
    """`frames` encoder frames an utterance (188 are 15 s at 80 ms). `repeats` counts timed calls of
    each arm. `against` is `nemo` or `none`. One thread."""

    cases: tuple[Case, ...] = cases((0, 1, 4, 8), (1, 8))
    frames: int = 188
    max_symbols: int = 10
    repeats: int = 5
    against: str = "nemo"
    seed: int = 0
    model: TransducerConfig = PARAKEET
    frame_seconds: float = 0.08

    def __post_init__(self) -> None:
        if self.against not in PEERS:
            raise BenchError(f"against {self.against}: there are {', '.join(PEERS)}")
        if self.against == "nemo" and find_spec("nemo") is None:
            raise BenchError("NeMo is not installed; pip install 'vrt[nemo]', or say none")
        for name in ("frames", "repeats", "max_symbols"):
            if getattr(self, name) < 1:
                raise BenchError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.cases:
            raise BenchError("no case to measure: name a beam or greedy")
        for case in self.cases:
            if case.batch < 1 or (case.beam is not None and not 1 <= case.beam <= self.model.vocab):
                raise BenchError(
                    f"{case.name}: B is at least 1 and K 1 to {self.model.vocab}, the classes"
                )
