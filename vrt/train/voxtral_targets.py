"""What the model should say about a stream, and when: one slot for each 80 ms of audio.

A word is due in the slot that holds its end: the word mark in the slot before, its pieces from
there on. Slot s is put out at position left pad + s + delay: then the audio up to the end of slot
s + delay is heard. Where words follow so fast that their pieces would overlap, the later waits.

EOS: once, 8 slots into a silence of digital zeros (an ended stream: live silence has noise), if all
that is heard by then is zeros. A transcription pads with delay + 11 tokens of zeros, so it gets its
EOS two positions before the end; zeros before the first sound get none.

N positions, S slots.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from vrt.train.voxtral_spelling import word_ids
from vrt.voxtral.config import SAMPLES_PER_TOKEN, VoxtralConfig
from vrt.voxtral.schedule import Schedule

EOS_AFTER = 8  # slots of zeros before it: the last word's pieces are out, and two are in hand
IGNORED = -100  # torch's mark of a position without a target


@dataclass(frozen=True)
class Spoken:
    """A digit of a stream; `start` and `end` are samples since the audio began."""

    value: int
    start: int
    end: int  # of what can be heard


@dataclass(frozen=True)
class Targets:
    """One stream under one delay: what goes in, what should come out."""

    inputs: Int[np.ndarray, " N"]
    labels: Int[np.ndarray, " N"]  # IGNORED inside the prompt


def slots(
    spoken: Sequence[Spoken], zeros: Bool[np.ndarray, " S"], delay: int, config: VoxtralConfig
) -> Int[np.ndarray, " S"]:
    """Token by slot. `zeros`: which 80 ms of audio are nothing but zeros."""
    out = np.full(len(zeros), config.streaming_pad)
    free = 0
    for word in spoken:
        tokens = [config.streaming_word, *word_ids(word.value)]
        first = max(free, word.end // SAMPLES_PER_TOKEN - 1)
        free = first + len(tokens)
        if free > len(out):
            break
        out[first:free] = tokens
    if config.eos is not None:
        for slot in _ends(zeros, delay):
            if out[slot] == config.streaming_pad:
                out[slot] = config.eos
    return out


def _ends(zeros: Bool[np.ndarray, " S"], delay: int) -> list[int]:
    """Slots in which a stream is over."""
    found, run = [], 0
    heard_any = False
    for slot, silent in enumerate(zeros):
        run = run + 1 if silent else 0
        heard_any = heard_any or not silent
        if heard_any and run == EOS_AFTER + 1 and zeros[slot : slot + delay + 1].all():
            found.append(slot)
    return found


def targets(
    spoken: Sequence[Spoken], zeros: Bool[np.ndarray, " S"], delay: int, config: VoxtralConfig
) -> Targets:
    """Inputs and labels of all left_pad + S positions under `delay` tokens."""
    schedule = Schedule.of(config, delay)
    first = schedule.prompt_len - 1  # the position that puts out slot 0
    said = slots(spoken, zeros, delay, config)[: len(zeros) - delay]
    labels = np.concatenate([np.full(first, IGNORED), said])
    inputs = np.concatenate([schedule.prompt, said[:-1]])
    return Targets(inputs, labels)
