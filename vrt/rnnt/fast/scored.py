"""Predictor rows kept by number, and the K best labels after each: over anything that scores.

C rows kept, R rows asked for, B utterances, T encoder frames at hand, V classes with blank.
"""

from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vrt.rnnt.config import BeamConfig
from vrt.rnnt.fast.fused import FusionRows
from vrt.rnnt.fast.largest import largest
from vrt.rnnt.fast.slots import Best
from vrt.rnnt.scorer import Scorer


class Undefined(ArithmeticError):
    """A log-probability that is NaN or +inf, of a label after row `row` of those asked for."""

    def __init__(self, row: int, label: int, value: float):
        super().__init__(f"log-probability {value} of label {label}, row {row}")
        self.row, self.label, self.value = row, label, value


@runtime_checkable
class Rows(Protocol):
    """What the fast search asks of a model."""

    def start(self, count: int) -> None:
        """Keep `count` rows from now on, forget what was; row 0 was fed the start symbol."""
        ...

    def compute(
        self,
        rows: Int64[np.ndarray, "n"],
        parents: Int64[np.ndarray, "n"],
        labels: Int64[np.ndarray, "n"],
    ) -> None:
        """Fill `rows`: the predictor in rows `parents`, fed `labels`, none of them blank."""
        ...

    def best(
        self,
        rows: Int64[np.ndarray, "R"],
        frames: Float[Tensor, "B T J"],
        utterances: Int64[np.ndarray, "R"],
        places: Int64[np.ndarray, "R"],
    ) -> Best:
        """What follows each row, each at its own frame `frames[utterance, place]`.

        Raises:
            Undefined: scores that are no log-probabilities.
        """
        ...


class ScorerRows:
    """Rows of any `Scorer`, copied by its own `advance`. It is asked for those rows alone that are
    needed, a number that changes from call to call."""

    def __init__(self, scorer: Scorer, config: BeamConfig, dtype: torch.dtype):
        self.scorer, self.config, self.dtype = scorer, config, dtype
        self._fusion: FusionRows | None = None

    def start(self, count: int) -> None:
        self._state = self.scorer.start(count)
        self._all = torch.arange(count)
        if self.config.fusion:
            self._fusion = FusionRows(self.config, count, self.dtype)

    def compute(
        self,
        rows: Int64[np.ndarray, "n"],
        parents: Int64[np.ndarray, "n"],
        labels: Int64[np.ndarray, "n"],
    ) -> None:
        index = torch.from_numpy(rows)
        sources = self._all.index_copy(0, index, torch.from_numpy(parents))
        blanks = torch.full_like(self._all, self.scorer.blank)
        fed = blanks.index_copy(0, index, torch.from_numpy(labels))
        self._state = self.scorer.advance(self._state, sources, fed)
        if self._fusion is not None:
            self._fusion.compute(rows, parents, labels)

    def best(
        self,
        rows: Int64[np.ndarray, "R"],
        frames: Float[Tensor, "B T J"],
        utterances: Int64[np.ndarray, "R"],
        places: Int64[np.ndarray, "R"],
    ) -> Best:
        index = torch.from_numpy(rows)
        state = self.scorer.advance(self._state, index, torch.full_like(index, self.scorer.blank))
        read = frames[torch.from_numpy(utterances), torch.from_numpy(places)]
        acoustic = self.scorer.log_probs(read, state).to(self.dtype)
        return best_of(acoustic, rows, self._fusion, self.config, self.scorer.blank)


def best_of(
    acoustic: Float[Tensor, "R V"],
    rows: Int64[np.ndarray, "R"],
    fusion: FusionRows | None,
    config: BeamConfig,
    blank: int,
) -> Best:
    """As `malsd.best_labels`: `early` decides by the acoustic scores and adds the others after."""
    refuse_undefined(acoustic)
    alone = acoustic.detach().numpy()
    both = alone if fusion is None else fusion.joined(acoustic, rows).numpy()
    decides = alone if config.pruning_mode == "early" else both
    values, labels = largest(decides, config.beam_size)
    blanks = alone[:, blank].copy()
    if fusion is None:
        return Best(values, labels, blanks, values, blanks)
    values, log_probs = (np.take_along_axis(side, labels, axis=1) for side in (both, alone))
    return Best(values, labels, decides[:, blank].copy(), log_probs, blanks)


def refuse_undefined(acoustic: Float[Tensor, "R V"]) -> None:
    wrong = ~(acoustic < torch.inf)
    if wrong.any():
        row, label = wrong.nonzero()[0].tolist()
        raise Undefined(row, label, acoustic[row, label].item())
