"""What one 80 ms token is at every stage of a model: what goes in, what comes out, what is kept."""

from dataclasses import dataclass

from vrt.voxtral.config import (
    FRAMES_PER_TOKEN,
    HOP,
    LOOK_AHEAD,
    LOOK_BACK,
    MEL_PER_TOKEN,
    SAMPLES_PER_TOKEN,
    DecoderConfig,
    EncoderConfig,
    VoxtralConfig,
)

STAGE_NAMES = ("mel", "conv_stem", "encoder", "projector", "decoder")
REACH = LOOK_BACK + SAMPLES_PER_TOKEN + LOOK_AHEAD  # samples that the 8 mel frames of a token cover


@dataclass(frozen=True)
class StageFlow:
    """One stage. `takes_in` and `gives_out` are those of one token, `remembers` of a stream."""

    stage: str
    takes_in: str
    gives_out: str
    remembers: str
    remembers_bytes: int
    in_per_out: int  # rows of input to a row of output; the decoder's prompt apart


def describe(
    config: VoxtralConfig, state_bytes: dict[str, int], element_bytes: int
) -> list[StageFlow]:
    """The stages in the order of the data.

    `state_bytes` is that of a session, `element_bytes` the size of one key's or value's number.
    """
    mel = f"{MEL_PER_TOKEN}x{config.mel_bins} mel"
    frames = f"{FRAMES_PER_TOKEN}x{config.encoder.width} frames"
    audio = f"1x{config.decoder.width} audio"
    encoder_rings = _rings(config.encoder, state_bytes["encoder"], element_bytes)
    decoder_rings = _rings(config.decoder, state_bytes["decoder"], element_bytes)
    columns = {
        "mel": (f"{REACH} samples", mel, f"up to {REACH - 1} samples", HOP),
        "conv_stem": (mel, frames, "2 mel + 1 frame", 2),
        "encoder": (frames, frames, encoder_rings, 1),
        "projector": (frames, audio, "nothing", FRAMES_PER_TOKEN),
        "decoder": (audio, "1 token id", decoder_rings, 1),
    }
    return [
        StageFlow(stage, *columns[stage][:3], state_bytes[stage], columns[stage][3])
        for stage in STAGE_NAMES
    ]


def _rings(config: EncoderConfig | DecoderConfig, ring_bytes: int, element_bytes: int) -> str:
    """One ring a layer, and for how many frames or tokens each has slots."""
    heads = config.kv_heads if isinstance(config, DecoderConfig) else config.heads
    slot = 2 * heads * config.head_dim * element_bytes  # bytes of one key and one value
    return f"{config.layers} rings of {ring_bytes // (config.layers * slot)}"
