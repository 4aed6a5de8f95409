"""The n-best lists of a finished fast search.

B utterances, K beam slots.
"""

from math import nan

import numpy as np
from jaxtyping import Int64

from vrt.rnnt.fast.beam import FastBeam
from vrt.rnnt.fast.trees import NONE
from vrt.rnnt.nbest import NBest, Prefix, hypothesis
from vrt.rnnt.paths import Step


def nbest_of(beam: FastBeam, prefix: Prefix | None = None) -> list[NBest]:
    """As `vrt.rnnt.nbest.nbest`; `prefix` is what all emissions come after."""
    aligned = beam.config.preserve_alignments
    scores, alive = beam.slots.score, beam.alive
    norms = normalised(beam)
    order = ranked(beam)
    prefix = prefix or Prefix()
    return [
        NBest(
            hypothesis(
                prefix,
                path(beam, int(beam.slots.emission[row, slot])),
                beam.rules.blank,
                aligned,
                float(scores[row, slot]),
                float(norms[row, slot]),
            )
            for slot in order[row].tolist()
            if alive[row, slot]
        )
        for row in range(len(order))
    ]


def normalised(beam: FastBeam) -> np.ndarray:
    """Scores over length + 1, [B, K], as of searches that count the start symbol."""
    lengths = beam.prefixes.length[beam.slots.prefix]
    return beam.slots.score / (lengths + 1).astype(beam.slots.score.dtype)


def ranked(beam: FastBeam) -> Int64[np.ndarray, "B K"]:
    """Slots of each utterance, best first; equal ones in their order."""
    keys = normalised(beam) if beam.config.score_norm else beam.slots.score
    return np.argsort(-keys, axis=-1, kind="stable")


def path(beam: FastBeam, emission: int) -> list[Step]:
    """The steps up to an emission, first step first."""
    emissions, aligned, steps = beam.emissions, beam.config.preserve_alignments, []
    while emission != NONE:
        log_prob = float(emissions.log_prob[emission]) if aligned else nan
        frame, label = int(emissions.frame[emission]), int(emissions.label[emission])
        steps.append(Step(frame, label, log_prob))
        emission = int(emissions.previous[emission])
    return steps[::-1]
