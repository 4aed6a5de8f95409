"""Voxtral Realtime as one module: stem, encoder, projector, decoder.

N positions (80 ms), D encoder width, E decoder width.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from vrt.voxtral.config import FRAMES_PER_TOKEN, VoxtralConfig
from vrt.voxtral.decoder import Decoder
from vrt.voxtral.encoder import Encoder
from vrt.voxtral.layers import pad_rows
from vrt.voxtral.mel import LogMel
from vrt.voxtral.stem import ConvStem
from vrt.voxtral.tokenizer import Tokenizer


class Projector(nn.Module):
    """4 encoder frames side by side -> one audio embedding."""

    def __init__(self, config: VoxtralConfig):
        super().__init__()
        stacked, width = FRAMES_PER_TOKEN * config.encoder.width, config.decoder.width
        self.linear1 = nn.Linear(stacked, width, bias=False)
        self.linear2 = nn.Linear(width, width, bias=False)

    def forward(self, frames: Float[Tensor, "four_N D"]) -> Float[Tensor, "N E"]:
        tokens = frames.reshape(len(frames) // FRAMES_PER_TOKEN, -1)
        return self.linear2(F.gelu(self.linear1(pad_rows(tokens))))[: len(tokens)]


class VoxtralRealtime(nn.Module):
    """The weights and nothing else: what a stream remembers lives in its session.

    `tokenizer` turns token ids into text; None leaves a transcript with ids only.
    """

    def __init__(self, config: VoxtralConfig):
        super().__init__()
        self.config = config
        self.log_mel = LogMel(config.mel_bins)
        self.stem = ConvStem(config)
        self.encoder = Encoder(config.encoder)
        self.projector = Projector(config)
        self.decoder = Decoder(config.decoder)
        self.tokenizer: Tokenizer | None = None

    @property
    def dtype(self) -> torch.dtype:
        return self.decoder.norm.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.decoder.norm.weight.device
