"""A random transducer that talks as much as speech does: its blank bias is set by bisection.

B utterances, T encoder frames, E encoder width.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vrt.rnnt.config import BeamConfig
from vrt.rnnt.fast import fast_greedy, fast_malsd
from vrt.rnnt.model import ModelScorer, Transducer, TransducerConfig

STEPS = 12  # of the bisection: the bias is known to 1/64 then
WIDEST = 32.0
CALIBRATION_BEAM = 8


def random_frames(
    config: TransducerConfig, batch: int, frames: int, seed: int
) -> Float[Tensor, "B T E"]:
    """Encoder outputs of unit variance."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, frames, config.encoder_width, generator=generator)


def full_lengths(frames: Float[Tensor, "B T E"]) -> Int64[Tensor, "B"]:
    return torch.full((len(frames),), frames.shape[1])


@torch.no_grad()
def calibrated(
    model: Transducer,
    frames: Float[Tensor, "B T E"],
    rate: float,
    max_symbols: int,
    beam: int | None = CALIBRATION_BEAM,
) -> float:
    """Set the blank's output bias so that the best hypothesis of a beam (None: of a greedy search,
    which says more at the same bias) has about `rate` labels a frame; returns what came out."""
    bias = model.joint.output.bias
    low, high = -WIDEST, WIDEST  # a higher bias says less
    best, closest = 0.0, torch.inf
    start = float(bias[-1])
    for _ in range(STEPS):
        middle = (low + high) / 2
        bias[-1] = start + middle
        said = label_rate(model, frames, max_symbols, beam)
        if abs(said - rate) < closest:
            best, closest = middle, abs(said - rate)
        low, high = (middle, high) if said > rate else (low, middle)
    bias[-1] = start + best
    return label_rate(model, frames, max_symbols, beam)


def label_rate(
    model: Transducer,
    frames: Float[Tensor, "B T E"],
    max_symbols: int,
    beam: int | None = CALIBRATION_BEAM,
) -> float:
    """Labels an encoder frame in the best hypotheses."""
    scorer, lengths = ModelScorer(model), full_lengths(frames)
    projected = scorer.project(frames)
    if beam is None:
        best = fast_greedy(scorer, projected, lengths, max_symbols)
    else:
        config = BeamConfig(beam, max_symbols)
        best = [nbest[0] for nbest in fast_malsd(scorer, projected, lengths, config)]
    return sum(len(one.tokens) for one in best) / frames.shape[0] / frames.shape[1]
