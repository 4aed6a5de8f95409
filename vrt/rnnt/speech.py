"""One live stream of speech through a small transducer, with text: begin, feed, finalize, reset.

    session = TransducerSession(vrt.load("digits-rnnt"), BeamConfig(beam_size=8))
    session.begin()
    for samples in microphone:             # float32, 16 kHz, mono, any number of samples
        print(session.feed(samples).text)  # what is certain so far; .tentative may still change
    print(session.finalize().text)

n samples, S encoder frames (40 ms), J joint width.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vrt.audio import SAMPLE_RATE, as_samples
from vrt.rnnt.acoustic import FRAME_SAMPLES, AcousticStream, AcousticTransducer
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.model import ModelScorer
from vrt.rnnt.nbest import NBest
from vrt.rnnt.session import BeamSession, BeamUpdate

FRAME_SECONDS = FRAME_SAMPLES / SAMPLE_RATE


@dataclass(frozen=True)
class SpeechUpdate:
    """`text` is committed: all hypotheses begin with it, and it never changes. `tentative` is how
    the best hypothesis goes on."""

    text: str
    tentative: str
    audio_seconds: float
    beam: BeamUpdate  # labels and encoder frames of what this feed made certain


@dataclass(frozen=True)
class SpeechResult:
    """`text` is that of the best hypothesis, empty where none survived."""

    text: str
    nbest: NBest
    seconds: tuple[float, ...]  # when each of its labels came out
    audio_seconds: float


class TransducerSession:
    """All that one stream remembers; the model is only read, so many sessions may share it.

    Any cutting into feeds gives the same result, for the encoder and the search. Errors of the
    search, and what they leave usable, are those of `BeamSession`.
    """

    def __init__(
        self,
        model: AcousticTransducer,
        config: BeamConfig | None = None,
        *,
        commit_after: int | None = None,
    ):
        self.model = model
        self._scorer = ModelScorer(model.transducer)
        self._encoder = AcousticStream(model)
        self._beam = BeamSession(self._scorer, config, commit_after=commit_after)
        self._committed: list[int] = []
        self._samples = 0

    @property
    def text(self) -> str:
        """What is committed so far; readable in every phase, also after a failure."""
        return self.model.text(self._committed)

    @property
    def audio_seconds(self) -> float:
        return self._samples / SAMPLE_RATE

    def begin(self) -> None:
        """Open a stream."""
        self._beam.begin()
        self._encoder.reset()
        self._committed, self._samples = [], 0

    def feed(self, samples: Any) -> SpeechUpdate:
        """Take the next samples (mono, 16 kHz; float32, float64 or int16) of any number.

        Raises:
            AudioError: samples that cannot be taken as they are; the session stays as it was.
            BeamSessionError: a call in the wrong order.
        """
        checked = torch.from_numpy(as_samples(samples))
        self._beam.require_open("feed")
        self._samples += len(checked)
        update = self._search(self._encoder.feed(checked))
        return SpeechUpdate(
            self.text, self.model.text(update.tentative), self.audio_seconds, update
        )

    def finalize(self) -> SpeechResult:
        """End the stream: the n-best list of all that was fed."""
        self._beam.require_open("finalize")
        self._search(self._encoder.finalize())
        nbest = self._beam.finalize()
        if not nbest:
            return SpeechResult("", nbest, (), self.audio_seconds)
        best = nbest[0]
        self._committed = list(best.tokens)
        seconds = best.seconds(FRAME_SECONDS)
        return SpeechResult(self.text, nbest, seconds, self.audio_seconds)

    def hypotheses(self) -> NBest:
        """All living hypotheses as they stand, best first; asking changes nothing."""
        return self._beam.hypotheses()

    def reset(self) -> None:
        """Give up whatever is under way; `begin` may follow."""
        self._beam.reset()

    def _search(self, frames: Float[Tensor, "S E"]) -> BeamUpdate:
        projected = self._scorer.project(frames.unsqueeze(0))[0]
        update = self._beam.feed(projected)
        self._committed += update.committed
        return update
