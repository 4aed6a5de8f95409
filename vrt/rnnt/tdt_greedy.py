"""Greedy search of a TDT by label looping, as NeMo's `greedy_batch` does it.

B utterances, V classes with blank, D durations, T encoder frames, J frame width. Class and duration
are each the best of their own row. The outer loop takes one label an utterance and runs the
predictor once; the inner loop jumps over the blanks before it, with the joint alone. A label moves
on too, and may be the last step of an utterance; a blank moves by one frame at least.

Source: NeMo 3.0.0, `GreedyBatchedTDTLabelLoopingComputer.torch_impl`. Two things differ from it on
a CPU. Its token durations are those of the step of the slowest utterance of the batch, not of the
step that emitted the token (its CUDA path has them right); ours are what the search moved on by.
Its joint normalises a row over classes and durations together before the best score is taken; ours
are log-probabilities of classes among classes.
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from vrt.rnnt.config import BeamError
from vrt.rnnt.frames import Frames
from vrt.rnnt.limits import refuse_lengths
from vrt.rnnt.nbest import Hypothesis
from vrt.rnnt.tdt_scorer import DurationScorer, both_rows, jumps_of, refuse_durations


@dataclass(frozen=True)
class _Found:
    """The next label of each utterance; blank where there is none to the end."""

    labels: Int64[Tensor, "B"]
    values: Float[Tensor, "B"]  # log-probability among the classes
    stamps: Int64[Tensor, "B"]  # frame of the step
    jumps: Int64[Tensor, "B"]  # frames that the step moved on by


@dataclass
class _Line:
    """What an utterance has so far."""

    score: float = 0.0
    tokens: list[int] = field(default_factory=list)
    stamps: list[int] = field(default_factory=list)
    durations: list[int] = field(default_factory=list)

    def hypothesis(self) -> Hypothesis:
        tokens, norm = tuple(self.tokens), self.score / (len(self.tokens) + 1)
        lengths = tuple(self.durations)
        return Hypothesis(tokens, self.score, norm, tuple(self.stamps), durations=lengths)


@torch.no_grad()
def tdt_greedy(
    scorer: DurationScorer,
    frames: Float[Tensor, "B T J"],
    lengths: Int[Tensor, "B"],
    max_symbols: int | None = 10,
    iteration_guard: int = 100,
) -> list[Hypothesis]:
    """The best class and the best duration at each step. Equal scores go by the lowest index.

    After `max_symbols` labels of duration 0 at one frame the next frame is read, and no blank is
    paid for, unlike in a beam of one. `score` is that of the labels alone, without blanks and
    durations, as in `greedy_batch`. Without `max_symbols`, `iteration_guard` labels per encoder
    frame end a search that does not end.

    Raises:
        BeamError: durations that are none, T = 0, lengths outside 0..T, NaN, or a search that does
            not end.
    """
    if max_symbols is not None and max_symbols < 1:
        raise BeamError(f"max_symbols must be at least 1 or None, got {max_symbols}")
    refuse_durations(scorer)
    refuse_lengths(frames, lengths)
    batch, frame_count = frames.shape[:2]
    there, ends = Frames.of(frames, lengths.long()), lengths.long().to(frames.device)
    rows = torch.arange(batch, device=frames.device)
    lines = [_Line() for _ in range(batch)]
    state, times = scorer.start(batch), torch.zeros_like(ends)
    at_frame, newest = torch.zeros_like(ends), torch.full_like(ends, -1)
    for _ in range(frame_count * (max_symbols or iteration_guard) + 1):
        # 1. Over blanks to the next label, or to the end.
        found, times = next_labels(scorer, state, there, times, ends)
        taken = found.labels != scorer.blank
        if not taken.any():
            return [line.hypothesis() for line in lines]
        # 2. Take it.
        _add(lines, found, taken)
        state = scorer.advance(state, rows, found.labels)
        # 3. Force the next frame where this one has given all it may.
        at_frame = torch.where(found.stamps == newest, at_frame, 0) + taken.long()
        newest = found.stamps
        if max_symbols is not None:
            full = taken & (at_frame >= max_symbols) & (times == newest)
            times = times + full.long()
    raise BeamError(
        f"max_symbols=None: more than {iteration_guard} labels per encoder frame over {frame_count}"
        " frames; set max_symbols, or raise iteration_guard"
    )


def next_labels(
    scorer: DurationScorer,
    state: object,
    frames: Frames,
    times: Int64[Tensor, "B"],
    ends: Int64[Tensor, "B"],
) -> tuple[_Found, Int64[Tensor, "B"]]:
    """Each utterance's next label, and the frame that it reads afterwards."""
    lengths = torch.tensor(scorer.durations, device=times.device)
    labels, jumps, stamps = torch.full_like(times, scorer.blank), torch.zeros_like(times), times
    values = torch.zeros(len(times), dtype=frames.values.dtype, device=times.device)
    while True:
        seeking = (labels == scorer.blank) & (times < ends)
        if not seeking.any():
            return _Found(labels, values, stamps, jumps), times
        classes, durations = both_rows(scorer, frames.at(times.unsqueeze(-1)), state)
        _refuse_undefined(classes, durations, seeking, times)
        best, label = classes.max(dim=-1)
        jump = jumps_of(lengths[durations.argmax(-1)], label == scorer.blank)
        labels, values = label.where(seeking, labels), best.where(seeking, values)
        stamps, jumps = times.where(seeking, stamps), jump.where(seeking, jumps)
        times = times + jump.where(seeking, 0)


def _add(lines: list[_Line], found: _Found, taken: Bool[Tensor, "B"]) -> None:
    for row in taken.nonzero().flatten().tolist():
        line = lines[row]
        line.score += float(found.values[row])
        line.tokens.append(int(found.labels[row]))
        line.stamps.append(int(found.stamps[row]))
        line.durations.append(int(found.jumps[row]))


def _refuse_undefined(
    classes: Float[Tensor, "B V"],
    durations: Float[Tensor, "B D"],
    seeking: Bool[Tensor, "B"],
    times: Int64[Tensor, "B"],
) -> None:
    for rows, what in ((classes, "scores"), (durations, "duration scores")):
        wrong = seeking & ~(rows < torch.inf).all(-1)
        if wrong.any():
            row = int(wrong.nonzero()[0])
            raise BeamError(
                f"{what} at encoder frame {int(times[row])} of utterance {row} are NaN or +inf;"
                " look for NaN or overflow in the frames and weights"
            )
