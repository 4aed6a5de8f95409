"""NeMo's own predictor, joint, `malsd_batch` and `greedy_batch`, with the weights of ours.

    search = NemoBeam(transducer, BeamConfig(beam_size=8))
    nbests = search(encoder_output, lengths)

B utterances, T encoder frames, E encoder width.
"""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from nemo.collections.asr.modules.rnnt import RNNTDecoder, RNNTJoint
from nemo.collections.asr.parts.submodules.rnnt_malsd_batched_computer import (
    ModifiedALSDBatchedRNNTComputer,
)
from nemo.collections.asr.parts.submodules.transducer_decoding.rnnt_label_looping import (
    GreedyBatchedRNNTLabelLoopingComputer,
)
from nemo.collections.asr.parts.utils.rnnt_utils import Hypothesis as NemoHypothesis
from nemo.collections.asr.parts.utils.rnnt_utils import batched_hyps_to_hypotheses
from torch import Tensor

from vrt.oracle.nemo_toy import ToyFusion
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.model import Transducer
from vrt.rnnt.nbest import Hypothesis, NBest
from vrt.rnnt.weights import settings_nemo, state_dict_nemo


def nemo_modules(transducer: Transducer) -> tuple[RNNTDecoder, RNNTJoint]:
    """Built from the settings that an archive would hold, and loaded strictly; in evaluation
    mode, with copies of the weights."""
    settings, weights = settings_nemo(transducer.config), state_dict_nemo(transducer)
    parts = []
    for part, kind in (("decoder", RNNTDecoder), ("joint", RNNTJoint)):
        given = {key: value for key, value in settings[part].items() if key != "_target_"}
        module = kind(**given)
        module.load_state_dict(below(weights, part), strict=True)
        parts.append(module.to(next(iter(weights.values()))).eval())
    return parts[0], parts[1]


def below(weights: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """The tensors of one part under the names inside it."""
    named = weights.items()
    return {n.removeprefix(f"{part}."): t for n, t in named if n.startswith(f"{part}.")}


class NemoBeam:
    """`malsd_batch` on real networks, built once and called often. Of the configuration it knows
    no ties, collisions or zero_length: its are fixed."""

    def __init__(self, transducer: Transducer, config: BeamConfig):
        self.config = config
        self.decoder, self.joint = nemo_modules(transducer)
        self.computer = ModifiedALSDBatchedRNNTComputer(
            decoder=self.decoder,
            joint=self.joint,
            blank_index=transducer.config.blank,
            beam_size=config.beam_size,
            max_symbols_per_step=config.max_symbols,
            allow_cuda_graphs=False,
            **_fusion(config),
        )

    @torch.no_grad()
    def __call__(
        self, encoder_output: Float[Tensor, "B T E"], lengths: Int[Tensor, "B"]
    ) -> list[NBest]:
        """All living hypotheses of each utterance, ranked as the configuration asks."""
        hyps, _ = self.computer.modified_alsd_torch(encoder_output, lengths.long())
        batch = hyps.to_nbest_hyps_list(score_norm=self.config.score_norm)
        return [NBest(_hypothesis(found) for found in one.n_best_hypotheses) for one in batch]


class NemoGreedy:
    """`greedy_batch` (label looping) on real networks, built once and called often."""

    def __init__(self, transducer: Transducer, max_symbols: int | None = 10):
        self.decoder, self.joint = nemo_modules(transducer)
        self.computer = GreedyBatchedRNNTLabelLoopingComputer(
            decoder=self.decoder,
            joint=self.joint,
            blank_index=transducer.config.blank,
            max_symbols_per_step=max_symbols,
            allow_cuda_graphs=False,
        )

    @torch.no_grad()
    def __call__(
        self, encoder_output: Float[Tensor, "B T E"], lengths: Int[Tensor, "B"]
    ) -> list[Hypothesis]:
        hyps, _ = self.computer.torch_impl(encoder_output, lengths.long())
        return [_hypothesis(found) for found in batched_hyps_to_hypotheses(hyps)]


def _fusion(config: BeamConfig) -> dict[str, Any]:
    if not config.fusion:
        return {}
    return {
        "fusion_models": [ToyFusion(part.model) for part in config.fusion],
        "fusion_models_alpha": [part.alpha for part in config.fusion],
        "pruning_mode": config.pruning_mode,
        "blank_lm_score_mode": config.blank_lm_score_mode,
    }


def _hypothesis(found: NemoHypothesis) -> Hypothesis:
    tokens = tuple(int(token) for token in found.y_sequence)
    stamps = tuple(int(frame) for frame in found.timestamp)
    score = float(found.score)
    return Hypothesis(tokens, score, score / (len(tokens) + 1), stamps)
