"""Parts of an iteration at one row and at eight: batching, outputs asked for, calls fused.

R rows, V classes, J joint width. Eight rows in one call are compared with eight calls of one row,
all log-probabilities with the K best alone, and predictor and joint apart with one traced graph.
"""

import warnings
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from vrt.bench.beam_arms import Problem
from vrt.bench.timing import interleaved
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.fast.network import NetworkRows
from vrt.rnnt.fast.slots import Best
from vrt.rnnt.model import Transducer
from vrt.rnnt.predictor import LSTMState

ROWS = (1, 8)
BEST = 8  # of the K best
CALLS = 20  # in one timing: a call takes less than a clock resolves well
Part = Callable[[], object]


class Transition(nn.Module):
    """Predictor, its projection, joint, log-softmax and the K best, as one graph."""

    def __init__(self, model: Transducer):
        super().__init__()
        self.model = model

    def forward(
        self,
        labels: Int64[Tensor, "R"],
        h: Float[Tensor, "L R H"],
        c: Float[Tensor, "L R H"],
        frames: Float[Tensor, "R J"],
    ) -> tuple[Tensor, ...]:
        joint = self.model.joint
        out, state = self.model.decoder.step(labels, LSTMState(h, c))
        predicted = joint.project_predictor(out)
        values, found = joint.joint(frames, predicted).log_softmax(-1).topk(BEST)
        return values, found, predicted, state.h, state.c


def measured_parts(problem: Problem, repeats: int) -> dict[str, Any]:
    """Milliseconds a call of each part; those of one group took turns."""
    groups = (_predictor, _joint, _outputs, _fused)
    found: dict[str, Any] = {}
    for group in groups:
        parts = {name: _many(part) for name, part in group(problem).items()}
        for name, timing in interleaved(parts, repeats).items():
            spread = asdict(timing.cpu_ms).items()
            found[name] = {f"cpu_{which}_ms": value / CALLS for which, value in spread}
    return found


def _many(part: Part) -> Part:
    def calls() -> None:
        for _ in range(CALLS):
            part()

    return calls


def _predictor(problem: Problem) -> dict[str, Part]:
    """nn.LSTM as it is, and with weights packed once. New rows of the packed predictor continue a
    prefix that nothing has continued before: its own matrices are read too."""
    decoder = problem.model.decoder
    kept = NetworkRows(problem.scorer, BeamConfig(BEST))
    kept.start(4 * BEST)
    parts: dict[str, Part] = {}
    for rows in ROWS:
        labels, state = torch.arange(rows), decoder.initial(rows)
        places = np.arange(rows) + 2

        def module(labels: Tensor = labels, state: LSTMState = state) -> object:
            return decoder.step(labels, state)

        def packed(places: np.ndarray = places) -> None:
            kept.again_known[places] = False
            kept.compute(places + BEST, places, np.arange(len(places)))

        parts[f"predictor, {rows} rows, nn.LSTM"] = module
        parts[f"predictor, {rows} rows, packed"] = packed
    return parts


def _joint(problem: Problem) -> dict[str, Part]:
    joint, packed = problem.model.joint, problem.scorer
    parts: dict[str, Part] = {}
    for rows in ROWS:
        hidden = torch.randn(rows, packed.joint_width).relu()
        parts[f"joint output, {rows} rows, nn.Linear"] = partial(joint.output, hidden)
        parts[f"joint output, {rows} rows, packed"] = partial(packed.output, hidden.numpy())
    return parts


def _outputs(problem: Problem) -> dict[str, Part]:
    """All V log-probabilities, torch's K best of them, and the K best without the others."""
    kept = NetworkRows(problem.scorer, BeamConfig(BEST))
    logits, blank = torch.randn(BEST, problem.scorer.vocab), problem.scorer.blank
    best = Best.room(BEST, BEST, np.dtype("float32"))
    return {
        "8 rows, log_softmax": lambda: logits.log_softmax(-1),
        "8 rows, log_softmax and topk": lambda: logits.log_softmax(-1).topk(BEST),
        "8 rows, the best of the logits": lambda: kept.kernels.following(
            logits.numpy(), blank, best
        ),
    }


def _fused(problem: Problem) -> dict[str, Part]:
    transition = Transition(problem.model)
    state = problem.model.decoder.initial(BEST)
    given = torch.arange(BEST), state.h, state.c, torch.randn(BEST, problem.scorer.joint_width)
    with warnings.catch_warnings():  # torch says that its new compilers are to be preferred
        warnings.simplefilter("ignore")
        graph = torch.jit.freeze(torch.jit.trace(transition, given, check_trace=False).eval())
    return {
        "8 rows, predictor and joint apart": lambda: transition(*given),
        "8 rows, one traced graph": lambda: graph(*given),
    }
