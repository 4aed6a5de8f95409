"""What `network_kernels` has, by numpy: where numba is not installed. The same up to rounding.

R rows, C rows kept, V classes, H predictor width, J joint width, B utterances, T encoder frames.
"""

import numpy as np
from jaxtyping import Float32, Int64

from vrt.rnnt.fast.largest import largest
from vrt.rnnt.fast.network_kernels import RELU, TANH
from vrt.rnnt.fast.slots import Best


def cell(
    gates: Float32[np.ndarray, "n G"],
    again: Float32[np.ndarray, "C G"],
    c: Float32[np.ndarray, "C H"],
    h: Float32[np.ndarray, "C H"],
    rows: Int64[np.ndarray, "n"],
    parents: Int64[np.ndarray, "n"],
    out: Float32[np.ndarray, "n H"],
) -> None:
    taken, kept, candidate, said = np.split(gates + again[parents], 4, axis=1)
    c[rows] = _sigmoid(kept) * c[parents] + _sigmoid(taken) * np.tanh(candidate)
    out[:] = _sigmoid(said) * np.tanh(c[rows])
    h[rows] = out


def hidden(
    frames: Float32[np.ndarray, "B T J"],
    utterances: Int64[np.ndarray, "R"],
    places: Int64[np.ndarray, "R"],
    predicted: Float32[np.ndarray, "C J"],
    rows: Int64[np.ndarray, "R"],
    activation: int,
    out: Float32[np.ndarray, "R J"],
) -> None:
    np.add(frames[utterances, places], predicted[rows], out=out)
    if activation == RELU:
        np.maximum(out, 0, out=out)
    else:
        out[:] = np.tanh(out) if activation == TANH else _sigmoid(out)


def following(logits: Float32[np.ndarray, "R V"], blank: int, best: Best) -> int:
    top = logits.max(axis=1)
    undefined = np.flatnonzero(~np.isfinite(top))
    if len(undefined):
        return int(undefined[0])
    log_sum = np.log(np.exp(logits - top[:, None]).sum(axis=1))
    values, best.labels[:] = largest(logits, best.values.shape[1])
    best.values[:] = (values - top[:, None]) - log_sum[:, None]
    best.blank[:] = (logits[:, blank] - top) - log_sum
    return -1


def _sigmoid(x: Float32[np.ndarray, "n H"]) -> Float32[np.ndarray, "n H"]:
    return 1 / (1 + np.exp(-np.clip(x, -87, 87)))
