"""What a live view would show, as rows: one for each 80 ms of a recording, and one after its end.

n samples at 16 kHz.
"""

from typing import Any

import numpy as np
from jaxtyping import Float32

from vrt.audio import SAMPLE_RATE
from vrt.lab.widgets.latency import PIECE
from vrt.lab.widgets.sessions import BEAM_SIZE, Heard, open_session, setting_of
from vrt.rnnt.acoustic import transcribe_beam
from vrt.rnnt.config import BeamConfig
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.offline import transcribe


def live_rows(
    model: Any,
    samples: Float32[np.ndarray, "n"],
    setting: int | None = None,
    beam_size: int = BEAM_SIZE,
) -> list[dict[str, Any]]:
    """`heard_s`, `text` (committed), `tentative`, `behind_s`, and the `beam`'s texts, best first.

    No clock is read: the same samples give the same rows. `setting` is the model's slider; None:
    its own. Raises as `LiveStream`, and `vrt.audio.AudioError`.
    """
    slider = setting_of(model)
    session = open_session(model, slider.default if setting is None else setting, beam_size)
    session.begin()
    rows = []
    for at in range(0, len(samples), PIECE):
        piece = samples[at : at + PIECE]
        rows.append(_row((at + len(piece)) / SAMPLE_RATE, session.feed(piece)))
    return [*rows, _row(len(samples) / SAMPLE_RATE, session.finalize())]


def offline_text(
    model: Any,
    samples: Float32[np.ndarray, "n"],
    setting: int | None = None,
    beam_size: int = BEAM_SIZE,
) -> str:
    """What the whole recording at once is written as, by no session: what a live text must equal.

    A transducer's doubts are settled by the beam alone there, as at `setting` 0. Raises as
    `live_rows`.
    """
    slider = setting_of(model)
    value = slider.check(slider.default if setting is None else setting)
    if isinstance(model, VoxtralRealtime):
        found = transcribe(model, samples, value)
        return found.text if model.tokenizer else " ".join(map(str, found.ids))
    nbest = transcribe_beam(model, samples, BeamConfig(beam_size))
    return model.text(nbest[0].tokens) if nbest else ""


def _row(heard_s: float, heard: Heard) -> dict[str, Any]:
    return {
        "heard_s": heard_s,
        "text": heard.text,
        "tentative": heard.tentative,
        "behind_s": heard.behind_s,
        "beam": [line.text for line in heard.beam],
    }
