"""NeMo's own `greedy_batch` (label looping) on a toy scorer.

B utterances, T encoder frames.
"""

import torch
from jaxtyping import Float, Int64
from nemo.collections.asr.parts.submodules.transducer_decoding.rnnt_label_looping import (
    GreedyBatchedRNNTLabelLoopingComputer,
)
from nemo.collections.asr.parts.utils.rnnt_utils import batched_hyps_to_hypotheses
from torch import Tensor

from vrt.oracle.nemo_toy import Prefixes, ToyDecoder, ToyJoint
from vrt.rnnt.nbest import Hypothesis
from vrt.rnnt.toy import ToyScorer


class NormalisedJoint(ToyJoint):
    """On a CPU NeMo's joint gives log-probabilities, so its scores are sums of those."""

    def joint_after_projection(
        self, frames: Float[Tensor, "R 1 2"], numbers: Float[Tensor, "R 1 1"]
    ) -> Float[Tensor, "R 1 1 V"]:
        rows = super().joint_after_projection(frames, numbers)
        return rows.log_softmax(-1) if self.scorer.mode == "logits" else rows


@torch.no_grad()
def greedy_reference(
    scorer: ToyScorer,
    frames: Float[Tensor, "B T 2"],
    lengths: Int64[Tensor, "B"],
    max_symbols: int | None,
) -> list[Hypothesis]:
    """One hypothesis an utterance; `score` is that of its labels."""
    prefixes = Prefixes()
    search = GreedyBatchedRNNTLabelLoopingComputer(
        decoder=ToyDecoder(prefixes),
        joint=NormalisedJoint(scorer, prefixes),
        blank_index=scorer.blank,
        max_symbols_per_step=max_symbols,
        allow_cuda_graphs=False,
    )
    hyps, _ = search.torch_impl(frames, lengths)
    found = []
    for one in batched_hyps_to_hypotheses(hyps):
        tokens = tuple(int(v) for v in one.y_sequence)
        stamps = tuple(int(t) for t in one.timestamp)
        found.append(Hypothesis(tokens, one.score, one.score / (len(tokens) + 1), stamps))
    return found
