"""What all living hypotheses of one stream agree on, in a fast beam of one utterance.

The emissions of living slots meet in a last one that all come from; before it nothing changes any
more. In one iteration no two living slots have the same emission: they would be one prefix, and
merged. So emissions tell apart hypotheses as slots of a column do in `vrt.rnnt.agreed`.
"""

import numpy as np
from jaxtyping import Int64

from vrt.rnnt.fast.beam import FastBeam
from vrt.rnnt.fast.results import path, ranked
from vrt.rnnt.fast.room import meeting
from vrt.rnnt.fast.trees import NONE
from vrt.rnnt.nbest import Prefix
from vrt.rnnt.paths import Step


def living(beam: FastBeam) -> Int64[np.ndarray, "n"]:
    """Emissions of living slots, best hypothesis first."""
    order = ranked(beam)[0]
    return beam.slots.emission[0, order[beam.alive[0, order]]]


def absorb(beam: FastBeam, prefix: Prefix) -> None:
    """Move what led to the last emission that all living slots come from into `prefix`."""
    top = meeting(beam.emissions.previous, beam.slots.emission[beam.alive])
    if top == NONE:
        return
    steps = path(beam, top)
    labels = [step for step in steps if step.label != beam.rules.blank]
    prefix.tokens += [step.label for step in labels]
    prefix.timestamps += [step.frame for step in labels]
    if beam.rules.aligned:
        prefix.alignment += steps
    previous = beam.emissions.previous
    previous[previous == top] = NONE
    beam.slots.emission[beam.slots.emission == top] = NONE
    beam.trim_emissions()


def settle(beam: FastBeam, frame: int, prefix: Prefix) -> None:
    """Give up hypotheses that do not come from where the best one was at encoder frame `frame`."""
    order = [int(slot) for slot in ranked(beam)[0] if beam.alive[0, slot]]
    if not order:
        return
    best, before = order[0], len(prefix.tokens)
    taken = path(beam, int(beam.slots.emission[0, best]))
    labels = sum(step.label != beam.rules.blank and step.frame <= frame for step in taken)
    steps = min(frame, int(beam.slots.time[0, best])) + before + labels
    root = _after(beam, best, steps, before)
    for slot in order[1:]:
        if _after(beam, slot, steps, before) != root:
            beam.slots.score[0, slot] = -np.inf


def _after(beam: FastBeam, slot: int, steps: int, before: int) -> int:
    """The last emission among the first `steps` steps of a slot, NONE if it was cut off."""
    emission = int(beam.slots.emission[0, slot])
    taken: list[Step] = path(beam, emission)
    labels = before + sum(step.label != beam.rules.blank for step in taken)
    for step in reversed(taken):
        blank = step.label == beam.rules.blank
        if step.frame + labels + blank <= steps:  # blanks and labels up to and with this one
            break
        labels -= not blank
        emission = int(beam.emissions.previous[emission])
    return emission
