"""An encoder stream without caches: for every token, encode again all that can reach it.

T mel frames (10 ms), D encoder width, W window, L layers.

One layer lets a frame see W - 1 earlier ones, L layers let it see L (W - 1): to get the newest
4 frames right, L (W - 1) + 4 frames must be encoded, and not W + 10 or so, which holds for one
layer only. Slow and simple: an oracle for the ring, and what a port without caches would cost.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from vrt.voxtral.config import FRAMES_PER_TOKEN, MEL_PER_TOKEN, EncoderConfig
from vrt.voxtral.encoder import Encoder
from vrt.voxtral.stem import ConvStem

# Encoder frame i needs mel frames 2 i - 3 .. 2 i + 1, so the zeros that the stem puts before a
# slice spoil its first two frames: one token of context more, thrown away after the stem.
STEM_CONTEXT_TOKENS = 1


def receptive_frames(config: EncoderConfig) -> int:
    """Encoder frames that the newest 4 depend on, themselves included."""
    return config.layers * (config.window - 1) + FRAMES_PER_TOKEN


class ReencodeStream:
    """Mel in, encoder frames out, one token at a time; remembers mel frames only.

    `frames`: how many encoder frames to encode again for each token, rounded up to whole tokens;
    by default the receptive field. Fewer are cheaper and wrong once that many have passed.
    """

    def __init__(self, stem: ConvStem, encoder: Encoder, frames: int | None = None):
        wanted = receptive_frames(encoder.config) if frames is None else frames
        if wanted < FRAMES_PER_TOKEN:
            raise ValueError(f"frames={frames} is less than the {FRAMES_PER_TOKEN} of one token")
        self.stem, self.encoder = stem, encoder
        self.tokens = -(-wanted // FRAMES_PER_TOKEN)
        self.reset()

    def reset(self) -> None:
        self.mel = torch.empty(0, self.stem.conv1.channels)
        self.seen = 0  # tokens

    @torch.no_grad()
    def feed(self, mel: Float[Tensor, "T M"]) -> Float[Tensor, "half D"]:
        """Encoder frames of the next whole tokens (T a multiple of 8)."""
        frames = [self._token(piece) for piece in mel.split(MEL_PER_TOKEN) if len(piece)]
        width = self.encoder.config.width
        return torch.cat(frames) if frames else torch.empty(0, width)

    def _token(self, mel: Float[Tensor, "8 M"]) -> Float[Tensor, "4 D"]:
        keep = (self.tokens + STEM_CONTEXT_TOKENS) * MEL_PER_TOKEN
        self.mel = torch.cat([self.mel, mel])[-keep:]
        self.seen += 1
        x = self.stem(self.mel)
        start = self.seen * FRAMES_PER_TOKEN - len(x)  # absolute position of the slice
        if start:
            spoiled = STEM_CONTEXT_TOKENS * FRAMES_PER_TOKEN
            x, start = x[spoiled:], start + spoiled
        return self.encoder(x, start=start)[-FRAMES_PER_TOKEN:]
