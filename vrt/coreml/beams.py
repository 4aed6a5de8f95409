"""A whole beam search with a package as the scorer, against the same search by torch.

K rows, T encoder frames, J joint width. A package that is a part of the step (predictor, or joint)
is completed by torch's other part. Every answer is fed back, so an error would grow.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64
from numpy import ndarray
from torch import Tensor

from vrt.coreml.contract import Contract
from vrt.coreml.golden_vectors import GAP
from vrt.coreml.interpret import Interpreter
from vrt.coreml.package import Package
from vrt.coreml.scorer import Beam, CoreMLScorer, FusedScorer
from vrt.rnnt import BeamConfig, ModelScorer, malsd
from vrt.rnnt.model import Transducer
from vrt.rnnt.predictor import LSTMState
from vrt.rnnt.scorer import Scorer
from vrt.rnnt.trace import Iteration

STEPS = 100  # encoder frames; an iteration reads at most one, so there are as many or more
MAX_SYMBOLS = 1  # labels a frame, then blank is forced, in the K best or not
Call = Callable[[dict[str, ndarray]], dict[str, ndarray]]


@dataclass(frozen=True)
class BeamResult:
    """`differs` is the first iteration with another parent or label, None if there is none, and
    `gap` the largest difference of the scores that were chosen there: up to `GAP` it was a tie.

    `score` is the largest difference of a hypothesis's score, where the hypotheses are the same.
    """

    function: str
    rows: int
    iterations: int
    differs: int | None
    gap: float
    same_hypotheses: bool
    score: float

    @property
    def ok(self) -> bool:
        return self.same_hypotheses and (self.differs is None or self.gap <= GAP)

    def __str__(self) -> str:
        size = f"{self.iterations} iterations x {self.rows} rows"
        if self.differs is None:
            steps = "every parent and label as torch's"
        elif self.gap <= GAP:
            steps = f"as torch's but for a tie of {self.gap:.1g} at iteration {self.differs}"
        else:
            steps = f"parts from torch at iteration {self.differs}, by {self.gap:.2g}"
        if not self.same_hypotheses:
            return f"{size}: {steps}; other hypotheses"
        return f"{size}: {steps}; the same hypotheses, scores within {self.score:.2g}"


@dataclass(frozen=True)
class InDoubles:
    """A scorer whose log-probabilities are summed in float64: sums add no ties of their own."""

    inner: Scorer

    @property
    def vocab(self) -> int:
        return self.inner.vocab

    @property
    def blank(self) -> int:
        return self.inner.blank

    def start(self, rows: int) -> object:
        return self.inner.start(rows)

    def log_probs(self, frames: Float[Tensor, "R J"], state: object) -> Float[Tensor, "R V"]:
        return self.inner.log_probs(frames.float(), state).double()

    def advance(
        self, state: object, parents: Int64[Tensor, "R"], labels: Int64[Tensor, "R"]
    ) -> object:
        return self.inner.advance(state, parents, labels)


def same_beam(
    package: Package, contract: Contract, function: str, model: Transducer, seed: int = 0
) -> BeamResult:
    """Search random frames of one utterance, twice."""
    beam = Beam.of(contract, function)
    generator = torch.Generator().manual_seed(seed)
    encoded = torch.randn(1, STEPS, model.config.encoder_width, generator=generator)
    truth = ModelScorer(model)
    frames = truth.project(encoded).double()
    config = BeamConfig(beam_size=beam.rows, max_symbols=MAX_SYMBOLS)
    answers, traces = [], []
    for scorer in (truth, _scorer(package, contract, function, model, beam)):
        trace: list[Iteration] = []
        lengths = torch.tensor([STEPS])
        answers.append(malsd(InDoubles(scorer), frames, lengths, config, trace.append)[0])
        traces.append(trace)
    differs = next((i for i, pair in enumerate(zip(*traces, strict=False)) if _parts(*pair)), None)
    if differs is None and len(traces[0]) != len(traces[1]):
        differs = min(map(len, traces)) - 1
    expected, got = ([(h.tokens, h.timestamps) for h in a] for a in answers)
    scores = [abs(a.score - b.score) for a, b in zip(*answers, strict=False)]
    return BeamResult(
        function=function,
        rows=beam.rows,
        iterations=len(traces[0]),
        differs=differs,
        gap=0.0 if differs is None else _gap(traces[0][differs], traces[1][differs]),
        same_hypotheses=expected == got,
        score=max(scores, default=0.0),
    )


def _gap(a: Iteration, b: Iteration) -> float:
    """Where as many slots are alive, how far the chosen scores are apart, place by place."""
    alive = torch.isfinite(a.score_pruned)
    if not torch.equal(alive, torch.isfinite(b.score_pruned)):
        return float("inf")
    off = (a.score_pruned - b.score_pruned)[alive].abs()
    return float(off.max()) if len(off) else 0.0


def _parts(a: Iteration, b: Iteration) -> bool:
    """Dead slots may come from anywhere."""
    alive = torch.isfinite(a.score_pruned)
    if not torch.equal(alive, torch.isfinite(b.score_pruned)):
        return True
    return bool(((a.parent != b.parent) | (a.label != b.label))[alive].any())


def _scorer(
    package: Package, contract: Contract, function: str, model: Transducer, beam: Beam
) -> Scorer:
    call: Call = Interpreter(package, function).predict
    if contract.kind == "fused":
        return FusedScorer(beam, call, contract.sizes["J"])
    if contract.kind == "predictor":
        return CoreMLScorer(beam, call, _torch_joint(model))
    return CoreMLScorer(beam, _torch_predictor(model), call)


def _torch_joint(model: Transducer) -> Call:
    @torch.no_grad()
    def call(feeds: Mapping[str, ndarray]) -> dict[str, ndarray]:
        frames, predicted = (torch.from_numpy(np.array(feeds[n])) for n in ("frames", "predicted"))
        return {"logits": model.joint.joint(frames, predicted).numpy()}

    return call


def _torch_predictor(model: Transducer) -> Call:
    @torch.no_grad()
    def call(feeds: Mapping[str, ndarray]) -> dict[str, ndarray]:
        labels, h, c = (torch.from_numpy(np.array(feeds[n])) for n in ("labels", "h_in", "c_in"))
        out, after = model.decoder.step(labels.long(), LSTMState(h, c))
        predicted = model.joint.project_predictor(out).numpy()
        return {"predicted": predicted, "h_out": after.h.numpy(), "c_out": after.c.numpy()}

    return call
