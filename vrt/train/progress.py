"""A line now and then: how far, the mean loss since the last line, the time that is left."""

import re
import time
from collections.abc import Callable

LINES = 100  # over a whole training
TOLD = re.compile(r"step (\d+)/\d+  loss (\S+)  ")


class Progress:
    """Counts steps; plain lines read the same on a terminal and in a log."""

    def __init__(self, steps: int, tell: Callable[[str], None]) -> None:
        self.steps, self.tell = steps, tell
        self.every = max(1, steps // LINES)
        self.done, self.losses = 0, []
        self.started = time.monotonic()

    def step(self, loss: float) -> None:
        self.done += 1
        self.losses.append(loss)
        if self.done % self.every and self.done < self.steps:
            return
        mean, self.losses = sum(self.losses) / len(self.losses), []
        spent = time.monotonic() - self.started
        left = spent / self.done * (self.steps - self.done)
        self.tell(
            f"step {self.done}/{self.steps}  loss {mean:.3f}  {_clock(spent)} spent,"
            f" {_clock(left)} left"
        )


def told(line: str) -> tuple[int, float]:
    """Step and mean loss of a line that `Progress` told. Raises ValueError for another line."""
    found = TOLD.match(line)
    if found is None:
        raise ValueError(f"no line of progress: {line!r}")
    return int(found[1]), float(found[2])


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
