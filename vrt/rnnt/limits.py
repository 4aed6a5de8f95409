"""What a search refuses, and when it ends.

B utterances, K beam slots, V classes with blank, T encoder frames, J frame width.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vrt.rnnt.beam import Beam
from vrt.rnnt.config import BeamConfig, BeamError
from vrt.rnnt.scorer import Scorer


def refuse_lengths(frames: Float[Tensor, "B T J"], lengths: Int[Tensor, "B"]) -> None:
    batch, time = frames.shape[:2]
    if batch == 0 or time == 0:
        raise BeamError(
            f"there is nothing to search: {batch} utterances of {time} encoder frames (T = {time});"
            " leave out utterances without frames, or pad them and give length 0"
        )
    for row, length in enumerate(lengths.tolist()):
        if not 0 <= length <= time:
            raise BeamError(
                f"length {length} of utterance {row} is outside 0..{time}, the frames given"
            )


def refuse_tdt(scorer: Scorer) -> None:
    """A TDT's scorer gives durations too, which a search of an RNN-T would not read."""
    if hasattr(scorer, "durations"):
        raise BeamError(
            f"{type(scorer).__name__} scores durations {scorer.durations}: it is a TDT's, for"
            " vrt.rnnt.tdt_malsd, tdt_greedy and TdtSession"
        )


def refuse_undefined(log_probs: Float[Tensor, "B K V"], beam: Beam) -> None:
    """NaN and +inf are no log-probabilities; only slots that will use theirs are looked at."""
    used = (beam.active & beam.hyps.alive).unsqueeze(-1)
    wrong = used & ~(log_probs < torch.inf)
    if not wrong.any():
        return
    row, slot, label = wrong.nonzero()[0].tolist()
    value, frame = log_probs[row, slot, label].item(), int(beam.hyps.times[row, slot])
    raise BeamError(undefined(value, label, frame, row, slot))


def undefined(value: float, label: int, frame: int, utterance: int, slot: int) -> str:
    return (
        f"log-probability {value} of label {label} at encoder frame {frame} of utterance"
        f" {utterance} (beam slot {slot}): the scorer must give numbers below +inf; look for NaN or"
        " overflow in the frames and weights"
    )


def goes_on(beam: Beam, config: BeamConfig, frames: int) -> bool:
    """Whether another iteration is due, over `frames` encoder frames.

    A search ends when no living slot has frames left: all are final, and another pass would change
    nothing. Under ties="torch" dead slots keep it going as in NeMo, since each pass through
    `torch.topk` may reorder final slots of equal score; not without `max_symbols`, where dead
    slots may go on for ever (and NeMo with them).

    Raises:
        BeamError: more iterations than there may be.
    """
    dead_count = config.ties == "torch" and config.max_symbols is not None
    going = beam.active if dead_count else beam.active & beam.hyps.alive
    if not going.any():
        return False
    refuse_endless(beam.iterations, config, frames)
    return True


def refuse_endless(iterations: int, config: BeamConfig, frames: int) -> None:
    """Where another iteration is due, after so many over `frames` encoder frames."""
    symbols = config.iteration_guard if config.max_symbols is None else config.max_symbols + 1
    if iterations >= frames * symbols:
        raise BeamError(_past_bound(iterations, config, frames))


def _past_bound(iterations: int, config: BeamConfig, frames: int) -> str:
    if config.max_symbols is None:
        return (
            f"max_symbols=None: after {iterations} iterations over {frames} encoder frames"
            " hypotheses still grow; set max_symbols, or raise iteration_guard"
            f" ({config.iteration_guard} iterations a frame)"
        )
    return (
        f"zero_length='nemo': an utterance without frames needs more than the {iterations}"
        f" iterations that {frames} encoder frames can take, where NeMo fails too;"
        " use zero_length='empty', or pad to two frames or more"
    )
