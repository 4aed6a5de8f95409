"""The prediction network: labels said so far, in; a vector for the joint, out.

R rows (hypotheses), B utterances, U labels, V classes with blank last, H width, L LSTM layers.
Parameters have the names that NeMo gives them below `decoder.`.
"""

from typing import NamedTuple

from jaxtyping import Float, Int64
from torch import Tensor, nn


class LSTMState(NamedTuple):
    """What the LSTM remembers, one column a row; no call changes it in place."""

    h: Float[Tensor, "L R H"]
    c: Float[Tensor, "L R H"]

    def rows(self, index: Int64[Tensor, "n"]) -> "LSTMState":
        """Copies of these rows, in this order."""
        return LSTMState(self.h[:, index], self.c[:, index])


class Predictor(nn.Module):
    """An embedding and an LSTM.

    Blank is the start symbol. Its embedding is a row of zeros that training leaves alone; it is
    read like any other, as NeMo's searches do, so a checkpoint may have something else there.
    `dropout` acts between layers and on the output, in training only.
    """

    def __init__(self, vocab: int, width: int, layers: int, dropout: float = 0.0):
        super().__init__()
        self.vocab, self.width, self.layers = vocab, width, layers
        between = dropout if layers > 1 else 0.0
        lstm = nn.LSTM(width, width, layers, dropout=between)
        embed = nn.Embedding(vocab, width, padding_idx=vocab - 1)
        dec_rnn = nn.ModuleDict({"lstm": lstm})
        self.prediction = nn.ModuleDict({"embed": embed, "dec_rnn": dec_rnn})
        self.dropout = nn.Dropout(dropout)

    @property
    def blank(self) -> int:
        return self.vocab - 1

    @property
    def embed(self) -> Float[Tensor, "V H"]:
        """The embedding of each class."""
        return self.prediction["embed"].weight

    @property
    def lstm(self) -> nn.LSTM:
        """Gates in the order input, forget, cell, output: [4H, H] each way and two biases."""
        return self.prediction["dec_rnn"]["lstm"]

    def initial(self, rows: int) -> LSTMState:
        """Zeros: nothing was fed, not even the start symbol."""
        shape = (self.layers, rows, self.width)
        return LSTMState(self.embed.new_zeros(shape), self.embed.new_zeros(shape))

    def step(
        self, labels: Int64[Tensor, "R"], state: LSTMState
    ) -> tuple[Float[Tensor, "R H"], LSTMState]:
        """Feed one symbol to each row."""
        out, state = self.forward(labels.unsqueeze(-1), state)
        return out.squeeze(1), state

    def forward(
        self, labels: Int64[Tensor, "B U"], state: LSTMState | None = None
    ) -> tuple[Float[Tensor, "B U H"], LSTMState]:
        """Feed whole sequences; one that begins an utterance begins with blank."""
        x = self.prediction["embed"](labels).transpose(0, 1)
        out, after = self.lstm(x, self.initial(len(labels)) if state is None else tuple(state))
        return self.dropout(out).transpose(0, 1), LSTMState(*after)
