"""Bytes that each row must read: every weight it multiplies by, and the keys and values it sees.

Activations are left out (kilobytes), and so is what an arm reads twice: that is its own doing.
Here a context counts the keys that a step sees, its own included.
"""

from vrt.voxtral.config import FRAMES_PER_TOKEN
from vrt.voxtral.measure.cost import Cost


def stem_bytes(cost: Cost) -> int:
    return cost.weight_bytes["stem"]


def encoder_bytes(cost: Cost, frames: int = FRAMES_PER_TOKEN) -> int:
    """One encoder call over `frames` frames behind a full window."""
    past = cost.config.encoder.window - 1
    slot = cost.reads().encoder_keys_values // (past + FRAMES_PER_TOKEN)
    return cost.weight_bytes["encoder"] + slot * (past + frames)


def decoder_bytes(cost: Cost, context: int) -> int:
    """One decoder step and its logits."""
    reads = cost.reads(context - 1)
    return reads.decoder_weights + reads.decoder_keys_values


def step_bytes(cost: Cost, context: int) -> int:
    """80 ms of audio through stem, encoder, projector and decoder."""
    return cost.reads(context - 1).total
