"""A graph whose states are contexts: arcs where a context knows a label, else a shorter context.

R rows, S states (0: no context), A arcs. An n-gram and a boosting tree are both such graphs; this
is the part of them that a search calls at every iteration.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor


class Arc(NamedTuple):
    origin: int
    label: int
    target: int
    score: float


@dataclass(frozen=True)
class BackoffGraph:
    """State 0 has every label; the others have some, and `backoff_to` for the rest.

    A label's score in a state is that of its arc in the nearest state along the back-offs that has
    one, plus the back-off scores on the way there; fp32, added in the order of the walk.
    """

    root_scores: Float32[Tensor, "labels"]
    root_targets: Int64[Tensor, "labels"]
    backoff_to: Int64[Tensor, "S"]
    backoff_scores: Float32[Tensor, "S"]
    begins: Int64[Tensor, "S+1"]  # arcs of state s are begins[s] up to begins[s + 1]; none of 0
    arc_labels: Int64[Tensor, "A"]
    arc_targets: Int64[Tensor, "A"]
    arc_scores: Float32[Tensor, "A"]

    @classmethod
    def of(
        cls,
        root: Sequence[tuple[int, float]],
        backoffs: Sequence[tuple[int, float]],
        arcs: Sequence[Arc],
    ) -> "BackoffGraph":
        """`root`: target and score of each label; `backoffs`: state and score for each state."""
        columns = zip(*arcs, strict=True) if arcs else ((), (), (), ())
        origins, labels, targets, scores = columns
        origins = np.array(origins, dtype=np.int64)
        order = np.argsort(origins, kind="stable")
        counts = np.bincount(origins, minlength=len(backoffs))
        return cls(
            _floats(score for _, score in root),
            torch.tensor([target for target, _ in root]),
            torch.tensor([state for state, _ in backoffs]),
            _floats(score for _, score in backoffs),
            torch.from_numpy(np.concatenate([[0], counts.cumsum()])),
            torch.from_numpy(np.array(labels, dtype=np.int64)[order]),
            torch.from_numpy(np.array(targets, dtype=np.int64)[order]),
            torch.from_numpy(np.array(scores, dtype=np.float32)[order]),
        )

    @property
    def labels(self) -> int:
        return len(self.root_scores)

    def to(self, device: torch.device | str) -> "BackoffGraph":
        return BackoffGraph(*(getattr(self, field.name).to(device) for field in fields(self)))

    def rows(
        self, states: Int64[Tensor, "R"]
    ) -> tuple[Float32[Tensor, "R labels"], Int64[Tensor, "R labels"]]:
        """Score of every label in each state, and the state after it."""
        walk = self._walk(states)
        _, paid = walk.pop()
        scores = paid.unsqueeze(-1) + self.root_scores
        targets = self.root_targets.repeat(len(states), 1)
        # Shortest context first: what a longer one knows takes its place.
        for contexts, paid in reversed(walk):
            row, arc = self._arcs(contexts)
            label = self.arc_labels[arc]
            scores[row, label] = paid[row] + self.arc_scores[arc]
            targets[row, label] = self.arc_targets[arc]
        return scores, targets

    def _walk(
        self, states: Int64[Tensor, "R"]
    ) -> list[tuple[Int64[Tensor, "R"], Float32[Tensor, "R"]]]:
        """Contexts from each state down to 0, with the back-off scores paid up to there."""
        paid = torch.zeros(len(states), device=states.device)
        walk = [(states, paid)]
        while states.any():
            paid = paid + self.backoff_scores[states]
            states = self.backoff_to[states]
            walk.append((states, paid))
        return walk

    def _arcs(self, states: Int64[Tensor, "R"]) -> tuple[Int64[Tensor, "n"], Int64[Tensor, "n"]]:
        """Row and arc number of every arc that leaves the state of a row."""
        begins = self.begins[states]
        counts = self.begins[states + 1] - begins
        rows = torch.arange(len(states), device=states.device).repeat_interleave(counts)
        places = torch.arange(len(rows), device=states.device)
        return rows, places + (begins - (counts.cumsum(0) - counts))[rows]


def _floats(values: object) -> Float32[Tensor, "n"]:
    return torch.tensor(list(values), dtype=torch.float64).float()
