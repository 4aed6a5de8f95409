"""Products of few rows with a large matrix, at the speed at which its weights can be read.

R rows, D inputs, O outputs. The weights lie as [D, O]: eight long lines of them are read side by
side, which the processor foresees, once for four rows. Each output is summed over its inputs in
order, so that a row's result is the same to the bit whatever other rows there are.
"""

import numpy as np
from jaxtyping import Float32

from vrt.rnnt.fast.jit import jit

Eight = tuple[float, float, float, float, float, float, float, float]


@jit
def multiply(
    x: Float32[np.ndarray, "R D"],
    weight: Float32[np.ndarray, "D O"],
    bias: Float32[np.ndarray, "O"],
    y: Float32[np.ndarray, "R O"],
) -> None:
    """y = x @ weight + bias."""
    rows, inputs = x.shape
    whole = inputs - inputs % 8
    for r in range(rows):
        y[r] = bias
    for d in range(0, whole, 8):
        for r in range(0, rows - rows % 4, 4):
            four_rows(x[r : r + 4], weight[d : d + 8], d, y[r : r + 4])
        r = rows - rows % 4
        if rows % 4 == 3:
            three_rows(x[r:], weight[d : d + 8], d, y[r:])
        elif rows % 4 == 2:
            two_rows(x[r:], weight[d : d + 8], d, y[r:])
        elif rows % 4 == 1:
            one_row(x[r:], weight[d : d + 8], d, y[r:])
    for d in range(whole, inputs):
        for r in range(rows):
            y[r] += x[r, d] * weight[d]


@jit
def eight_inputs(x: Float32[np.ndarray, "D"], d: int) -> Eight:
    return x[d], x[d + 1], x[d + 2], x[d + 3], x[d + 4], x[d + 5], x[d + 6], x[d + 7]


@jit
def eight_weights(w: Float32[np.ndarray, "8 O"], o: int) -> Eight:
    return w[0, o], w[1, o], w[2, o], w[3, o], w[4, o], w[5, o], w[6, o], w[7, o]


@jit
def added(y: float, x: Eight, w: Eight) -> float:
    y = y + x[0] * w[0] + x[1] * w[1] + x[2] * w[2] + x[3] * w[3]
    return y + x[4] * w[4] + x[5] * w[5] + x[6] * w[6] + x[7] * w[7]


@jit
def one_row(
    x: Float32[np.ndarray, "1 D"],
    weight: Float32[np.ndarray, "8 O"],
    d: int,
    y: Float32[np.ndarray, "1 O"],
) -> None:
    a, y0 = eight_inputs(x[0], d), y[0]
    for o in range(len(y0)):
        y0[o] = added(y0[o], a, eight_weights(weight, o))


@jit
def two_rows(
    x: Float32[np.ndarray, "2 D"],
    weight: Float32[np.ndarray, "8 O"],
    d: int,
    y: Float32[np.ndarray, "2 O"],
) -> None:
    a, b = eight_inputs(x[0], d), eight_inputs(x[1], d)
    y0, y1 = y[0], y[1]
    for o in range(len(y0)):
        w = eight_weights(weight, o)
        y0[o] = added(y0[o], a, w)
        y1[o] = added(y1[o], b, w)


@jit
def three_rows(
    x: Float32[np.ndarray, "3 D"],
    weight: Float32[np.ndarray, "8 O"],
    d: int,
    y: Float32[np.ndarray, "3 O"],
) -> None:
    a, b, c = eight_inputs(x[0], d), eight_inputs(x[1], d), eight_inputs(x[2], d)
    y0, y1, y2 = y[0], y[1], y[2]
    for o in range(len(y0)):
        w = eight_weights(weight, o)
        y0[o] = added(y0[o], a, w)
        y1[o] = added(y1[o], b, w)
        y2[o] = added(y2[o], c, w)


@jit
def four_rows(
    x: Float32[np.ndarray, "4 D"],
    weight: Float32[np.ndarray, "8 O"],
    d: int,
    y: Float32[np.ndarray, "4 O"],
) -> None:
    a, b, c = eight_inputs(x[0], d), eight_inputs(x[1], d), eight_inputs(x[2], d)
    e = eight_inputs(x[3], d)
    y0, y1, y2, y3 = y[0], y[1], y[2], y[3]
    for o in range(len(y0)):
        w = eight_weights(weight, o)
        y0[o] = added(y0[o], a, w)
        y1[o] = added(y1[o], b, w)
        y2[o] = added(y2[o], c, w)
        y3[o] = added(y3[o], e, w)
