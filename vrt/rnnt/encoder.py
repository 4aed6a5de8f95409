"""Causal acoustic encoder: two convolutions of stride 2, then LSTM layers with residuals.

B utterances, T mel frames (10 ms), M mel bins, S encoder frames (40 ms), E width, L layers,
C channels. Every function takes a state and hands one back; the state of a fresh stream stands for
silence before it, so whole and in pieces is the same computation.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

KERNEL = 3  # mel frames, and mel bins
STRIDE = 2  # in both, twice
SUBSAMPLING = STRIDE * STRIDE  # mel frames an encoder frame


@dataclass(frozen=True)
class EncoderConfig:
    """Widths of the encoder; `channels` are those of the two convolutions."""

    mel_bins: int = 40
    channels: tuple[int, int] = (16, 32)
    width: int = 160
    layers: int = 3
    dropout: float = 0.0  # in training, behind each layer

    @property
    def flat(self) -> int:
        """Channels times bins that are left behind the convolutions."""
        return self.channels[1] * -(-self.mel_bins // (STRIDE * STRIDE))


class EncoderState(NamedTuple):
    """What a stream remembers: unread input of each convolution, LSTM states."""

    mel: Float[Tensor, "B Tm 1 M"]
    hidden: Float[Tensor, "B Th C Mh"]  # behind the first convolution
    h: Float[Tensor, "L B E"]
    c: Float[Tensor, "L B E"]


class CausalConv(nn.Module):
    """Stride 2 in time and bins: an output sees its own two frames and the one before them."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, KERNEL, STRIDE, padding=(0, KERNEL // 2))

    def forward(
        self, x: Float[Tensor, "B T Ci Mi"]
    ) -> tuple[Float[Tensor, "B To Co Mo"], Float[Tensor, "B Tr Ci Mi"]]:
        """All outputs that `x` has the frames for, and the frames that later ones need."""
        count = max(0, (x.shape[1] - KERNEL) // STRIDE + 1)
        left = x[:, count * STRIDE :]
        if count == 0:
            bins = -(-x.shape[3] // STRIDE)
            return x.new_empty(x.shape[0], 0, self.conv.out_channels, bins), left
        y = self.conv(x.transpose(1, 2)).transpose(1, 2)
        return torch.relu(y), left


class ResidualLSTM(nn.Module):
    """x + LSTM(LayerNorm(x))."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "B S E"], h: Float[Tensor, "1 B E"], c: Float[Tensor, "1 B E"]
    ) -> tuple[Float[Tensor, "B S E"], Float[Tensor, "1 B E"], Float[Tensor, "1 B E"]]:
        y, (h, c) = self.lstm(self.norm(x), (h, c))
        return x + self.dropout(y), h, c


class AcousticEncoder(nn.Module):
    """Log-mels to encoder frames: S = T // 4."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        first, second = config.channels
        self.convs = nn.ModuleList([CausalConv(1, first), CausalConv(first, second)])
        self.into = nn.Linear(config.flat, config.width)
        self.layers = nn.ModuleList(
            ResidualLSTM(config.width, config.dropout) for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(config.width)

    def initial(self, rows: int, silence: float) -> EncoderState:
        """Before the first frame of a stream; `silence` is the front end's value for no power."""
        config, weight = self.config, self.into.weight
        half = -(-config.mel_bins // STRIDE)
        mel = weight.new_full((rows, KERNEL - STRIDE, 1, config.mel_bins), silence)
        hidden = weight.new_zeros(rows, KERNEL - STRIDE, config.channels[0], half)
        h = weight.new_zeros(config.layers, rows, config.width)
        return EncoderState(mel, hidden, h, torch.zeros_like(h))

    def forward(
        self, mel: Float[Tensor, "B T M"], state: EncoderState
    ) -> tuple[Float[Tensor, "B S E"], EncoderState]:
        """The encoder frames that `mel` completes, none or any number, and the state after them."""
        x, left_mel = self.convs[0](torch.cat([state.mel, mel.unsqueeze(2)], 1))
        x, left_hidden = self.convs[1](torch.cat([state.hidden, x], 1))
        if x.shape[1] == 0:
            return x.new_empty(*x.shape[:2], self.config.width), EncoderState(
                left_mel, left_hidden, state.h, state.c
            )
        x = self.into(x.flatten(2))
        hs, cs = [], []
        for index, layer in enumerate(self.layers):
            x, h, c = layer(x, state.h[index : index + 1], state.c[index : index + 1])
            hs.append(h)
            cs.append(c)
        return self.norm(x), EncoderState(left_mel, left_hidden, torch.cat(hs), torch.cat(cs))
