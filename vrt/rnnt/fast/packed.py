"""A matrix laid out once for products with few rows, and the weights of a transducer laid out so.

R rows, D inputs, O outputs, V classes, H predictor width, J joint width, L LSTM layers.

A search multiplies one to some dozens of rows at a time: weights have to be read, and little else
matters. oneDNN reads its own layout at the speed of memory, but makes that layout anew at every
call of `nn.LSTM` or `nn.Linear`; here it is made once, by operators that torch does not document
(`torch.ops.mkldnn`, present since 2.0).
"""

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

from vrt.rnnt.config import BeamError
from vrt.rnnt.model import ModelScorer, Transducer

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


class PackedScorer(ModelScorer):
    """A transducer's scorer with its weights laid out for the fast searches: made once, for many.

    Later changes of the model are not seen by those. What a label adds to the first layer's gates
    is a row of a table, [V, 4H].

    Raises:
        BeamError: a TDT model, or weights that are not fp32 on a CPU, or not finite.
    """

    @torch.no_grad()
    def __init__(self, transducer: Transducer):
        super().__init__(transducer)
        config, lstm = transducer.config, transducer.decoder.lstm
        refuse_weights(transducer)
        self.activation = config.activation
        self.joint_width, self.width = config.joint_width, config.predictor_width
        numbers = range(config.predictor_layers)
        biases = [getattr(lstm, f"bias_ih_l{n}") + getattr(lstm, f"bias_hh_l{n}") for n in numbers]
        table = torch.addmm(biases[0], transducer.decoder.embed, lstm.weight_ih_l0.t())
        self.table = table.numpy()
        self.enter = [None] + [
            PackedMatrix(getattr(lstm, f"weight_ih_l{n}"), biases[n]) for n in numbers[1:]
        ]  # of a layer's input, with both biases; None where the table stands for it
        self.again = [PackedMatrix(getattr(lstm, f"weight_hh_l{n}")) for n in numbers]
        self.pred = PackedMatrix(transducer.joint.pred.weight, transducer.joint.pred.bias)
        self.output = PackedMatrix(transducer.joint.output.weight, transducer.joint.output.bias)


def refuse_weights(transducer: Transducer) -> None:
    for name, weight in transducer.named_parameters():
        if weight.dtype != torch.float32 or weight.device.type != "cpu":
            raise BeamError(
                f"the fast searches take fp32 weights on a CPU; {name} is {weight.dtype} on"
                f" {weight.device}: convert the model, or use malsd"
            )
        if not weight.isfinite().all():
            raise BeamError(f"{name} holds NaN or infinite weights")
