"""The K largest of each row, of equal ones those with the lower index first.

R rows, V classes.
"""

import numpy as np
import torch
from jaxtyping import Float, Int64

from vrt.rnnt.fast.jit import COMPILED, jit
from vrt.rnnt.ties import top_k


def largest(
    rows: Float[np.ndarray, "R V"], k: int
) -> tuple[Float[np.ndarray, "R K"], Int64[np.ndarray, "R K"]]:
    """Values in descending order, and where they stood. No row may hold NaN."""
    if not COMPILED:
        values, labels = top_k(torch.from_numpy(rows), k, "lowest")
        return values.numpy(), labels.numpy()
    values = np.empty((len(rows), k), dtype=rows.dtype)
    labels = np.empty((len(rows), k), dtype=np.int64)
    _insert(rows, values, labels)
    return values, labels


@jit
def _insert(
    rows: Float[np.ndarray, "R V"],
    values: Float[np.ndarray, "R K"],
    labels: Int64[np.ndarray, "R K"],
) -> None:
    for r in range(len(rows)):
        largest_of(rows[r], values[r], labels[r])


@jit
def largest_of(
    row: Float[np.ndarray, "V"], value: Float[np.ndarray, "K"], label: Int64[np.ndarray, "K"]
) -> None:
    """One row, into `value` and `label`."""
    last = len(value) - 1
    for v in range(len(row)):
        if v > last and row[v] <= value[last]:
            continue
        place = min(v, last)
        while place > 0 and value[place - 1] < row[v]:
            value[place] = value[place - 1]
            label[place] = label[place - 1]
            place -= 1
        value[place] = row[v]
        label[place] = v
