"""NeMo's own `malsd_batch` on a toy scorer, its arrays read after every iteration.

B utterances, K beam slots, V classes with blank last, T encoder frames. The search that runs is
the installed `ModifiedALSDBatchedRNNTComputer.modified_alsd_torch`; nothing in it is replaced but
`log_softmax`, for toys whose rows are log-probabilities already.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from types import FrameType, SimpleNamespace
from typing import Any

import torch
from jaxtyping import Float, Int64
from nemo.collections.asr.parts.submodules import rnnt_malsd_batched_computer as computer
from nemo.collections.asr.parts.utils.batched_beam_decoding_utils import BatchedBeamHyps
from nemo.collections.asr.parts.utils.rnnt_utils import Hypothesis as NemoHypothesis
from torch import Tensor

from vrt.oracle.nemo_toy import Prefixes, ToyDecoder, ToyFusion, ToyJoint
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.nbest import Hypothesis, NBest
from vrt.rnnt.toy import ToyScorer

LOOP = "modified_alsd_torch"
Groups = list[list[tuple[tuple[int, ...], tuple[int, ...]]]]


class OverrunError(RuntimeError):
    """NeMo was stopped; it raised nothing itself."""


@dataclass(frozen=True)
class NemoIteration:
    """One iteration: arrays [B, K] under the golden format's names, and the merged groups."""

    arrays: dict[str, Tensor]
    recombined: Groups


@dataclass(frozen=True)
class NemoAnswer:
    """What NeMo gave. `error` is the text of what it raised, with an empty rest."""

    error: str | None = None
    trace: list[NemoIteration] = field(default_factory=list)
    nbest_norm: list[NBest] = field(default_factory=list)
    nbest_raw: list[NBest] = field(default_factory=list)


def versions() -> dict[str, str]:
    return {"nemo": version("nemo_toolkit"), "torch": torch.__version__}


@torch.no_grad()
def reference(
    scorer: ToyScorer,
    frames: Float[Tensor, "B T 2"],
    lengths: Int64[Tensor, "B"],
    config: BeamConfig,
    limit: int = 10_000,
) -> NemoAnswer:
    """Search with NeMo. Of `config` it knows no ties, collisions or zero_length: its are fixed.

    Without `max_symbols` NeMo may go on for ever over dead slots: `limit` iterations are an error.
    """
    prefixes, hyps = Prefixes(), []
    try:
        search = computer.ModifiedALSDBatchedRNNTComputer(
            decoder=ToyDecoder(prefixes),
            joint=ToyJoint(scorer, prefixes),
            blank_index=scorer.blank,
            beam_size=config.beam_size,
            max_symbols_per_step=config.max_symbols,
            allow_cuda_graphs=False,
            **_fusion(config),
        )
        with _injected(scorer.mode == "logprob", hyps, limit):
            search.modified_alsd_torch(frames, lengths)
    except Exception as error:
        return NemoAnswer(f"{type(error).__name__}: {error}")
    (done,) = hyps
    return NemoAnswer(
        None, done.log.trace, done.ranked(score_norm=True), done.ranked(score_norm=False)
    )


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

    def recorder(
        batch_size: int,
        beam_size: int,
        init_length: int,
        blank_index: int,
        device: torch.device,
        float_dtype: torch.dtype,
    ) -> Recorder:
        size = batch_size, beam_size, init_length, blank_index
        made.append(Recorder(*size, device=device, float_dtype=float_dtype))
        made[-1].log = Log(limit)
        return made[-1]

    kept = computer.BatchedBeamHyps, computer.F
    computer.BatchedBeamHyps = recorder
    if log_probs:
        computer.F = SimpleNamespace(log_softmax=lambda rows, dim, dtype: rows.to(dtype))
    try:
        yield
    finally:
        computer.BatchedBeamHyps, computer.F = kept


