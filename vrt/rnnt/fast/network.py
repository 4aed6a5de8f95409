"""Predictor rows of a transducer, and the K best labels after each, on buffers of its own.

C rows kept, R rows asked for, B utterances, T encoder frames, V classes, H predictor width, J joint
width, L LSTM layers, G = 4H gates.

The part of a label's gates that comes from the prefix before it (`again`) is the same for all
labels: it is computed once a prefix, with the first label that follows.
"""

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from vrt.rnnt.config import BeamConfig, BeamError
from vrt.rnnt.fast import network_kernels, network_plain
from vrt.rnnt.fast.fused import FusionRows
from vrt.rnnt.fast.jit import COMPILED
from vrt.rnnt.fast.packed import PackedScorer
from vrt.rnnt.fast.scored import best_of, refuse_undefined
from vrt.rnnt.fast.slots import Best

ACTIVATIONS = {"relu": network_kernels.RELU, "tanh": network_kernels.TANH}
ACTIVATIONS["sigmoid"] = network_kernels.SIGMOID


class NetworkRows:
    """`Rows` of a packed transducer."""

    def __init__(self, model: PackedScorer, config: BeamConfig, compiled: bool = COMPILED):
        self.model, self.config = model, config
        self.activation = ACTIVATIONS[model.activation]
        self.kernels = network_kernels if compiled else network_plain
        self._fusion: FusionRows | None = None

    def start(self, count: int) -> None:
        model = self.model
        self.h = np.zeros((len(model.again), count, model.width), dtype=np.float32)
        self.c = np.zeros_like(self.h)
        self.again = np.zeros((len(model.again), count, 4 * model.width), dtype=np.float32)
        self.again_known = np.zeros(count, dtype=bool)
        self.predicted = np.zeros((count, model.joint_width), dtype=np.float32)
        self._first = np.zeros(count, dtype=np.int64)
        # Row 1 holds nothing yet: zeros, fed the start symbol.
        self.again_known[1] = True
        first, before = np.array([0]), np.array([1])
        self._feed(first, before, np.array([model.blank]))
        if self.config.fusion:
            self._fusion = FusionRows(self.config, count, torch.float32)

    def compute(
        self,
        rows: Int64[np.ndarray, "n"],
        parents: Int64[np.ndarray, "n"],
        labels: Int64[np.ndarray, "n"],
    ) -> None:
        self._feed(rows, parents, labels)
        if self._fusion is not None:
            self._fusion.compute(rows, parents, labels)

    def _feed(
        self,
        rows: Int64[np.ndarray, "n"],
        parents: Int64[np.ndarray, "n"],
        labels: Int64[np.ndarray, "n"],
    ) -> None:
        count = network_kernels.first_children(parents, self.again_known, self._first)
        if count:
            first = self._first[:count]
            for product, h, again in zip(self.model.again, self.h, self.again, strict=True):
                again[first] = product(h[first])
        x = np.empty((len(rows), self.model.width), dtype=np.float32)
        for product, again, c, h in zip(self.model.enter, self.again, self.c, self.h, strict=True):
            gates = self.model.table[labels] if product is None else product(x)
            self.kernels.cell(gates, again, c, h, rows, parents, x)
        self.again_known[rows] = False
        self.predicted[rows] = self.model.pred(x)

    def best(
        self,
        rows: Int64[np.ndarray, "R"],
        frames: Float32[Tensor, "B T J"],
        utterances: Int64[np.ndarray, "R"],
        places: Int64[np.ndarray, "R"],
    ) -> Best:
        width = self.model.joint_width
        if frames.shape[-1] != width:
            raise BeamError(
                f"frames are {frames.shape[-1]} wide, the joint takes {width}: give those that"
                " scorer.project makes of the encoder's output"
            )
        hidden = np.empty((len(rows), width), dtype=np.float32)
        self.kernels.hidden(
            frames.numpy(), utterances, places, self.predicted, rows, self.activation, hidden
        )
        logits = self.model.output(hidden)
        if self._fusion is not None:
            log_probs = torch.from_numpy(logits).log_softmax(-1)
            return best_of(log_probs, rows, self._fusion, self.config, self.model.blank)
        best = Best.room(len(rows), self.config.beam_size, np.dtype("float32"))
        undefined = self.kernels.following(logits, self.model.blank, best)
        if undefined >= 0:
            refuse_undefined(torch.from_numpy(logits).log_softmax(-1))
        return best
