"""Greedy search by label looping, as `vrt.rnnt.greedy`, with less work.

B utterances, T encoder frames, J frame width, R rows.

Until a label is found the predictor stands still, so the joint may look at frames ahead: several
rows cost it little more than one. What lies behind the label found is thrown away.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from vrt.rnnt.config import BeamConfig, BeamError
from vrt.rnnt.counters import Tally, Work
from vrt.rnnt.fast.scored import Rows, Undefined
from vrt.rnnt.fast.search import DTYPES, rows_of
from vrt.rnnt.greedy import greedy, refuse_cap, undefined_scores, without_end
from vrt.rnnt.limits import refuse_lengths, refuse_tdt
from vrt.rnnt.nbest import Hypothesis
from vrt.rnnt.scorer import Scorer

AHEAD = 4  # rows of the joint at first; twice as many after as many blanks
FARTHEST = 16


@torch.no_grad()
def fast_greedy(
    scorer: Scorer,
    frames: Float[Tensor, "B T J"],
    lengths: Int[Tensor, "B"],
    max_symbols: int | None = 10,
    iteration_guard: int = 100,
    tally: Tally | None = None,
) -> list[Hypothesis]:
    """What `greedy` gives; exact as `fast_malsd` is, and as it takes a `PackedScorer`.

    Raises:
        BeamError: as `greedy`.
    """
    if frames.dtype not in DTYPES or frames.device.type != "cpu":
        return greedy(scorer, frames, lengths, max_symbols, iteration_guard)
    refuse_cap(max_symbols)
    refuse_tdt(scorer)
    refuse_lengths(frames, lengths)
    rows = rows_of(scorer, BeamConfig(beam_size=1), frames.dtype)
    lines = Lines.start(rows, frames.detach().contiguous(), lengths)
    for _ in range(frames.shape[1] * (max_symbols or iteration_guard) + 1):
        found = lines.next_labels(scorer.blank)
        if not found.any():
            if tally is not None:
                tally.take(lines.work)
            return lines.hypotheses()
        lines.take(found, max_symbols)
    raise BeamError(without_end(iteration_guard, frames.shape[1]))


@dataclass
class Lines:
    """Where each utterance stands and what it has so far. Row 0 holds the start, row b + 1 the
    predictor of utterance b after its first label."""

    rows: Rows
    frames: Float[Tensor, "B T J"]
    ends: Int64[np.ndarray, "B"]
    row: Int64[np.ndarray, "B"]
    time: Int64[np.ndarray, "B"]
    symbols: Int64[np.ndarray, "B"]  # labels at this frame
    label: Int64[np.ndarray, "B"]  # found last
    value: Float[np.ndarray, "B"]  # its log-probability
    score: Float[np.ndarray, "B"]
    tokens: list[list[int]]
    stamps: list[list[int]]
    work: Work

    @classmethod
    def start(
        cls, rows: Rows, frames: Float[Tensor, "B T J"], lengths: Int[Tensor, "B"]
    ) -> "Lines":
        batch, dtype = len(frames), DTYPES[frames.dtype]
        rows.start(max(batch + 1, 2))
        counts = (np.zeros(batch, dtype=np.int64) for _ in range(4))
        scores = (np.zeros(batch, dtype=dtype) for _ in range(2))
        texts = ([[] for _ in range(batch)] for _ in range(2))
        ends = lengths.long().cpu().numpy()
        return cls(rows, frames, ends, *counts, *scores, *texts, Work())

    def next_labels(self, blank: int) -> Bool[np.ndarray, "B"]:
        """Move each utterance over its blanks to its next label, or to its end; who found one."""
        found = np.zeros(len(self.ends), dtype=bool)
        self.work.iterations += 1
        ahead = AHEAD
        while True:
            seeking = np.flatnonzero(~found & (self.time < self.ends))
            if not len(seeking):
                return found
            width = max(1, ahead // len(seeking))
            labels, values = self._look(seeking, width)
            width = labels.shape[1]
            blanks = np.where((labels != blank).any(1), (labels != blank).argmax(1), width)
            there = self.time[seeking] + blanks
            hit = (blanks < width) & (there < self.ends[seeking])
            moved = np.minimum(there, self.ends[seeking])
            self.work.blanks += int((moved - self.time[seeking]).sum())
            self.symbols[seeking] = np.where(moved > self.time[seeking], 0, self.symbols[seeking])
            self.time[seeking] = moved
            at = blanks[hit]
            self.label[seeking[hit]], self.value[seeking[hit]] = labels[hit, at], values[hit, at]
            found[seeking[hit]] = True
            ahead = min(2 * ahead, FARTHEST)

    def _look(
        self, seeking: Int64[np.ndarray, "n"], width: int
    ) -> tuple[Int64[np.ndarray, "n width"], Float[np.ndarray, "n width"]]:
        """Best class of `width` frames of each, or of fewer; of the last one again at the end."""
        times = self.time[seeking][:, None] + np.arange(width)
        times = np.minimum(times, self.ends[seeking][:, None] - 1)
        rows, utterances = (np.repeat(part, width) for part in (self.row[seeking], seeking))
        try:
            best = self.rows.best(rows, self.frames, utterances, times.ravel())
        except Undefined as error:
            if error.row % width == 0:
                row = utterances[error.row]
                raise BeamError(undefined_scores(int(self.time[row]), int(row))) from None
            return self._look(seeking, 1)  # NaN ahead of a label is never reached
        self.work.joint_calls += 1
        self.work.joint_rows += len(rows)
        return best.labels.reshape(-1, width), best.values.reshape(-1, width)

    def take(self, found: Bool[np.ndarray, "B"], max_symbols: int | None) -> None:
        """The labels found; then the next frame where this one has given all it may."""
        lines = np.flatnonzero(found)
        self.score[lines] += self.value[lines]
        for line in lines.tolist():
            self.tokens[line].append(int(self.label[line]))
            self.stamps[line].append(int(self.time[line]))
        self.rows.compute(lines + 1, self.row[lines], self.label[lines])
        self.row[lines] = lines + 1
        self.symbols[lines] += 1
        self.work.predictor_calls += 1
        self.work.predictor_rows += len(lines)
        self.work.labels += len(lines)
        if max_symbols is not None:
            full = found & (self.symbols >= max_symbols)
            self.time[full] += 1
            self.symbols[full] = 0

    def hypotheses(self) -> list[Hypothesis]:
        parts = zip(self.tokens, self.stamps, self.score.tolist(), strict=True)
        return [
            Hypothesis(tuple(tokens), score, score / (len(tokens) + 1), tuple(stamps))
            for tokens, stamps, score in parts
        ]
