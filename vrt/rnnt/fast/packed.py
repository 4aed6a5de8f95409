"""A matrix laid out once for products with few rows, and the weights of a transducer laid out so.

R rows, D inputs, O outputs, V classes, H predictor width, J joint width, L LSTM layers.

A search multiplies one to some dozens of rows at a time: weights have to be read, and little else
matters. oneDNN reads its own layout at the speed of memory, but makes that layout anew at every
call of `nn.LSTM` or `nn.Linear`; here it is made once, by operators that torch does not document
(`torch.ops.mkldnn`, present since 2.0).
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor

from vrt.rnnt.config import BeamError
from vrt.rnnt.model import Transducer

ROW_HINT = 8  # rows that oneDNN lays the weights out for


class PackedMatrix:
    """x @ weight.T + bias."""

    def __init__(self, weight: Float32[Tensor, "O D"], bias: Float32[Tensor, "O"] | None = None):
        self.bias = None if bias is None else bias.detach().clone()
        self._onednn = torch.backends.mkldnn.is_available()
        weight = weight.detach()
        if self._onednn:
            self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, ROW_HINT)
        else:
            self.weight = weight.t().contiguous()

    def __call__(self, x: Float32[np.ndarray, "R D"]) -> Float32[np.ndarray, "R O"]:
        rows = torch.from_numpy(x)
        if self._onednn:
            y = torch.ops.mkldnn._linear_pointwise(rows, self.weight, self.bias, "none", [], "")
        elif self.bias is None:
            y = rows @ self.weight
        else:
            y = torch.addmm(self.bias, rows, self.weight)
        return y.numpy()


@dataclass(frozen=True)
class Layer:
    """An LSTM layer. What its input and its own last output add to the gates comes apart."""

    enter: PackedMatrix | None  # of the input, with both biases; None where it is a table
    again: PackedMatrix  # of the last output


class PackedTransducer:
    """Predictor and joint of a transducer, for `fast_malsd` and its neighbours. A copy: later
    changes of the model are not seen.

    What a label adds to the first layer's gates is a row of a table, [V, 4H].

    Raises:
        BeamError: a TDT model, weights that are not fp32 on a CPU, or not finite.
    """

    @torch.no_grad()
    def __init__(self, transducer: Transducer):
        config = transducer.config
        refuse(transducer)
        self.vocab, self.blank = config.vocab, config.blank
        self.activation = config.activation
        self.joint_width, self.width = config.joint_width, config.predictor_width
        lstm = transducer.decoder.lstm
        bias = [getattr(lstm, f"bias_ih_l{n}") + getattr(lstm, f"bias_hh_l{n}") for n in
                range(config.predictor_layers)]
        self.table = torch.addmm(bias[0], transducer.decoder.embed, lstm.weight_ih_l0.t()).numpy()
        self.layers = [
            Layer(
                None if n == 0 else PackedMatrix(getattr(lstm, f"weight_ih_l{n}"), bias[n]),
                PackedMatrix(getattr(lstm, f"weight_hh_l{n}")),
            )
            for n in range(config.predictor_layers)
        ]
        self.pred = PackedMatrix(transducer.joint.pred.weight, transducer.joint.pred.bias)
        self.output = PackedMatrix(transducer.joint.output.weight, transducer.joint.output.bias)


def refuse(transducer: Transducer) -> None:
    if transducer.config.durations:
        raise BeamError(
            f"a TDT model with durations {transducer.config.durations} needs a search that skips"
            " frames; the fast searches go frame by frame"
        )
    for name, weight in transducer.named_parameters():
        if weight.dtype != torch.float32 or weight.device.type != "cpu":
            raise BeamError(
                f"the fast searches take fp32 weights on a CPU; {name} is {weight.dtype} on"
                f" {weight.device}: convert the model, or use malsd"
            )
        if not weight.isfinite().all():
            raise BeamError(f"weights of {name} are NaN or infinite")
