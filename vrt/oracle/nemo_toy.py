"""Toy models in the shape in which NeMo's searches take a prediction network, a joint and fusion.

R rows (B utterances x K beam slots), V classes with blank last. What NeMo takes for the vectors of
networks are the numbers that a toy needs: a frame is (b, t), a predictor's output the number of a
list of labels.
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Float32, Int64
from nemo.collections.asr.modules.rnnt import RNNTDecoder
from torch import Tensor

from vrt.rnnt.fusion import FusionModel
from vrt.rnnt.toy import ToyScorer

State = tuple[Float32[Tensor, "1 R 1"], Float32[Tensor, "1 R 1"]]  # h and c of one LSTM layer


@dataclass
class Prefixes:
    """Lists of labels by number; 0 is the empty list."""

    known: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    numbers: dict[tuple[int, ...], int] = field(default_factory=lambda: {(): 0})

    def number(self, prefix: tuple[int, ...]) -> int:
        if prefix not in self.numbers:
            self.numbers[prefix] = len(self.known)
            self.known.append(prefix)
        return self.numbers[prefix]


class ToyDecoder:
    """States are gathered and restored by NeMo's own code.

    A predictor that is fed blank answers with a list that has blank in it, so that a search which
    forgets to restore the state goes astray.
    """

    batch_aggregate_states_beam = RNNTDecoder.batch_aggregate_states_beam
    batch_replace_states_mask = RNNTDecoder.batch_replace_states_mask
    batch_replace_states_all = RNNTDecoder.batch_replace_states_all

    def __init__(self, prefixes: Prefixes) -> None:
        self.prefixes = prefixes

    def initialize_state(self, y: Tensor) -> State:
        """Before anything was fed: -1."""
        return torch.full((1, len(y), 1), -1.0), torch.zeros(1, len(y), 1)

    def predict(
        self, y: Int64[Tensor, "R 1"], state: State | None, add_sos: bool, batch_size: int
    ) -> tuple[Float32[Tensor, "R 1 1"], State]:
        """The first that is fed is the start symbol, and leads to the empty list."""
        before = [-1] * batch_size if state is None else state[0].flatten().long().tolist()
        fed = zip(before, y.flatten().tolist(), strict=True)
        after = [self._after(number, label) for number, label in fed]
        numbers = torch.tensor(after, dtype=torch.float32).view(1, -1, 1)
        return numbers[0].unsqueeze(1), (numbers, torch.zeros_like(numbers))

    def _after(self, number: int, label: int) -> int:
        return self.prefixes.number((*self.prefixes.known[number], label)) if number >= 0 else 0


class ToyJoint:
    """Projections change nothing; the joint looks a row up."""

    num_extra_outputs = 0

    def __init__(self, scorer: ToyScorer, prefixes: Prefixes) -> None:
        self.scorer, self.prefixes = scorer, prefixes
        self.num_classes_with_blank = scorer.vocab

    def project_encoder(self, frames: Float[Tensor, "B T 2"]) -> Float[Tensor, "B T 2"]:
        return frames

    def project_prednet(self, numbers: Float[Tensor, "R 1 1"]) -> Float[Tensor, "R 1 1"]:
        return numbers

    def joint_after_projection(
        self, frames: Float[Tensor, "R 1 2"], numbers: Float[Tensor, "R 1 1"]
    ) -> Float[Tensor, "R 1 1 V"]:
        state = [self.prefixes.known[n] for n in numbers.flatten().long().tolist()]
        return self.scorer.rows(frames[:, 0], state)[:, None, None]


class ToyFusion:
    """A fusion model of vrt's under NeMo's names."""

    def __init__(self, model: FusionModel) -> None:
        self.model = model

    def to(self, device: torch.device) -> "ToyFusion":
        return self

    def get_init_states(self, batch_size: int, bos: bool) -> Int64[Tensor, "R"]:
        return self.model.start(batch_size)

    def advance(
        self, states: Int64[Tensor, "R"]
    ) -> tuple[Float[Tensor, "R labels"], Int64[Tensor, "R labels"]]:
        return self.model.advance(states)

    def compatible_with_cuda_graphs(self) -> bool:
        return False
