"""Beam and greedy search of a transducer (RNN-T) over anything that scores."""

from vrt.rnnt.config import BeamConfig, BeamError, Fusion
from vrt.rnnt.malsd import malsd
from vrt.rnnt.nbest import Hypothesis, NBest, Step
from vrt.rnnt.scorer import Scorer
from vrt.rnnt.trace import Iteration, Trace

__all__ = [
    "BeamConfig",
    "BeamError",
    "Fusion",
    "Hypothesis",
    "Iteration",
    "NBest",
    "Scorer",
    "Step",
    "Trace",
    "malsd",
]
