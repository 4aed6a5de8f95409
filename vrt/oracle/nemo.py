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
) -> NemoAnswer:
    """Search with NeMo. Of `config` it knows no ties, collisions or zero_length: its are fixed."""
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
        with _injected(scorer.mode == "logprob", hyps):
            search.modified_alsd_torch(frames, lengths)
    except Exception as error:
        return NemoAnswer(f"{type(error).__name__}: {error}")
    (done,) = hyps
    return NemoAnswer(None, done.trace, done.ranked(score_norm=True), done.ranked(score_norm=False))


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
def _injected(log_probs: bool, made: list["Recorder"]) -> Iterator[None]:
    """NeMo's hypotheses record themselves; rows that are log-probabilities stay as they are."""

    def recorder(*args: Any, **options: Any) -> Recorder:
        made.append(Recorder(*args, **options))
        return made[-1]

    kept = computer.BatchedBeamHyps, computer.F
    computer.BatchedBeamHyps = recorder
    if log_probs:
        computer.F = SimpleNamespace(log_softmax=lambda rows, dim, dtype: rows.to(dtype))
    try:
        yield
    finally:
        computer.BatchedBeamHyps, computer.F = kept


class Recorder(BatchedBeamHyps):
    """NeMo's hypotheses with a memory. The loop's own variables are read where it calls here."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.trace: list[NemoIteration] = []
        self._step: dict[str, Tensor] = {}
        self._groups: Groups = []

    def add_results_no_checks_(self, *args: Any, **options: Any) -> None:
        loop = _loop()
        self._close(loop)
        super().add_results_no_checks_(*args, **options)
        column = self.current_lengths_wb[:, :1, None].expand(-1, self.beam_size, 1) - 1
        self._step = {
            "forced_blank_parent": loop["force_blank"],
            "parent": loop["hyps_indices"],
            "label": loop["next_labels"],
            "score_pruned": self.scores,
            "step_timestamp": self.timestamps.gather(-1, column).squeeze(-1),
        }
        self._keep()

    def recombine_hyps_(self) -> None:
        alive = self.scores > -torch.inf
        keys = (self.transcript_hash, self.last_label, self.current_lengths_nb)
        super().recombine_hyps_()
        after = (self.scores > -torch.inf).tolist()
        self._groups = [
            _groups([tuple(int(key[b, k]) for key in keys) for k in range(self.beam_size)], *rows)
            for b, rows in enumerate(zip(alive.tolist(), after, strict=True))
        ]
        self._step |= {
            "score": self.scores,
            "alive": self.scores > -torch.inf,
            "last_label": self.last_label,
            "length_nonblank": self.current_lengths_nb,
            "length_with_blank": self.current_lengths_wb,
            "symbols_at_time": self.last_timestamp_lasts,
            "next_timestamp": self.next_timestamp,
            "hash": self.transcript_hash,
        }
        self._keep()

    def get_last_labels(self, pad_id: int = -1) -> Tensor:
        """Called once, right after the loop."""
        self._close(_loop())
        return super().get_last_labels(pad_id)

    def ranked(self, score_norm: bool) -> list[NBest]:
        """NeMo's own n-best lists, read off a copy."""
        batch = self.clone().to_nbest_hyps_list(score_norm=score_norm)
        return [NBest(_hypothesis(h) for h in one.n_best_hypotheses) for one in batch]

    def _close(self, loop: dict[str, Any]) -> None:
        """The iteration before, now that its last lines have run."""
        if not self._step:
            return
        self._step |= {
            "time_index": loop["time_indices"],
            "safe_time_index": loop["safe_time_indices"],
            "active": loop["active_mask"],
        }
        self._keep()
        self.trace.append(NemoIteration(self._step, self._groups))
        self._step = {}

    def _keep(self) -> None:
        self._step = {name: values.clone() for name, values in self._step.items()}


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
