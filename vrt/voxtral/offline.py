"""The offline path: every stage once, over the whole clip, by the functions a stream uses.

S samples, N positions (80 ms), E decoder width.
"""

from os import PathLike
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from vrt.audio import Clip, as_samples, read
from vrt.voxtral.config import SAMPLES_PER_TOKEN
from vrt.voxtral.greedy import GreedyDecoder
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.observe import Observer, observed
from vrt.voxtral.schedule import Schedule
from vrt.voxtral.transcript import Transcript
from vrt.voxtral.writer import TranscriptWriter


@torch.no_grad()
def transcribe(
    model: VoxtralRealtime,
    audio: Any,
    delay_ms: int | float | None = None,
    *,
    stop_at_eos: bool = False,
    observer: Observer | None = None,
) -> Transcript:
    """Transcript of a whole clip: a path, a `vrt.audio.Clip`, or samples (mono, 16 kHz).

    `delay_ms` None is the model's own delay. Raises `DelayError` and `vrt.audio.AudioError`.
    Equal to a `StreamingSession` fed the same samples in pieces of any size, bit for bit on a CPU.
    Memory grows with the clip, a stream's does not: stream what is longer than some minutes.
    """
    schedule = Schedule.for_delay_ms(model.config, delay_ms)
    samples = torch.from_numpy(_samples(audio))
    embeds = encode(model, samples, schedule, observer)
    stop = model.config.eos if stop_at_eos else None
    greedy = GreedyDecoder(model, schedule, stop, observer)
    writer = TranscriptWriter(model, schedule)
    writer.clock.insert(len(samples), schedule.right_pad_samples(len(samples)))
    writer.write(greedy.push(embeds))
    writer.finish()
    return writer.transcript


@torch.no_grad()
def encode(
    model: VoxtralRealtime,
    samples: Float[Tensor, "S"],
    schedule: Schedule,
    observer: Observer | None = None,
) -> Float[Tensor, "N E"]:
    """Audio embeddings of all positions of the padded clip, in one batched call a stage."""
    left = schedule.left_pad * SAMPLES_PER_TOKEN
    padded = F.pad(samples, (left, schedule.right_pad_samples(len(samples))))
    mel = observed(observer, "mel", model.log_mel, padded)
    x = observed(observer, "conv_stem", model.stem, mel)
    frames = observed(observer, "encoder", model.encoder, x)
    return observed(observer, "projector", model.projector, frames)


def _samples(audio: Any) -> Any:
    if isinstance(audio, Clip):
        return audio.samples
    return read(audio).samples if isinstance(audio, str | PathLike) else as_samples(audio)
