"""Inputs that a package is asked: random ones, and those on which exports are known to break.

K rows. Each probe starts from the graph's own random inputs and changes some of them.
"""

from collections.abc import Callable

import numpy as np

from vrt.coreml.golden_vectors import Arrays
from vrt.coreml.graphs import Graph

STRONG = 16.0  # times a random input: one class takes all, the others are far down
SHUT = -1e4  # below any other term: every unit of a ReLU is 0
STATES = {"h_in", "c_in", "keys", "values"}


def probes(graph: Graph, seed: int, rounds: int) -> list[tuple[str, Arrays]]:
    """Named inputs, the same for the same seed."""
    random = np.random.default_rng(seed)
    found = [(f"random {i}", graph.draw(random)) for i in range(rounds)]
    changes: dict[str, Callable[[str, np.ndarray], np.ndarray]] = {
        "peaked": _strong,
        "long tails": _tails,
        "masked rows": _shut,
        "ties": _equal_rows,
        "silence": _silent,
    }
    for name, change in changes.items():
        feeds = graph.draw(random)
        found.append((name, {key: change(key, array) for key, array in feeds.items()}))
    found.append(("first and last ids", _extreme(graph, random)))
    return found


def _strong(name: str, array: np.ndarray) -> np.ndarray:
    return array * np.float32(STRONG) if _moves(name, array) else array


def _tails(name: str, array: np.ndarray) -> np.ndarray:
    """Every other row is strong, and of one sign."""
    if not _moves(name, array):
        return array
    changed = array.copy()
    changed[::2] = np.abs(changed[::2]) * np.float32(STRONG)
    return changed


def _shut(name: str, array: np.ndarray) -> np.ndarray:
    if name not in ("frames", "preserve"):
        return array
    changed = array.copy()
    changed[::2] = 1 if array.dtype.kind == "i" else SHUT
    return changed


def _equal_rows(name: str, array: np.ndarray) -> np.ndarray:
    """All rows of the beam are the first."""
    axis = 1 if name in STATES else 0
    return np.repeat(np.take(array, [0], axis), array.shape[axis], axis)


def _silent(name: str, array: np.ndarray) -> np.ndarray:
    return np.zeros_like(array) if array.dtype.kind == "f" else array


def _extreme(graph: Graph, random: np.random.Generator) -> Arrays:
    """Whole numbers at the ends of their range, turn about."""
    feeds = graph.draw(random)
    for port in graph.inputs:
        if port.dtype == "int32" and port.name in graph.draws:
            ends = [graph.draws[port.name].low, graph.draws[port.name].high - 1]
            feeds[port.name] = np.resize(ends, port.shape).astype(np.int32)
    return feeds


def _moves(name: str, array: np.ndarray) -> bool:
    """Activations, whose size is free; states of an LSTM stay within their range."""
    return array.dtype.kind == "f" and name not in STATES | {"cos", "sin"}
