"""Core ML packages as a `Scorer`: the host gathers states, two graphs or one do the rest.

K rows (beam slots), N candidates a row, V classes with blank last, J joint width, H predictor
width, L LSTM layers. All of a beam goes through one call, never a call a hypothesis.

A tail `topk` gives N classes of a row and blank; all others are -inf here. The beam search keeps
no more than that, so nothing is lost where its beam size is at most N; fusion that is weighed in
before pruning (`pruning_mode="late"`) needs a package with `--tail logits`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int64
from numpy import ndarray
from torch import Tensor

from vrt.coreml.contract import Contract, FunctionContract
from vrt.coreml.errors import CoreMLError

# One call of a package's function: inputs by name, outputs by name. `vrt.coreml.runners` has the
# interpreter's (any machine) and Core ML's own (a Mac).
Runner = Callable[[dict[str, ndarray]], dict[str, ndarray]]


class HostState(NamedTuple):
    """A predictor's state and output on the host, one row a hypothesis."""

    h: Float32[ndarray, "L K H"]
    c: Float32[ndarray, "L K H"]
    predicted: Float32[ndarray, "K J"]

    def rows(self, index: Int64[ndarray, "K"]) -> "HostState":
        """Copies of these rows, in this order."""
        return HostState(self.h[:, index], self.c[:, index], self.predicted[index])


@dataclass(frozen=True)
class Beam:
    """What a search has to know of a package."""

    rows: int  # K
    vocab: int
    blank: int
    layers: int
    width: int

    @classmethod
    def of(cls, contract: Contract, function: str = "main") -> "Beam":
        """Raises `CoreMLError` for a package that has no beam."""
        port = next((p for p in _inputs(contract, function) if p.axes.split()[0] == "K"), None)
        sizes = contract.sizes
        if port is None or contract.blank is None or not {"V", "L", "H"} <= sizes.keys():
            raise CoreMLError(
                f"a {contract.kind} package has no beam; a scorer takes predictor and joint, or"
                " fused"
            )
        return cls(port.shape[0], sizes["V"], contract.blank, sizes["L"], sizes["H"])

    def refuse_rows(self, rows: int) -> None:
        if rows != self.rows:
            raise CoreMLError(
                f"the package has {self.rows} rows and the search {rows} (utterances x beam size);"
                f" search one utterance with beam_size={self.rows}, or export --beam {rows}"
            )

    def zeros(self) -> Float32[ndarray, "L K H"]:
        return np.zeros((self.layers, self.rows, self.width), np.float32)

    def starts(self) -> ndarray:
        """The start symbol in every row."""
        return np.full(self.rows, self.blank, np.int32)

    def emitted(self, labels: Int64[Tensor, "K"]) -> Bool[ndarray, "K"]:
        return ((labels >= 0) & (labels != self.blank)).numpy()

    def fed(self, labels: Int64[Tensor, "K"]) -> ndarray:
        """Labels that a graph may look up: blank stands for those that it will not use."""
        return np.where(self.emitted(labels), labels.numpy(), self.blank).astype(np.int32)

    def log_probs(self, answer: dict[str, ndarray]) -> Float[Tensor, "K V"]:
        """Rows of all classes, of either tail."""
        if "logits" in answer:
            return torch.from_numpy(np.array(answer["logits"])).log_softmax(-1)
        rows = torch.full((self.rows, self.vocab), -torch.inf)
        rows[:, self.blank] = torch.from_numpy(np.array(answer["blank_score"]))
        ids = torch.from_numpy(np.array(answer["ids"])).long()
        return rows.scatter_(-1, ids, torch.from_numpy(np.array(answer["scores"])))


class CoreMLScorer:
    """Two calls an iteration: joint, then predictor; none for the predictor where no row took a
    label."""

    def __init__(self, beam: Beam, predictor: Runner, joint: Runner):
        self.beam, self.predictor, self.joint = beam, predictor, joint
        self.vocab, self.blank = beam.vocab, beam.blank

    def start(self, rows: int) -> HostState:
        self.beam.refuse_rows(rows)
        return self._fed(self.beam.starts(), self.beam.zeros(), self.beam.zeros())

    def log_probs(self, frames: Float[Tensor, "K J"], state: HostState) -> Float[Tensor, "K V"]:
        frames = frames.float().numpy()
        return self.beam.log_probs(self.joint({"frames": frames, "predicted": state.predicted}))

    def advance(
        self, state: HostState, parents: Int64[Tensor, "K"], labels: Int64[Tensor, "K"]
    ) -> HostState:
        kept, emitted = state.rows(parents.numpy()), self.beam.emitted(labels)
        if not emitted.any():
            return kept
        new = self._fed(self.beam.fed(labels), kept.h, kept.c)
        column = emitted[:, None]
        return HostState(*(np.where(column, a, b) for a, b in zip(new, kept, strict=True)))

    def _fed(self, labels: ndarray, h: ndarray, c: ndarray) -> HostState:
        out = self.predictor({"labels": labels, "h_in": h, "c_in": c})
        return HostState(out["h_out"], out["c_out"], out["predicted"])


@dataclass
class FusedState:
    """A step that the next `log_probs` will take: a state is what has been fed, so it may wait.

    `after` is filled by the first call and the same by every other.
    """

    feeds: dict[str, ndarray]
    after: HostState | None = None


class FusedScorer:
    """One call an iteration: labels of the last pruning and frames of the next in one graph."""

    def __init__(self, beam: Beam, fused: Runner, frame_width: int):
        self.beam, self.fused, self.frame_width = beam, fused, frame_width
        self.vocab, self.blank = beam.vocab, beam.blank

    def start(self, rows: int) -> FusedState:
        self.beam.refuse_rows(rows)
        empty = np.zeros((rows, self.frame_width), np.float32)
        none = HostState(self.beam.zeros(), self.beam.zeros(), empty)
        return self._waiting(self.beam.starts(), none, np.ones(rows, bool))

    def log_probs(self, frames: Float[Tensor, "K J"], state: FusedState) -> Float[Tensor, "K V"]:
        answer = self.fused(state.feeds | {"frames": frames.float().numpy()})
        state.after = HostState(answer["h_out"], answer["c_out"], answer["predicted_out"])
        return self.beam.log_probs(answer)

    def advance(
        self, state: FusedState, parents: Int64[Tensor, "K"], labels: Int64[Tensor, "K"]
    ) -> FusedState:
        if state.after is None:  # never asked for scores: any frame brings the state out
            self.log_probs(torch.zeros(self.beam.rows, self.frame_width), state)
        parent = state.after.rows(parents.numpy())
        return self._waiting(self.beam.fed(labels), parent, self.beam.emitted(labels))

    def _waiting(
        self, labels: ndarray, parent: HostState, emitted: Bool[ndarray, "K"]
    ) -> FusedState:
        preserve = (~emitted).astype(np.int32)
        feeds = {"labels": labels, "h_in": parent.h, "c_in": parent.c, "preserve": preserve}
        return FusedState(feeds | {"predicted_in": parent.predicted})


def _inputs(contract: Contract, function: str) -> tuple:
    found: FunctionContract = contract.function(function)
    return found.inputs
