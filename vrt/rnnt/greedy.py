"""Greedy search of a transducer by label looping, as NeMo's `greedy_batch` does it.

B utterances, V classes with blank, T encoder frames, J frame width. The outer loop takes one label
an utterance and runs the predictor once; the inner loop runs over the blanks before it, with the
joint alone.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from vrt.rnnt.config import BeamError
from vrt.rnnt.frames import Frames
from vrt.rnnt.limits import refuse_lengths, refuse_tdt
from vrt.rnnt.nbest import Hypothesis
from vrt.rnnt.scorer import Scorer


@dataclass
class _Lines:
    """What each utterance has so far."""

    tokens: list[list[int]]
    stamps: list[list[int]]
    scores: Float[Tensor, "B"]

    def add(
        self,
        found: Bool[Tensor, "B"],
        labels: Int64[Tensor, "B"],
        times: Int64[Tensor, "B"],
        values: Float[Tensor, "B"],
    ) -> None:
        self.scores = self.scores + values.where(found, 0.0)
        for row in found.nonzero().flatten().tolist():
            self.tokens[row].append(int(labels[row]))
            self.stamps[row].append(int(times[row]))

    def hypotheses(self) -> list[Hypothesis]:
        lines = zip(self.tokens, self.stamps, self.scores.tolist(), strict=True)
        return [
            Hypothesis(tuple(tokens), score, score / (len(tokens) + 1), tuple(stamps))
            for tokens, stamps, score in lines
        ]


@torch.no_grad()
def greedy(
    scorer: Scorer,
    frames: Float[Tensor, "B T J"],
    lengths: Int[Tensor, "B"],
    max_symbols: int | None = 10,
    iteration_guard: int = 100,
) -> list[Hypothesis]:
    """The best class at each step. Equal scores go by the lowest index.

    After `max_symbols` labels at one frame the next frame is read, and no blank is paid for, unlike
    in a beam of one. `score` is that of the labels alone, as in `greedy_batch`. Without
    `max_symbols`, `iteration_guard` labels per encoder frame end a search that does not end.

    Raises:
        BeamError: T = 0, lengths outside 0..T, NaN, or a search that does not end.
    """
    refuse_cap(max_symbols)
    refuse_tdt(scorer)
    refuse_lengths(frames, lengths)
    batch, frame_count = frames.shape[:2]
    there = Frames.of(frames, lengths.long())
    ends = lengths.long().to(frames.device)
    rows = torch.arange(batch, device=frames.device)
    nothing = torch.zeros(batch, dtype=frames.dtype, device=frames.device)
    lines = _Lines([[] for _ in rows], [[] for _ in rows], nothing)
    state, times = scorer.start(batch), torch.zeros_like(ends)
    at_frame = torch.zeros_like(ends)  # labels taken at the current frame
    for _ in range(frame_count * (max_symbols or iteration_guard) + 1):
        # 1. Over blanks to the next label, or to the end.
        labels, values, found_at = next_labels(scorer, state, there, times, ends)
        found = labels != scorer.blank
        if not found.any():
            return lines.hypotheses()
        at_frame = torch.where(found_at == times, at_frame, 0) + found.long()
        times = found_at
        # 2. Take it.
        lines.add(found, labels, times, values)
        state = scorer.advance(state, rows, labels)
        # 3. Force the next frame where this one has given all it may.
        if max_symbols is not None:
            full = found & (at_frame >= max_symbols)
            times, at_frame = times + full.long(), at_frame.where(~full, 0)
    raise BeamError(without_end(iteration_guard, frame_count))


def next_labels(
    scorer: Scorer,
    state: object,
    frames: Frames,
    times: Int64[Tensor, "B"],
    ends: Int64[Tensor, "B"],
) -> tuple[Int64[Tensor, "B"], Float[Tensor, "B"], Int64[Tensor, "B"]]:
    """Each utterance's next label, its score and frame; blank where there is none to the end."""
    labels = torch.full_like(times, scorer.blank)
    values = torch.zeros(len(times), dtype=frames.values.dtype, device=times.device)
    while True:
        seeking = (labels == scorer.blank) & (times < ends)
        if not seeking.any():
            return labels, values, times
        log_probs = scorer.log_probs(frames.at(times.unsqueeze(-1)), state)
        _refuse_undefined(log_probs, seeking, times)
        best, label = log_probs.max(dim=-1)
        labels, values = label.where(seeking, labels), best.where(seeking, values)
        times = times + (seeking & (label == scorer.blank)).long()


def _refuse_undefined(
    log_probs: Float[Tensor, "B V"], seeking: Bool[Tensor, "B"], times: Int64[Tensor, "B"]
) -> None:
    wrong = seeking & ~(log_probs < torch.inf).all(-1)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise BeamError(undefined_scores(int(times[row]), row))


def refuse_cap(max_symbols: int | None) -> None:
    if max_symbols is not None and max_symbols < 1:
        raise BeamError(f"max_symbols must be at least 1 or None, got {max_symbols}")


def undefined_scores(frame: int, utterance: int) -> str:
    return (
        f"scores at encoder frame {frame} of utterance {utterance} are NaN or +inf; look for NaN or"
        " overflow in the frames and weights"
    )


def without_end(iteration_guard: int, frames: int) -> str:
    return (
        f"max_symbols=None: more than {iteration_guard} labels per encoder frame over {frames}"
        " frames; set max_symbols, or raise iteration_guard"
    )
