"""A TDT model as what the TDT searches ask: its joint's outputs split in classes and durations.

R rows, V classes with blank last, D durations, J joint width.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from vrt.rnnt.config import BeamError
from vrt.rnnt.model import ModelScorer, ScorerState, Transducer


class TdtModelScorer(ModelScorer):
    """A transducer with durations as a `DurationScorer`; only what the joint says is read
    differently. Frames are `project`ed once, outside the search."""

    def __init__(self, transducer: Transducer):
        config = transducer.config
        if not config.durations:
            raise BeamError("the model has no durations: it is an RNN-T, for ModelScorer and malsd")
        self.transducer, self.durations = transducer, config.durations
        self.vocab, self.blank = config.vocab, config.blank

    @torch.no_grad()
    def log_probs(
        self, frames: Float[Tensor, "R J"], state: ScorerState
    ) -> tuple[Float[Tensor, "R V"], Float[Tensor, "R D"]]:
        logits = self.transducer.joint.joint(frames, state.predicted)
        labels, durations = logits.split([self.vocab, len(self.durations)], dim=-1)
        return labels.log_softmax(-1), durations.log_softmax(-1)
