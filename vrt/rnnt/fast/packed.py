"""A matrix laid out once for products with few rows, and the weights of a transducer laid out so.

R rows, D inputs, O outputs, V classes, H predictor width, J joint width, L LSTM layers.

A search multiplies one to some dozens of rows at a time: the weights have to be read, and up to
four rows little else matters; `product.multiply` does those. For more, oneDNN is faster, but lays
the weights out anew at every call of `nn.LSTM` or `nn.Linear`; here that is done once, by operators
that torch does not document (`torch.ops.mkldnn`, present since 2.0). Both layouts are kept.
"""

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

from vrt.rnnt.config import BeamError
from vrt.rnnt.fast.jit import COMPILED
from vrt.rnnt.fast.product import multiply
from vrt.rnnt.model import ModelScorer, Transducer

ROW_HINT = 8  # rows that oneDNN lays the weights out for
# Up to so many rows `multiply` is faster. Parakeet-size weights read from memory one after the
# other, 24 MB, on one core of a Zen 4: 1 row 0.7 ms against 0.9, 4 rows 1.0 against 1.4, 8 rows
# 1.6 against 1.9; read from the cache, 4 rows 0.59 against 0.58, 8 rows 1.19 against 1.07.
FEW = 4


class PackedMatrix:
    """x @ weight.T + bias."""

    def __init__(self, weight: Float32[Tensor, "O D"], bias: Float32[Tensor, "O"] | None = None):
        weight = weight.detach()
        self.bias = weight.new_zeros(len(weight)) if bias is None else bias.detach().clone()
        self.lines = weight.t().contiguous().numpy()
        self._onednn = torch.backends.mkldnn.is_available()
        if self._onednn:
            self._reordered = torch.ops.mkldnn._reorder_linear_weight(weight, ROW_HINT)

    def __call__(self, x: Float32[np.ndarray, "R D"]) -> Float32[np.ndarray, "R O"]:
        if COMPILED and len(x) <= FEW:
            y = np.empty((len(x), self.lines.shape[1]), dtype=np.float32)
            multiply(x, self.lines, self.bias.numpy(), y)
            return y
        rows = torch.from_numpy(x)
        if not self._onednn:
            return torch.addmm(self.bias, rows, torch.from_numpy(self.lines)).numpy()
        parts = rows, self._reordered, self.bias, "none", [], ""
        return torch.ops.mkldnn._linear_pointwise(*parts).numpy()


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
