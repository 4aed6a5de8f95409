"""The LSTM operation.

S steps, B batch, I input width, H hidden width. MIL stacks the gates as input, forget, output,
cell; torch as input, forget, cell, output. One bias is the sum of torch's two.
"""

import numpy as np

from vrt.coreml.errors import CoreMLError
from vrt.coreml.ops.elementwise import sigmoid
from vrt.coreml.types import Array


def lstm(
    x: Array,
    initial_h: Array,
    initial_c: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias: Array | None = None,
    direction: str = "forward",
    output_sequence: Array | bool = False,
    recurrent_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    activation: str = "tanh",
) -> tuple[Array, Array, Array]:
    """x [S, B, I], states [B, H], weights [4H, I] and [4H, H]: outputs [S or 1, B, H], h, c.

    Peepholes, clipping and a second direction are unknown: such a program is refused.
    """
    kind = (direction, recurrent_activation, cell_activation, activation)
    if kind[0] not in ("forward", "reverse") or kind[1:] != ("sigmoid", "tanh", "tanh"):
        raise CoreMLError(f"lstm of the kind {kind}: known is one direction, sigmoid, tanh, tanh")
    h, c = initial_h, initial_c
    outputs = []
    for step in x if direction == "forward" else x[::-1]:
        gates = step @ weight_ih.T + h @ weight_hh.T
        i, f, o, z = np.split(gates if bias is None else gates + bias, 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(z)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    ordered = outputs if direction == "forward" else outputs[::-1]
    return np.stack(ordered if output_sequence else outputs[-1:]), h, c


RECURRENT = {"lstm": lstm}
