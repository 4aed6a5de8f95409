"""Every alignment of labels with frames, one by one: what the lattice loss sums in one pass.

T encoder frames, U labels, N = U + 1 nodes a frame, V classes with blank last.
"""

from collections.abc import Iterator
from itertools import combinations

from jaxtyping import Float, Int64
from torch import Tensor

Move = tuple[int, int, bool]  # frame, labels said before, and whether a label is said (else blank)


def alignments(frames: int, labels: int) -> Iterator[tuple[Move, ...]]:
    """Each way to say `labels` labels in `frames` frames: T + U moves, the last of them a blank.

    There are (T - 1 + U) over U of them: only for lattices of a few frames. Raises ValueError for
    no frame or fewer than no labels.
    """
    if frames < 1 or labels < 0:
        raise ValueError(
            f"a lattice has 1 frame or more and 0 labels or more, got {frames, labels}"
        )
    count = frames - 1 + labels
    for said in combinations(range(count), labels):
        moves, t, u = [], 0, 0
        for number in range(count):
            is_label = number in said
            moves.append((t, u, is_label))
            t, u = (t, u + 1) if is_label else (t + 1, u)
        yield (*moves, (t, u, False))


def score(
    log_probs: Float[Tensor, "T N V"], labels: Int64[Tensor, "U"], path: tuple[Move, ...]
) -> Float[Tensor, ""]:
    """The log-probability of one alignment, in nats."""
    return sum(log_probs[t, u, labels[u] if is_label else -1] for t, u, is_label in path)
