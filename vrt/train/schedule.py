"""How the learning rate goes: up in a straight line, then down along half a cosine."""

from math import cos, pi


def learning_rate(step: int, steps: int, peak: float, warm_up: int, last: float = 0.03) -> float:
    """At `step` of 0..steps-1; `last` is the share of `peak` that is left at the end."""
    if step < warm_up:
        return peak * (step + 1) / warm_up
    done = (step - warm_up) / max(1, steps - warm_up)
    return peak * (last + (1 - last) * 0.5 * (1 + cos(pi * done)))
