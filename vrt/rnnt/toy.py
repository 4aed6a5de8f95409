"""Toy models that a search can be checked against by hand: a table or a formula, and an n-gram.

R rows, V classes with blank last, B utterances, T encoder frames. A toy frame holds two numbers,
its utterance and its place: (b, t).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vrt.rnnt.toy_formula import Formula, ngram_scores

Key = tuple[int | None, int, tuple[int, ...]]  # utterance (None: every one), frame, labels so far


def toy_frames(batch: int, time: int, dtype: torch.dtype = torch.float32) -> Float[Tensor, "B T 2"]:
    b = torch.arange(batch).unsqueeze(-1).expand(batch, time)
    t = torch.arange(time).expand(batch, time)
    return torch.stack([b, t], dim=-1).to(dtype)


@dataclass(frozen=True)
class ToyScorer:
    """Scores looked up by (utterance, encoder frame, labels so far).

    A key that `table` lacks takes its row from `formula`, else `default_row`; where there is none
    it is NaN, which a search refuses as soon as a living hypothesis reads it. Rows are
    log-probabilities as they are (`logprob`), or `log_softmax` makes them so (`logits`). The state
    is the labels of each row.
    """

    vocab: int
    mode: Literal["logprob", "logits"]
    table: Mapping[Key, Sequence[float]] = field(default_factory=dict)
    formula: Formula | None = None
    default_row: Sequence[float] | None = None
    _rows: dict[tuple, Tensor] = field(default_factory=dict, repr=False, compare=False)

    @property
    def blank(self) -> int:
        return self.vocab - 1

    def start(self, rows: int) -> list[tuple[int, ...]]:
        return [()] * rows

    def log_probs(
        self, frames: Float[Tensor, "R 2"], state: list[tuple[int, ...]]
    ) -> Float[Tensor, "R V"]:
        rows = self.rows(frames, state)
        return rows.log_softmax(-1) if self.mode == "logits" else rows

    def advance(
        self,
        state: list[tuple[int, ...]],
        parents: Int64[Tensor, "R"],
        labels: Int64[Tensor, "R"],
    ) -> list[tuple[int, ...]]:
        moves = zip(parents.tolist(), labels.tolist(), strict=True)
        return [state[p] + ((v,) if 0 <= v != self.blank else ()) for p, v in moves]

    def rows(
        self, frames: Float[Tensor, "R 2"], state: list[tuple[int, ...]]
    ) -> Float[Tensor, "R V"]:
        """As table or formula have them, in the dtype of the frames."""
        places = frames.long().tolist()
        rows = [self._row(b, t, p) for (b, t), p in zip(places, state, strict=True)]
        return torch.stack(rows).to(frames.dtype)

    def _row(self, b: int, t: int, prefix: tuple[int, ...]) -> Float[Tensor, "V"]:
        """A row of the table or the formula, float64; each is made once."""
        if self.table:
            row = self.table.get((b, t, prefix), self.table.get((None, t, prefix)))
            if row is not None:
                return torch.tensor(row, dtype=torch.float64)
        if self.formula is not None:
            context = self.formula.context(prefix)
            key = (b, t, context)
            if key not in self._rows:
                row = self.formula.row(b, t, context, self.vocab)
                self._rows[key] = torch.from_numpy(row)
            return self._rows[key]
        if self.default_row is None:
            return torch.full((self.vocab,), torch.nan, dtype=torch.float64)
        return torch.tensor(self.default_row, dtype=torch.float64)


@dataclass(frozen=True)
class ToyNgram:
    """A bigram: state 0 begins a sentence, v + 1 follows label v."""

    seed: int
    labels: int  # blank not counted
    _rows: dict[int, Tensor] = field(default_factory=dict, repr=False, compare=False)

    def start(self, rows: int) -> Int64[Tensor, "R"]:
        return torch.zeros(rows, dtype=torch.int64)

    def advance(
        self, states: Int64[Tensor, "R"]
    ) -> tuple[Float[Tensor, "R labels"], Int64[Tensor, "R labels"]]:
        scores = torch.stack([self._row(state) for state in states.tolist()])
        following = torch.arange(1, self.labels + 1).expand(len(states), self.labels)
        return scores, following

    def _row(self, state: int) -> Float[Tensor, "labels"]:
        if state not in self._rows:
            row = ngram_scores(self.seed, state, self.labels)
            self._rows[state] = torch.from_numpy(row)
        return self._rows[state]
