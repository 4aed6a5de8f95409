"""A transducer without its encoder, and the scorer through which a search asks it.

R rows (B utterances x K beam slots), V classes with blank last, T encoder frames, E encoder width,
H predictor width, J joint width, L LSTM layers.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, get_args

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from vrt.rnnt.config import BeamError
from vrt.rnnt.joint import Activation, Joint
from vrt.rnnt.predictor import LSTMState, Predictor
from vrt.rnnt.vocabulary import Vocabulary, VocabularyError

# A random product over n numbers is drawn with standard deviation gain / sqrt(n): gates then open
# and close, and classes differ enough for a search to have something to choose.
EMBED_STD = 1.0
BIAS_STD = 0.2
GAINS = {".lstm.": 2.0, "joint.pred.": 3.0, "joint.joint_net.": 3.0}


@dataclass(frozen=True)
class TransducerConfig:
    """Sizes; `vocab` counts blank, the last class. `durations` are frames, of a TDT model only."""

    vocab: int
    encoder_width: int
    predictor_width: int
    predictor_layers: int
    joint_width: int
    activation: Activation = "relu"
    durations: tuple[int, ...] = ()
    predictor_dropout: float = 0.0
    joint_dropout: float = 0.0

    def __post_init__(self) -> None:
        least = {"vocab": 2, "encoder_width": 1, "predictor_width": 1, "predictor_layers": 1}
        for name, low in (least | {"joint_width": 1}).items():
            if getattr(self, name) < low:
                raise ValueError(f"{name} must be at least {low}, got {getattr(self, name)}")
        for name in ("predictor_dropout", "joint_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be in 0..1, 1 left out, got {getattr(self, name)}")
        if self.activation not in get_args(Activation):
            known = ", ".join(get_args(Activation))
            raise ValueError(f"activation must be one of {known}, got {self.activation!r}")
        if any(frames < 0 for frames in self.durations):
            raise ValueError(f"durations are frames, 0 or more, got {self.durations}")

    @property
    def blank(self) -> int:
        return self.vocab - 1

    @property
    def outputs(self) -> int:
        """Outputs of the joint."""
        return self.vocab + len(self.durations)


# The size of Parakeet's predictor and joint: 7,224,960 and 1,728,393 weights.
PARAKEET = TransducerConfig(
    vocab=1033,
    encoder_width=1024,
    predictor_width=640,
    predictor_layers=2,
    joint_width=640,
)


class Transducer(nn.Module):
    """Predictor and joint, under NeMo's names `decoder.` and `joint.`.

    `vocabulary` is None where labels are ids only.
    """

    def __init__(self, config: TransducerConfig):
        super().__init__()
        self.config = config
        self.vocabulary: Vocabulary | None = None
        self.decoder = Predictor(
            config.vocab, config.predictor_width, config.predictor_layers, config.predictor_dropout
        )
        self.joint = Joint(
            config.encoder_width,
            config.predictor_width,
            config.joint_width,
            config.outputs,
            config.joint_dropout,
            config.activation,
        )

    def text(self, tokens: Iterable[int]) -> str:
        """What labels spell.

        Raises:
            VocabularyError: a model without a vocabulary, or an id without a piece.
        """
        if self.vocabulary is None:
            raise VocabularyError(
                "this model has no vocabulary; set its vocabulary to Vocabulary(pieces)"
            )
        return self.vocabulary.text(tokens)

    @classmethod
    @torch.no_grad()
    def random(cls, config: TransducerConfig, seed: int) -> "Transducer":
        """Random weights, the same from the same seed, in evaluation mode."""
        generator = torch.Generator().manual_seed(seed)
        model = cls(config).eval()
        for name, weight in model.named_parameters():
            drawn = torch.randn(weight.shape, generator=generator)
            weight.copy_(drawn * _std(name, weight))
        model.decoder.embed[config.blank] = 0.0
        return model


def _std(name: str, weight: Float[Tensor, "..."]) -> float:
    if name.endswith("embed.weight"):
        return EMBED_STD
    if weight.ndim == 1:
        return BIAS_STD
    gain = next((gain for part, gain in GAINS.items() if part in name), 1.0)
    return gain / weight.shape[1] ** 0.5


class ScorerState(NamedTuple):
    """A predictor's state, and its output as the joint reads it."""

    lstm: LSTMState
    predicted: Float[Tensor, "R J"]


class ModelScorer:
    """A transducer as a `Scorer`; frames are `project`ed once, outside the search.

    Weights are only read, so many searches may share a model. A TDT model is refused: its
    durations need a search that skips frames.
    """

    def __init__(self, transducer: Transducer):
        config = transducer.config
        if config.durations:
            raise BeamError(
                f"a TDT model with durations {config.durations} needs a search that skips frames;"
                " malsd, greedy and BeamSession go frame by frame"
            )
        self.transducer = transducer
        self.vocab, self.blank = config.vocab, config.blank

    @torch.no_grad()
    def project(self, encoder_output: Float[Tensor, "*batch T E"]) -> Float[Tensor, "*batch T J"]:
        """The frames that a search takes, of those that an encoder gives."""
        return self.transducer.joint.project_encoder(encoder_output)

    @torch.no_grad()
    def start(self, rows: int) -> ScorerState:
        decoder, config = self.transducer.decoder, self.transducer.config
        if self.transducer.training and (config.predictor_dropout or config.joint_dropout):
            raise BeamError("the model is in training mode, with dropout; call its eval() first")
        labels = torch.full((rows,), self.blank, device=decoder.embed.device)
        return self._fed(labels, decoder.initial(rows))

    @torch.no_grad()
    def log_probs(self, frames: Float[Tensor, "R J"], state: ScorerState) -> Float[Tensor, "R V"]:
        return self.transducer.joint.joint(frames, state.predicted).log_softmax(-1)

    @torch.no_grad()
    def advance(
        self, state: ScorerState, parents: Int64[Tensor, "R"], labels: Int64[Tensor, "R"]
    ) -> ScorerState:
        """All rows go through the LSTM together, or none where none took a label."""
        kept = ScorerState(state.lstm.rows(parents), state.predicted[parents])
        emitted = (labels >= 0) & (labels != self.blank)
        if not emitted.any():
            return kept
        new = self._fed(labels.where(emitted, self.blank), kept.lstm)
        column = emitted.unsqueeze(-1)
        h, c = (a.where(column, b) for a, b in zip(new.lstm, kept.lstm, strict=True))
        return ScorerState(LSTMState(h, c), new.predicted.where(column, kept.predicted))

    def _fed(self, labels: Int64[Tensor, "R"], state: LSTMState) -> ScorerState:
        out, state = self.transducer.decoder.step(labels, state)
        return ScorerState(state, self.transducer.joint.project_predictor(out))
