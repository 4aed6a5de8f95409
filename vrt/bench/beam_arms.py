"""The searches that take turns on one problem, and whether they find the same.

B utterances, T encoder frames, E encoder width, J joint width.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vrt.bench.beam_model import full_lengths
from vrt.bench.beam_rows import INSTALLED, NO_ONEDNN
from vrt.bench.beam_settings import Case
from vrt.bench.rows import OURS
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.fast import PackedScorer, fast_greedy, fast_malsd
from vrt.rnnt.malsd import malsd
from vrt.rnnt.margins import margins
from vrt.rnnt.model import ModelScorer, Transducer
from vrt.rnnt.nbest import Hypothesis, NBest
from vrt.rnnt.trace import Trace

Found = list[NBest]
Search = Callable[[], Found]


@dataclass(frozen=True)
class Problem:
    """One case's encoder outputs, and the model that searches them. Every arm begins with the
    encoder's projection, which NeMo computes inside its search."""

    case: Case
    model: Transducer
    scorer: PackedScorer
    frames: Float[Tensor, "B T E"]
    max_symbols: int

    @property
    def config(self) -> BeamConfig:
        return BeamConfig(self.case.beam or 1, self.max_symbols)

    @property
    def lengths(self) -> Int64[Tensor, "B"]:
        return full_lengths(self.frames)

    @property
    def projected(self) -> Float[Tensor, "B T J"]:
        return self.scorer.project(self.frames)

    def ours(self) -> Search:
        if self.case.beam is None:
            return lambda: _lists(
                fast_greedy(self.scorer, self.projected, self.lengths, self.max_symbols)
            )
        return lambda: fast_malsd(self.scorer, self.projected, self.lengths, self.config)

    def closest_decision(self) -> float:
        """Of the clear search; infinite for greedy, which is not traced."""
        if self.case.beam is None:
            return torch.inf
        trace = Trace()
        scorer = ModelScorer(self.model)
        found = malsd(scorer, self.projected, self.lengths, self.config, trace)
        return margins(trace.iterations, found, self.config, by_norm=True).decision

    def nemo(self) -> dict[str, Search]:
        """As installed, and with oneDNN off: then PyTorch's own LSTM runs."""
        from vrt.oracle.nemo_model import NemoBeam, NemoGreedy

        frames, lengths = self.frames, self.lengths
        if self.case.beam is None:
            greedy = NemoGreedy(self.model, self.max_symbols)
            search: Search = lambda: _lists(greedy(frames, lengths))  # noqa: E731
        else:
            beam = NemoBeam(self.model, self.config)
            search = lambda: beam(frames, lengths)  # noqa: E731

        def without_onednn() -> Found:
            with torch.backends.mkldnn.flags(enabled=False):
                return search()

        return {INSTALLED: search, NO_ONEDNN: without_onednn}

    def arms(self, against_nemo: bool) -> dict[str, Search]:
        return {OURS: self.ours()} | (self.nemo() if against_nemo else {})


def _lists(found: list[Hypothesis]) -> Found:
    return [NBest([one]) for one in found]


def differences(ours: Found, theirs: Found) -> tuple[bool, float]:
    """Whether all tokens and timestamps are equal, in order; the largest difference of scores."""
    said = [
        [[(h.tokens, h.timestamps) for h in nbest] for nbest in found] for found in (ours, theirs)
    ]
    pairs = zip(ours, theirs, strict=True)
    scores = [
        abs(a.score - b.score) for left, right in pairs for a, b in zip(left, right, strict=False)
    ]
    return said[0] == said[1], max(scores, default=0.0)
