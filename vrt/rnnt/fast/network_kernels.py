"""What a transducer computes between its matrix products, compiled.

R rows, C rows kept, V classes, H predictor width, J joint width, B utterances, T encoder frames.
"""

import numpy as np
from jaxtyping import Bool, Float32, Int64

from vrt.rnnt.fast.jit import jit
from vrt.rnnt.fast.largest import largest_of
from vrt.rnnt.fast.numeric import F, exp, sigmoid, tanh
from vrt.rnnt.fast.slots import Best

RELU, TANH, SIGMOID = range(3)
LANES = 64  # running maxima and sums side by side


@jit
def first_children(
    parents: Int64[np.ndarray, "n"],
    known: Bool[np.ndarray, "C"],
    first: Int64[np.ndarray, "C"],
) -> int:
    """Parents whose `again` is not known, each once, into `first`; from now on it is known."""
    count = 0
    for parent in parents:
        if not known[parent]:
            known[parent] = True
            first[count] = parent
            count += 1
    return count


@jit
def cell(
    gates: Float32[np.ndarray, "n G"],
    again: Float32[np.ndarray, "C G"],
    c: Float32[np.ndarray, "C H"],
    h: Float32[np.ndarray, "C H"],
    rows: Int64[np.ndarray, "n"],
    parents: Int64[np.ndarray, "n"],
    out: Float32[np.ndarray, "n H"],
) -> None:
    """LSTM cells: `gates` from the input, `again[parent]` from the parent's output, in torch's
    order: input, forget, candidate, output. `gates` are overwritten. Short loops over few arrays
    become vector instructions, one long loop does not."""
    width = c.shape[1]
    for n in range(len(rows)):
        gate, recurrent = gates[n], again[parents[n]]
        for i in range(4 * width):
            gate[i] += recurrent[i]
        taken, kept = gate[:width], gate[width : 2 * width]
        candidate, said = gate[2 * width : 3 * width], gate[3 * width :]
        squash(gate[: 2 * width])
        squash(said)
        for i in range(width):
            taken[i] *= tanh(candidate[i])
        c_old, c_new, h_new = c[parents[n]], c[rows[n]], h[rows[n]]
        for i in range(width):
            c_new[i] = kept[i] * c_old[i] + taken[i]
        for i in range(width):
            h_new[i] = said[i] * tanh(c_new[i])
        out[n] = h_new


@jit
def squash(x: Float32[np.ndarray, "n"]) -> None:
    for i in range(len(x)):
        x[i] = sigmoid(x[i])


@jit
def hidden(
    frames: Float32[np.ndarray, "B T J"],
    utterances: Int64[np.ndarray, "R"],
    places: Int64[np.ndarray, "R"],
    predicted: Float32[np.ndarray, "C J"],
    rows: Int64[np.ndarray, "R"],
    activation: int,
    out: Float32[np.ndarray, "R J"],
) -> None:
    """What the joint's last layer reads. NaN stays NaN."""
    for r in range(len(rows)):
        frame, said, to = frames[utterances[r], places[r]], predicted[rows[r]], out[r]
        if activation == RELU:
            for j in range(len(to)):
                x = frame[j] + said[j]
                to[j] = F(0.0) if x <= F(0.0) else x
        elif activation == TANH:
            for j in range(len(to)):
                to[j] = tanh(frame[j] + said[j])
        else:
            for j in range(len(to)):
                to[j] = sigmoid(frame[j] + said[j])


@jit
def following(logits: Float32[np.ndarray, "R V"], blank: int, best: Best) -> int:
    """Fill `best`; log_softmax as torch has it, (logit - top) - log(sum), of the K best alone.

    The first row that has none, or -1.
    """
    lanes = np.empty(LANES, dtype=np.float32)
    for r in range(len(logits)):
        row, values = logits[r], best.values[r]
        top = highest(row, lanes)
        if not (-F(np.inf) < top < F(np.inf)):
            return r
        log_sum = F(np.log(exp_sum(row, top, lanes)))
        largest_of(row, values, best.labels[r])
        for j in range(len(values)):
            values[j] = (values[j] - top) - log_sum
        best.blank[r] = (row[blank] - top) - log_sum
    return -1


@jit
def highest(row: Float32[np.ndarray, "V"], lanes: Float32[np.ndarray, "lanes"]) -> float:
    """NaN if there is one."""
    lanes[:] = -F(np.inf)
    size, undefined = len(lanes), 0
    for start in range(0, len(row), size):
        part = row[start : start + size]
        for i in range(len(part)):
            x = part[i]
            lanes[i] = x if x > lanes[i] or x != x else lanes[i]
    top = -F(np.inf)
    for i in range(size):
        undefined += lanes[i] != lanes[i]
        top = max(top, lanes[i])
    return F(np.nan) if undefined else top


@jit
def exp_sum(
    row: Float32[np.ndarray, "V"], top: float, lanes: Float32[np.ndarray, "lanes"]
) -> float:
    """Of exp(row - top). A fixed order of additions that vector instructions can follow."""
    lanes[:] = F(0.0)
    size = len(lanes)
    for start in range(0, len(row), size):
        part = row[start : start + size]
        for i in range(len(part)):
            lanes[i] += exp(part[i] - top)
    total = F(0.0)
    for i in range(size):
        total += lanes[i]
    return total
