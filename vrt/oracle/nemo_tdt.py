"""NeMo's own TDT searches, `malsd_batch` and `greedy_batch`, on a toy or on NeMo's own networks.

B utterances, K beam slots, V classes with blank last, D durations, T encoder frames, E frame width,
R rows. The searches that run are the installed `ModifiedALSDBatchedTDTComputer.modified_alsd_torch`
and `GreedyBatchedTDTLabelLoopingComputer.torch_impl`; nothing in them is replaced but
`log_softmax`, for toys whose rows are log-probabilities already.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from jaxtyping import Float, Int64
from nemo.collections.asr.modules.rnnt import RNNTDecoder, RNNTJoint
from nemo.collections.asr.parts.submodules import tdt_malsd_batched_computer as computer
from nemo.collections.asr.parts.submodules.transducer_decoding.tdt_label_looping import (
    GreedyBatchedTDTLabelLoopingComputer,
)
from nemo.collections.asr.parts.utils.batched_beam_decoding_utils import BatchedBeamHyps
from nemo.collections.asr.parts.utils.rnnt_utils import Hypothesis as NemoHypothesis
from nemo.collections.asr.parts.utils.rnnt_utils import batched_hyps_to_hypotheses
from torch import Tensor

from vrt.oracle.nemo import OverrunError
from vrt.oracle.nemo_model import nemo_modules
from vrt.oracle.nemo_toy import Prefixes, ToyDecoder, ToyFusion
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.model import Transducer
from vrt.rnnt.nbest import Hypothesis, NBest
from vrt.rnnt.tdt_toy import ToyDurationScorer


@dataclass(frozen=True)
class TdtAnswer:
    """What NeMo gave: arrays [B, K] after every iteration, and its n-best lists by both rankings.
    `error` is the text of what it raised, with an empty rest."""

    error: str | None = None
    trace: list[dict[str, Tensor]] = field(default_factory=list)
    nbest_norm: list[NBest] = field(default_factory=list)
    nbest_raw: list[NBest] = field(default_factory=list)


@dataclass(frozen=True)
class Networks:
    """A prediction network and a joint in the shape in which NeMo's searches take them.

    `log_probs`: rows are log-probabilities already, and stay as they are. NeMo's own joint gives on
    a CPU the log-softmax over classes and durations together.
    """

    decoder: RNNTDecoder | ToyDecoder
    joint: "RNNTJoint | ToyDurationJoint"
    durations: tuple[int, ...]
    blank: int
    log_probs: bool = False

    @classmethod
    def toy(cls, scorer: ToyDurationScorer) -> "Networks":
        """Its joint normalises rows of logits itself, each part apart, so that greedy scores can
        be compared."""
        prefixes = Prefixes()
        joint = ToyDurationJoint(scorer, prefixes)
        ready = scorer.labels.mode == "logprob"
        return cls(ToyDecoder(prefixes), joint, scorer.durations, scorer.blank, ready)

    @classmethod
    def of(cls, transducer: Transducer) -> "Networks":
        """NeMo's own modules with the weights of a TDT model of ours."""
        decoder, joint = nemo_modules(transducer)
        return cls(decoder, joint, transducer.config.durations, transducer.config.blank)


class ToyDurationJoint:
    """Projections change nothing; the joint looks both rows up."""

    def __init__(self, scorer: ToyDurationScorer, prefixes: Prefixes) -> None:
        self.scorer, self.prefixes = scorer, prefixes
        self.num_extra_outputs = len(scorer.durations)
        self.num_classes_with_blank = scorer.vocab + self.num_extra_outputs

    def project_encoder(self, frames: Float[Tensor, "B T 2"]) -> Float[Tensor, "B T 2"]:
        return frames

    def project_prednet(self, numbers: Float[Tensor, "R 1 1"]) -> Float[Tensor, "R 1 1"]:
        return numbers

    def joint_after_projection(
        self, frames: Float[Tensor, "R 1 2"], numbers: Float[Tensor, "R 1 1"]
    ) -> Float[Tensor, "R 1 1 outputs"]:
        state = [self.prefixes.known[n] for n in numbers.flatten().long().tolist()]
        return torch.cat(self.scorer.log_probs(frames[:, 0], state), dim=-1)[:, None, None]


