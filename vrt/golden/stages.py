"""The stages of a Voxtral golden file in the order in which data flows, and how close is equal.

M=128 mel bins, N positions (80 ms), R = N - L + 1 rows of logits, D encoder width, E decoder width,
V vocabulary, P decoder layers.
"""

from vrt.golden.metadata import Metadata
from vrt.voxtral.config import FRAMES_PER_TOKEN, MEL_PER_TOKEN

STAGES = (
    "mel.offline",
    "mel.stream",
    "conv_stem.offline",
    "conv_stem.stream",
    "encoder_layer0.offline",
    "encoder.offline",
    "encoder.stream",
    "projector.offline",
    "projector.stream",
    "t_cond",
    "ada_scale",
    "logits.offline",
    "tokens.offline_full_span",
    "logits.stream",
    "tokens.stream_full_span",
    "tokens.hf_generate_offline",
    "tokens.hf_generate_stream",
)

# Of the golden format; relative to max(1, largest absolute expected value). Token ids are equal.
TOLERANCES = {
    "mel": 5e-5,
    "conv_stem": 1e-5,
    "encoder_layer0": 2e-5,
    "encoder": 3e-5,
    "projector": 3e-5,
    "t_cond": 1e-5,
    "ada_scale": 2e-5,
    "logits": 3e-5,
}


def tolerance(stage: str) -> float | None:
    """None for token ids."""
    return TOLERANCES.get(stage.partition(".")[0])


def time_axis(stage: str) -> int:
    """The axis along which the first divergence is looked for: a mel's second, else the first."""
    return 1 if stage.startswith("mel.") else 0


def shape(stage: str, about: Metadata) -> tuple[int, ...] | None:
    """The shape that the format gives a stage; None where EOS decides the length."""
    positions, rows = about.n_audio_tokens, about.rows
    encoder, decoder = about.config.encoder, about.config.decoder
    frames = FRAMES_PER_TOKEN * positions
    return {
        "mel": (about.config.mel_bins, MEL_PER_TOKEN * positions),
        "conv_stem": (frames, encoder.width),
        "encoder_layer0": (frames, encoder.width),
        "encoder": (frames, encoder.width),
        "projector": (positions, decoder.width),
        "t_cond": (decoder.width,),
        "ada_scale": (decoder.layers, decoder.width),
        "logits": (rows, decoder.vocab),
        "tokens": (rows,) if stage.endswith("_full_span") else None,
    }[stage.partition(".")[0]]
