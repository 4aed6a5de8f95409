"""A string through a Voxtral Realtime under any delay, its audio encoded once.

N positions (80 ms), E decoder width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float32
from numpy import ndarray
from torch import Tensor

from vrt.train.voxtral_spelling import spoken_words
from vrt.voxtral.config import LOOK_AHEAD, SAMPLE_RATE, SAMPLES_PER_TOKEN
from vrt.voxtral.greedy import GreedyDecoder
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.offline import encode
from vrt.voxtral.schedule import MAX_DELAY_TOKENS, Schedule
from vrt.voxtral.transcript import Token, Transcript
from vrt.voxtral.writer import TranscriptWriter


@dataclass(frozen=True, eq=False)
class Heard:
    """Audio embeddings with the right pad of the longest delay: the encoder is causal, so those of
    a shorter pad are the first of them."""

    embeds: Float[Tensor, "N E"]
    samples: int


def hear(model: VoxtralRealtime, samples: Float32[ndarray, " n"]) -> Heard:
    """Encode a string once for all delays."""
    schedule = Schedule.of(model.config, MAX_DELAY_TOKENS)
    return Heard(encode(model, torch.from_numpy(samples), schedule), len(samples))


@torch.no_grad()
def write(
    model: VoxtralRealtime, heard: Heard, delay: int, conditioned: int | None = None
) -> Transcript:
    """The transcript under `delay` tokens, as `vrt.voxtral.offline.transcribe` gives it.

    `conditioned` feeds another delay to the time embedding and leaves the prompt as it is; zeros
    then go on to the longest pad, so that words that come late come at all.
    """
    schedule = Schedule.of(model.config, delay)
    greedy = GreedyDecoder(model, schedule)
    embeds = heard.embeds
    if conditioned is None:
        embeds = embeds[: schedule.positions(heard.samples)]
    else:
        greedy.state = model.decoder.state(conditioned)
    writer = TranscriptWriter(model, schedule)
    writer.clock.insert(heard.samples, schedule.right_pad_samples(heard.samples))
    writer.write(greedy.push(embeds))
    writer.finish()
    return writer.transcript


def scored_text(transcript: Transcript) -> str:
    """As words are scored: NFKC, lower case, single spaces."""
    return " ".join(spoken_words(transcript.text))


def said_at(tokens: Sequence[Token], left_pad: int) -> list[float]:
    """Seconds of the caller's audio after which each word was whole on the screen: those that the
    position of its last piece needs."""
    positions: list[int] = []
    for token in tokens:
        if token.text[:1].isspace() or (token.text and not positions):
            positions.append(token.position)
        elif token.text:
            positions[-1] = token.position
    return [needed_seconds(position, left_pad) for position in positions]


def needed_seconds(position: int, left_pad: int) -> float:
    """Audio that must be there before a position can be decoded."""
    return ((position + 1 - left_pad) * SAMPLES_PER_TOKEN + LOOK_AHEAD) / SAMPLE_RATE
