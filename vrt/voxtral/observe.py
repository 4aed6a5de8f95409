"""Watching a stream: every stage's output and what it cost, at no price when nobody watches."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

from torch import Tensor

STAGES = ("mel", "conv_stem", "encoder", "projector", "logits")

# (stage, its output, seconds it took)
Observer = Callable[[str, Tensor, float], None]


def observed(
    observer: Observer | None, stage: str, call: Callable[..., Tensor], *args: Any
) -> Tensor:
    """`call(*args)`, told to the observer if there is one."""
    if observer is None:
        return call(*args)
    start = perf_counter()
    output = call(*args)
    observer(stage, output, perf_counter() - start)
    return output
