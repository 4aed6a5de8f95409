"""What a step costs outside the big stages: mel, conv stem and the session's own work.

Measured inside a real session: CPU and wall time of `feed`, less what encoder, projector and
decoder take of it.
"""

from collections.abc import Callable
from types import TracebackType

import torch
from torch import nn

from vrt.bench.timing import Instant, Timing, now, since
from vrt.voxtral.config import SAMPLES_PER_TOKEN, TOKEN_MS
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.session import StreamingSession

FRONT, WHOLE = "mel+stem+session", "whole step"


class Stopwatch:
    """Time spent in the calls of some modules, while its `with` lasts."""

    def __init__(self, *modules: nn.Module, clock: Callable[[], Instant] = now):
        self.modules, self.clock = modules, clock
        self.total: Instant = (0.0, 0.0)
        self._start: Instant = (0.0, 0.0)

    def __enter__(self) -> "Stopwatch":
        self._hooks = [m.register_forward_pre_hook(self._begin) for m in self.modules]
        self._hooks += [m.register_forward_hook(self._end) for m in self.modules]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for hook in self._hooks:
            hook.remove()

    def _begin(self, module: nn.Module, inputs: tuple) -> None:
        self._start = self.clock()

    def _end(self, module: nn.Module, inputs: tuple, output: object) -> None:
        cpu, wall = since(self._start, self.clock)
        self.total = (self.total[0] + cpu, self.total[1] + wall)


def session_steps(
    model: VoxtralRealtime,
    repeats: int,
    warm_up: int = 2,
    clock: Callable[[], Instant] = now,
) -> dict[str, Timing]:
    """`FRONT` and `WHOLE` of a session that is fed 80 ms at a time, past its prompt."""
    session = StreamingSession(model, model.config.delay_tokens * TOKEN_MS)
    session.begin()
    generator = torch.Generator().manual_seed(4)
    prompt = session.schedule.delay + 2  # the last one leaves the look-ahead behind
    front: list[Instant] = []
    whole: list[Instant] = []
    for turn in range(prompt + warm_up + repeats):
        samples = 0.1 * torch.randn(SAMPLES_PER_TOKEN, generator=generator).numpy()
        with Stopwatch(model.encoder, model.projector, model.decoder, clock=clock) as big:
            start = clock()
            session.feed(samples)
            length = since(start, clock)
        if turn >= prompt + warm_up:
            whole.append(length)
            front.append((length[0] - big.total[0], length[1] - big.total[1]))
    return {FRONT: Timing.of(front), WHOLE: Timing.of(whole)}
