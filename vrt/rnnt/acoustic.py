"""A whole small transducer, from samples to text: front end, encoder, predictor, joint, labels.

    model = load_acoustic(folder)
    model.text(transcribe(model, samples).tokens)      # greedy; transcribe_beam for the beam

n samples (16 kHz), T mel frames (10 ms), S encoder frames (40 ms), E encoder width.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vrt.audio import as_samples
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.encoder import SUBSAMPLING, AcousticEncoder, EncoderConfig
from vrt.rnnt.front import HOP, FrontStream, LogMelFront
from vrt.rnnt.greedy import greedy
from vrt.rnnt.malsd import malsd
from vrt.rnnt.model import ModelScorer, Transducer, TransducerConfig
from vrt.rnnt.nbest import Hypothesis, NBest
from vrt.rnnt.vocabulary import Vocabulary

FRAME_SAMPLES = HOP * SUBSAMPLING  # of an encoder frame: 640, 40 ms
# Silence behind a recording that ends with its last word: a label comes out after its sound.
FLUSH_SAMPLES = 6400  # 0.4 s


@dataclass(frozen=True)
class AcousticConfig:
    """Sizes of all parts; `labels` are the texts of the classes before blank."""

    encoder: EncoderConfig
    transducer: TransducerConfig
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.labels) != self.transducer.blank:
            raise ValueError(
                f"{len(self.labels)} labels do not fit a vocabulary of {self.transducer.vocab}"
                " with blank"
            )
        if self.encoder.width != self.transducer.encoder_width:
            raise ValueError(
                f"the encoder is {self.encoder.width} wide, the joint reads"
                f" {self.transducer.encoder_width}"
            )


class AcousticTransducer(nn.Module):
    """All weights of a model; a stream's state is an `AcousticStream`, never kept here."""

    def __init__(self, config: AcousticConfig) -> None:
        super().__init__()
        self.config = config
        self.front = LogMelFront()
        self.encoder = AcousticEncoder(config.encoder)
        self.transducer = Transducer(config.transducer)
        self.transducer.vocabulary = Vocabulary(config.labels)

    @torch.no_grad()
    def encode(self, samples: Float[Tensor, "n"]) -> Float[Tensor, "S E"]:
        """Encoder frames of a whole recording and the flush behind it, in one call a stage."""
        padded = torch.nn.functional.pad(samples, (0, FLUSH_SAMPLES))
        state = self.encoder.initial(1, self.front.silence)
        frames, _ = self.encoder(self.front(padded).unsqueeze(0), state)
        return frames[0]

    def text(self, tokens: Iterable[int]) -> str:
        """The transcript of labels that a search found."""
        return self.transducer.text(tokens)


class AcousticStream:
    """Encoder frames of one live stream; joined they are those of `AcousticTransducer.encode`."""

    def __init__(self, model: AcousticTransducer) -> None:
        self.model = model
        self.reset()

    def reset(self) -> None:
        """A new stream."""
        self.front = FrontStream(self.model.front)
        self.state = self.model.encoder.initial(1, self.model.front.silence)

    @torch.no_grad()
    def feed(self, samples: Float[Tensor, "n"]) -> Float[Tensor, "S E"]:
        """The encoder frames that `samples` completes, none or any number."""
        mel = self.front.feed(samples)
        frames, self.state = self.model.encoder(mel.unsqueeze(0), self.state)
        return frames[0]

    def finalize(self) -> Float[Tensor, "S E"]:
        """The frames of what is left, with the flush behind it; `reset` may follow."""
        return self.feed(torch.zeros(FLUSH_SAMPLES))


def transcribe(
    model: AcousticTransducer, samples: object, max_symbols: int | None = 10
) -> Hypothesis:
    """Greedy search over a whole recording, mono at 16 kHz.

    Raises:
        AudioError: samples that cannot be taken as they are.
    """
    frames, lengths = _searched(model, samples)
    (found,) = greedy(ModelScorer(model.transducer), frames, lengths, max_symbols)
    return found


def transcribe_beam(
    model: AcousticTransducer, samples: object, config: BeamConfig | None = None
) -> NBest:
    """Beam search over a whole recording, mono at 16 kHz: the n-best list.

    Raises:
        AudioError: samples that cannot be taken as they are.
        BeamError: a search that cannot be run as asked.
    """
    frames, lengths = _searched(model, samples)
    (found,) = malsd(ModelScorer(model.transducer), frames, lengths, config or BeamConfig())
    return found


def _searched(model: AcousticTransducer, samples: object) -> tuple[Float[Tensor, "1 S J"], Tensor]:
    """What a search takes; the flush alone is longer than one encoder frame."""
    frames = model.encode(torch.from_numpy(as_samples(samples)))
    projected = ModelScorer(model.transducer).project(frames.unsqueeze(0))
    return projected, torch.tensor([len(frames)])