@dataclass
class Log:
    """Iterations that have ended, and the one that is under way."""

    limit: int
    trace: list[NemoIteration] = field(default_factory=list)
    step: dict[str, Tensor] = field(default_factory=dict)
    groups: Groups = field(default_factory=list)

    def note(self, step: dict[str, Tensor]) -> None:
        """Copies: NeMo writes over its arrays."""
        self.step |= {name: values.clone() for name, values in step.items()}

    def close(self, loop: dict[str, Any]) -> None:
        """The iteration before, now that the last lines of the loop have run."""
        if self.step:
            names = {"time_index": "time_indices", "safe_time_index": "safe_time_indices"}
            names["active"] = "active_mask"
            self.note({name: loop[variable] for name, variable in names.items()})
            self.trace.append(NemoIteration(self.step, self.groups))
            self.step = {}
        if len(self.trace) >= self.limit:
            raise OverrunError(f"NeMo has not ended after {self.limit} iterations")


class Recorder(BatchedBeamHyps):
    """NeMo's hypotheses with a memory. The loop's own variables are read where it calls here."""

    log: Log

    def add_results_no_checks_(
        self,
        next_indices: Int64[Tensor, "B K"],
        next_labels: Int64[Tensor, "B K"],
        next_hyps_prob: Float[Tensor, "B K"],
        next_label_durations: Tensor | None = None,
    ) -> None:
        loop = _loop()
        self.log.close(loop)
        super().add_results_no_checks_(next_indices, next_labels, next_hyps_prob)
        column = self.current_lengths_wb[:, :1, None].expand(-1, self.beam_size, 1) - 1
        self.log.note(
            {
                "forced_blank_parent": loop["force_blank"],
                "parent": loop["hyps_indices"],
                "label": loop["next_labels"],
                "score_pruned": self.scores,
                "step_timestamp": self.timestamps.gather(-1, column).squeeze(-1),
            }
        )

    def recombine_hyps_(self) -> None:
        alive = self.scores > -torch.inf
        keys = (self.transcript_hash, self.last_label, self.current_lengths_nb)
        super().recombine_hyps_()
        after = (self.scores > -torch.inf).tolist()
        self.log.groups = [
            _groups([tuple(int(key[b, k]) for key in keys) for k in range(self.beam_size)], *rows)
            for b, rows in enumerate(zip(alive.tolist(), after, strict=True))
        ]
        self.log.note(
            {
                "score": self.scores,
                "alive": self.scores > -torch.inf,
                "last_label": self.last_label,
                "length_nonblank": self.current_lengths_nb,
                "length_with_blank": self.current_lengths_wb,
                "symbols_at_time": self.last_timestamp_lasts,
                "next_timestamp": self.next_timestamp,
                "hash": self.transcript_hash,
            }
        )

    def get_last_labels(self, pad_id: int = -1) -> Tensor:
        """Called once, right after the loop."""
        self.log.close(_loop())
        return super().get_last_labels(pad_id)

    def ranked(self, score_norm: bool) -> list[NBest]:
        """NeMo's own n-best lists, read off a copy."""
        batch = self.clone().to_nbest_hyps_list(score_norm=score_norm)
        return [NBest(_hypothesis(h) for h in one.n_best_hypotheses) for one in batch]


def _loop() -> dict[str, Any]:
    """Variables of the running search."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != LOOP:
        frame = frame.f_back
    if frame is None:
        raise RuntimeError(f"NeMo {version('nemo_toolkit')} has no function {LOOP}; 3.0.0 has")
    return frame.f_locals


def _groups(
    keys: list[tuple[int, ...]], alive: list[bool], after: list[bool]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Living slots of one key, two or more, and those of them that are alive afterwards."""
    slots: dict[tuple[int, ...], list[int]] = {}
    for k, key in enumerate(keys):
        if alive[k]:
            slots.setdefault(key, []).append(k)
    several = [tuple(group) for group in slots.values() if len(group) > 1]
    return [(group, tuple(k for k in group if after[k])) for group in several]


def _hypothesis(found: NemoHypothesis) -> Hypothesis:
    tokens = tuple(int(v) for v in found.y_sequence)
    stamps = tuple(int(t) for t in found.timestamp)
    score = float(found.score)
    return Hypothesis(tokens, score, score / (len(tokens) + 1), stamps)
