"""Trees grow; what no hypothesis comes from is dropped when they are full.

n nodes in use, heads: nodes that are held on to.
"""

from heapq import heapify, heappop, heappush
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Int64

from vrt.rnnt.fast.jit import jit
from vrt.rnnt.fast.trees import NONE, Emissions, Prefixes

Tree = TypeVar("Tree", Prefixes, Emissions)
Heads = Int64[np.ndarray, "heads"]


def has_room(tree: Prefixes | Emissions, more: int) -> bool:
    return int(tree.count[0]) + more <= len(tree.label)


def meeting(parents: Int64[np.ndarray, "n"], heads: Heads) -> int:
    """The last node that all heads come from, NONE if there is none."""
    known = {int(head) for head in heads}
    if NONE in known or not known:
        return NONE
    fringe = [-head for head in known]
    heapify(fringe)
    while len(fringe) > 1:  # a node's number is above its parent's: the largest is no ancestor
        parent = int(parents[-heappop(fringe)])
        if parent == NONE:
            return NONE
        if parent not in known:
            known.add(parent)
            heappush(fringe, -parent)
    return -fringe[0]


def trimmed(
    tree: Tree, heads: Heads, more: int, top: int = NONE
) -> tuple[Tree, Int64[np.ndarray, "n"]]:
    """A tree of the heads and what they come from, but nothing above `top`; with room for `more`
    nodes and half of it free. And the new number of each old node."""
    count = int(tree.count[0])
    parents = tree[0][:count]
    there = ancestry(parents, heads, top)
    new = np.where(there, np.cumsum(there) - 1, NONE)
    left = int(there.sum())
    size = max(len(tree.label), 2 * left + more)
    columns = [_moved(column[:count][there], size) for column in tree[:-1]]
    above = columns[0][:left]
    above[above != NONE] = new[above[above != NONE]]
    found = type(tree)(*columns, np.array([left]))
    if isinstance(found, Prefixes):
        relink(found.parent, found.child, found.sibling, left)
    return found, new


@jit
def ancestry(parents: Int64[np.ndarray, "n"], heads: Heads, top: int) -> Bool[np.ndarray, "n"]:
    """Which nodes are heads, or above one of them and not above `top`."""
    there = np.zeros(len(parents), dtype=np.bool_)
    for head in heads:
        node = head
        while node != NONE and not there[node]:
            there[node] = True
            node = NONE if node == top else parents[node]
    return there


def _moved(values: np.ndarray, size: int) -> np.ndarray:
    column = np.zeros(size, dtype=values.dtype)
    column[: len(values)] = values
    return column


@jit
def relink(
    parent: Int64[np.ndarray, "N"],
    child: Int64[np.ndarray, "N"],
    sibling: Int64[np.ndarray, "N"],
    count: int,
) -> None:
    """Children's lists from the parents."""
    child[:count] = NONE
    sibling[:count] = NONE
    for node in range(count):
        if parent[node] != NONE:
            sibling[node] = child[parent[node]]
            child[parent[node]] = node
