"""What a model will cost before it runs: bytes to hold, bytes to read for 80 ms, and the floor.

On a CPU a step is bound by reading its weights, keys and values. At the released shapes bf16 linear
layers get through their weights at about half the speed of plain reading (one thread, measured), so
both speeds are in the estimate.
"""

from dataclasses import dataclass

import torch

from vrt.voxtral.config import FRAMES_PER_TOKEN, TOKEN_MS, VoxtralConfig
from vrt.voxtral.measure.speed import Speed
from vrt.voxtral.stem import StemState
from vrt.voxtral.weights import skeleton

PARTS = ("stem", "encoder", "projector", "decoder")


@dataclass(frozen=True)
class Reads:
    """Bytes that one token of 80 ms reads, by kind of work: weights by linear layers, the rest."""

    encoder_weights: int  # stem and projector with it
    encoder_keys_values: int
    decoder_weights: int  # the embeddings once, as the output matrix
    decoder_keys_values: int

    @property
    def weights(self) -> int:
        return self.encoder_weights + self.decoder_weights

    @property
    def keys_values(self) -> int:
        return self.encoder_keys_values + self.decoder_keys_values

    @property
    def total(self) -> int:
        return self.weights + self.keys_values


@dataclass(frozen=True)
class Estimate:
    """Milliseconds for one token, which is 80 ms of audio."""

    floor_ms: float  # reading all bytes and nothing else
    expected_ms: float  # weights at the speed of linear layers

    @property
    def real_time_factor(self) -> float:
        """Expected seconds of work a second of audio: above 1 the model cannot keep up."""
        return self.expected_ms / TOKEN_MS

    @property
    def best_real_time_factor(self) -> float:
        """The same at the floor, which nothing that reads these bytes goes below."""
        return self.floor_ms / TOKEN_MS


@dataclass(frozen=True)
class Cost:
    """Sizes of a model in one dtype. `state_bytes`: what a session of any length remembers."""

    config: VoxtralConfig
    dtype: torch.dtype
    parameters: dict[str, int]  # by part
    state_bytes: dict[str, int]  # by stage

    @property
    def weight_bytes(self) -> dict[str, int]:
        return {part: count * self.dtype.itemsize for part, count in self.parameters.items()}

    def reads(self, context: int | None = None, tokens_per_feed: int = 1) -> Reads:
        """Bytes read for a token at `context` earlier positions; None: the full window.

        A feed of several tokens goes through the encoder at once and reads its weights once. The
        delay's MLPs are not in it: their output is a constant of the session.
        """
        enc, dec, size = self.config.encoder, self.config.decoder, self.dtype.itemsize
        weights = self.weight_bytes
        encoder = sum(weights[part] for part in ("stem", "encoder", "projector"))
        conditioning = 2 * dec.layers * dec.width * dec.ada_dim * size
        slots = enc.window - 1 + FRAMES_PER_TOKEN
        positions = dec.window if context is None else min(context + 1, dec.window)
        return Reads(
            encoder_weights=encoder // tokens_per_feed,
            encoder_keys_values=2 * enc.layers * enc.heads * enc.head_dim * slots * size,
            decoder_weights=weights["decoder"] - conditioning,
            decoder_keys_values=2 * dec.layers * dec.kv_heads * dec.head_dim * positions * size,
        )

    def estimate(
        self, speed: Speed, context: int | None = None, tokens_per_feed: int = 1
    ) -> Estimate:
        """Time of a token on a machine of this speed, measured in this model's dtype."""
        reads = self.reads(context, tokens_per_feed)
        expected = reads.weights / speed.linear + reads.keys_values / speed.read
        return Estimate(1000 * reads.total / speed.read, 1000 * expected)


def cost(config: VoxtralConfig, dtype: torch.dtype) -> Cost:
    """The cost of a model of this configuration; builds its shapes, allocates nothing."""
    model = skeleton(config).to(dtype)
    parameters = {
        part: sum(weight.numel() for weight in getattr(model, part).parameters()) for part in PARTS
    }
    states = {
        "conv_stem": StemState(model.stem),
        "encoder": model.encoder.state(),
        "decoder": model.decoder.state(config.delay_tokens),
    }
    return Cost(config, dtype, parameters, {stage: state.nbytes for stage, state in states.items()})
