"""A corpus of tones and a tiny random transducer, so that experiments run without recordings."""

import numpy as np
import torch

from vrt.rnnt.acoustic import AcousticTransducer
from vrt.rnnt.model import Transducer
from vrt.rnnt.vocabulary import Vocabulary
from vrt.train.corpus import (
    MISC_SENTENCES,
    TRAIN_SENTENCES,
    TRAIN_SPEAKERS,
    UNHEARD_SPEAKERS,
    Corpus,
    Digit,
    Sentence,
)
from vrt.train.rnnt_digits import LABELS, Plan

TINY = Plan(width=16, predictor_width=12, joint_width=12, batch=4, batch_digits=8)


def tones():
    """Digits of two tones each, a tenth of a second; a hum for speech that is no digits."""
    time = np.arange(1600) / 16_000
    hull = np.hanning(1600)

    def sound(value):
        wave = sum(np.sin(2 * np.pi * hz * time) for hz in (300 + 60 * value, 2500 - 150 * value))
        return (0.1 * wave * hull).astype(np.float32)

    speakers, takes = [*TRAIN_SPEAKERS, *UNHEARD_SPEAKERS], (0, 5, 8)
    digits = [Digit(v, s, t, sound(v)) for s in speakers for t in takes for v in range(10)]
    hum = (0.1 * np.sin(2 * np.pi * 150 * np.arange(40_000) / 16_000)).astype(np.float32)
    names = (*TRAIN_SENTENCES, *MISC_SENTENCES)
    return Corpus(tuple(digits), {name: Sentence(name, hum) for name in names})


def random_model(seed=0, blank=2.5):
    """Predictor and joint of about unit gain: a search has something to choose. `blank` is added to
    its logit: the more, the fewer labels."""
    torch.manual_seed(seed)
    model = AcousticTransducer(TINY.config()).eval()
    model.transducer = Transducer.random(TINY.config().transducer, seed)
    model.transducer.vocabulary = Vocabulary(LABELS)
    with torch.no_grad():
        model.transducer.joint.output.bias[-1] += blank
        model.transducer.joint.enc.weight.mul_(2)
    return model


def quiet(_line):
    pass