@torch.no_grad()
def tdt_reference(
    networks: Networks,
    frames: Float[Tensor, "B T E"],
    lengths: Int64[Tensor, "B"],
    config: BeamConfig,
    limit: int = 10_000,
) -> TdtAnswer:
    """Search with NeMo. Of `config` it knows no ties, collisions or zero_length: its are fixed.

    Without `max_symbols` NeMo may go on for ever over dead slots: `limit` iterations are an error.
    """
    made: list[Recorder] = []
    try:
        search = computer.ModifiedALSDBatchedTDTComputer(
            decoder=networks.decoder,
            joint=networks.joint,
            durations=list(networks.durations),
            blank_index=networks.blank,
            beam_size=config.beam_size,
            max_symbols_per_step=config.max_symbols,
            allow_cuda_graphs=False,
            **_fusion(config),
        )
        with _injected(networks.log_probs, made, limit):
            search.modified_alsd_torch(frames, lengths)
    except Exception as error:
        return TdtAnswer(f"{type(error).__name__}: {error}")
    (done,) = made
    return TdtAnswer(None, done.trace, done.ranked(score_norm=True), done.ranked(score_norm=False))


@torch.no_grad()
def tdt_greedy_reference(
    networks: Networks,
    frames: Float[Tensor, "B T E"],
    lengths: Int64[Tensor, "B"],
    max_symbols: int | None,
) -> list[Hypothesis]:
    """One hypothesis an utterance; `score` sums up what the joint gave its labels."""
    search = GreedyBatchedTDTLabelLoopingComputer(
        decoder=networks.decoder,
        joint=networks.joint,
        blank_index=networks.blank,
        durations=list(networks.durations),
        max_symbols_per_step=max_symbols,
        include_duration=True,
        allow_cuda_graphs=False,
    )
    hyps, _ = search.torch_impl(frames, lengths)
    return [_hypothesis(one) for one in batched_hyps_to_hypotheses(hyps)]


def _fusion(config: BeamConfig) -> dict[str, Any]:
    if not config.fusion:
        return {}
    return {
        "fusion_models": [ToyFusion(part.model) for part in config.fusion],
        "fusion_models_alpha": [part.alpha for part in config.fusion],
        "pruning_mode": config.pruning_mode,
        "blank_lm_score_mode": config.blank_lm_score_mode,
    }


@contextmanager
def _injected(log_probs: bool, made: list["Recorder"], limit: int) -> Iterator[None]:
    """NeMo's hypotheses record themselves; rows that are log-probabilities stay as they are."""
    kept = computer.BatchedBeamHyps, computer.F
    computer.BatchedBeamHyps = partial(Recorder, made, limit)
    if log_probs:
        computer.F = SimpleNamespace(log_softmax=lambda rows, dim, dtype: rows.to(dtype))
    try:
        yield
    finally:
        computer.BatchedBeamHyps, computer.F = kept


class Recorder(BatchedBeamHyps):
    """NeMo's hypotheses with a memory. Copies: NeMo writes over its arrays."""

    def __init__(
        self,
        made: list["Recorder"],
        limit: int,
        batch_size: int,
        beam_size: int,
        init_length: int,
        blank_index: int,
        device: torch.device,
        float_dtype: torch.dtype,
        model_type: str,
    ) -> None:
        size = batch_size, beam_size, init_length, blank_index
        super().__init__(*size, device=device, float_dtype=float_dtype, model_type=model_type)
        made.append(self)
        self.limit = limit
        self.trace: list[dict[str, Tensor]] = []

    def add_results_no_checks_(
        self,
        next_indices: Int64[Tensor, "B K"],
        next_labels: Int64[Tensor, "B K"],
        next_hyps_prob: Float[Tensor, "B K"],
        next_label_durations: Tensor | None = None,
    ) -> None:
        if len(self.trace) >= self.limit:
            raise OverrunError(f"NeMo has not ended after {self.limit} iterations")
        super().add_results_no_checks_(
            next_indices, next_labels, next_hyps_prob, next_label_durations
        )
        step = {"parent": next_indices, "label": next_labels, "score_pruned": next_hyps_prob}
        self.trace.append({name: values.clone() for name, values in step.items()})

    def recombine_hyps_(self) -> None:
        super().recombine_hyps_()
        step = {
            "score": self.scores,
            "last_label": self.last_label,
            "length_nonblank": self.current_lengths_nb,
            "symbols_at_time": self.last_timestamp_lasts,
            "time_index": self.next_timestamp,
            "hash": self.transcript_hash,
        }
        self.trace[-1] |= {name: values.clone() for name, values in step.items()}

    def ranked(self, score_norm: bool) -> list[NBest]:
        """NeMo's own n-best lists, read off a copy."""
        kept = BatchedBeamHyps.clone(self)
        batch = kept.to_nbest_hyps_list(score_norm=score_norm)
        return [NBest(_hypothesis(h) for h in one.n_best_hypotheses) for one in batch]


def _hypothesis(found: NemoHypothesis) -> Hypothesis:
    tokens, stamps, durations = (
        tuple(int(v) for v in part)
        for part in (found.y_sequence, found.timestamp, found.token_duration)
    )
    score, norm = float(found.score), float(found.score) / (len(tokens) + 1)
    return Hypothesis(tokens, score, norm, stamps, durations=durations)
