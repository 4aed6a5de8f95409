"""A transducer whose predictor or joint computes in float16.

R rows, V classes with blank, T encoder frames, E encoder width, J joint width.
Weights were stored in float16 already: what changes is every product, sum and state.
"""

from copy import deepcopy

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vrt.rnnt.model import ModelScorer, ScorerState, Transducer


class HalfPredictor:
    """Predictor, its state and its projection in float16; the joint in float32."""

    def __init__(self, transducer: Transducer):
        half = deepcopy(transducer)
        half.decoder.half()
        half.joint.pred.half()
        self.half, self.full = ModelScorer(half), ModelScorer(transducer)
        self.vocab, self.blank = self.full.vocab, self.full.blank

    def start(self, rows: int) -> ScorerState:
        return self.half.start(rows)

    def log_probs(self, frames: Float[Tensor, "R J"], state: ScorerState) -> Float[Tensor, "R V"]:
        return self.full.log_probs(frames, ScorerState(state.lstm, state.predicted.float()))

    def advance(
        self, state: ScorerState, parents: Int64[Tensor, "R"], labels: Int64[Tensor, "R"]
    ) -> ScorerState:
        return self.half.advance(state, parents, labels)


class HalfJoint:
    """The joint after its projections in float16, its logits normalised in float32."""

    def __init__(self, scorer: ModelScorer | HalfPredictor, transducer: Transducer):
        self.scorer = scorer
        self.joint = deepcopy(transducer.joint).half()
        self.vocab, self.blank = scorer.vocab, scorer.blank

    def start(self, rows: int) -> ScorerState:
        return self.scorer.start(rows)

    @torch.no_grad()
    def log_probs(self, frames: Float[Tensor, "R J"], state: ScorerState) -> Float[Tensor, "R V"]:
        logits = self.joint.joint(frames.half(), state.predicted.half())
        return logits.float().log_softmax(-1)

    def advance(
        self, state: ScorerState, parents: Int64[Tensor, "R"], labels: Int64[Tensor, "R"]
    ) -> ScorerState:
        return self.scorer.advance(state, parents, labels)
