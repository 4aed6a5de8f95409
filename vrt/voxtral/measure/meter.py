"""What each stage of a stream takes in, gives out, remembers and costs, measured while it runs.

    meter = StageMeter()
    session = StreamingSession(model, observer=meter)
    meter.timed(session.begin)
    for samples in microphone:
        update = meter.timed(session.feed, samples)
    print(render(meter.table(session)))  # vrt.voxtral.measure.stage_table

Times are wall time. One token is 80 ms of audio.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any

from torch import Tensor

from vrt.voxtral.config import FRAMES_PER_TOKEN, MEL_PER_TOKEN, SAMPLES_PER_TOKEN
from vrt.voxtral.measure.flow import describe
from vrt.voxtral.measure.histogram import DurationHistogram
from vrt.voxtral.measure.stage_table import StageRow
from vrt.voxtral.observe import STAGES
from vrt.voxtral.session import StreamingSession

OVERHEAD, WHOLE = "session", "whole step"  # calls less their stages, and with them
ROWS_PER_TOKEN = {
    "mel": MEL_PER_TOKEN,
    "conv_stem": FRAMES_PER_TOKEN,
    "encoder": FRAMES_PER_TOKEN,
    "projector": 1,
    "logits": 1,
}
MS = 1e3


class Cost:
    """Calls, rows and time of one stage.

    A call's time is divided by the tokens that it gave out, and that of a call without output is
    added to the next one's: so the percentiles mean the same at every feed size.
    """

    def __init__(self) -> None:
        self.calls = self.rows = 0
        self.seconds = self._waiting = 0.0
        self.per_token = DurationHistogram()

    def add(self, seconds: float, rows: int, tokens: int | float) -> None:
        self.calls, self.rows = self.calls + 1, self.rows + rows
        self.seconds += seconds
        self._waiting += seconds
        if tokens:
            self.per_token.add(self._waiting / tokens)
            self._waiting = 0.0


class StageMeter:
    """An observer that measures one stream in constant memory; readable at any time."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything, before the session's next stream."""
        self._costs = {stage: Cost() for stage in (*STAGES, OVERHEAD, WHOLE)}

    def __call__(self, stage: str, output: Tensor, seconds: float) -> None:
        rows = 1 if stage == "logits" else len(output)  # the logits of a call are one vector
        self._costs[stage].add(seconds, rows, rows / ROWS_PER_TOKEN[stage])

    def timed(self, call: Callable[..., Any], *args: Any) -> Any:
        """`call(*args)`, a method of the observed session: time outside all stages is overhead."""
        encoded, inside = self._encoded, self._inside
        start = perf_counter()
        try:
            return call(*args)
        finally:
            seconds = perf_counter() - start
            tokens = self._encoded - encoded
            self._costs[OVERHEAD].add(seconds - (self._inside - inside), tokens, tokens)
            self._costs[WHOLE].add(seconds, tokens, tokens)

    @property
    def seconds(self) -> float:
        """Of all timed calls together."""
        return self._costs[WHOLE].seconds

    @property
    def _inside(self) -> float:
        return sum(self._costs[stage].seconds for stage in STAGES)

    @property
    def _encoded(self) -> int:
        return self._costs["projector"].rows

    def table(self, session: StreamingSession) -> list[StageRow]:
        """A row for each stage, then the session's overhead, then the whole step."""
        sizes = session.state_bytes
        flows = describe(session.model.config, sizes, session.model.dtype.itemsize)
        rows = []
        for observed, flow in zip(STAGES, flows, strict=True):
            cost = self._costs[observed]
            rows_in = cost.rows * flow.in_per_out
            if observed == "logits" and cost.rows:
                rows_in += session.schedule.prompt_len - 1  # the first call takes the whole prompt
            texts = (flow.stage, flow.takes_in, flow.gives_out, flow.remembers)
            rows.append(self._row(texts, flow.remembers_bytes, cost, rows_in, cost.rows))
        through = (rows[0].rows_in, rows[-1].rows_out)  # samples, tokens
        overhead, whole = self._costs[OVERHEAD], self._costs[WHOLE]
        texts = (WHOLE, f"{SAMPLES_PER_TOKEN} samples", "1 token", "all of these")
        rows.append(self._row((OVERHEAD, "", "", ""), 0, overhead, *through))
        rows.append(self._row(texts, sum(sizes.values()), whole, *through))
        return rows

    def _row(
        self, texts: tuple[str, str, str, str], held: int, cost: Cost, rows_in: int, rows_out: int
    ) -> StageRow:
        p50, p95 = cost.per_token.percentile(50), cost.per_token.percentile(95)
        return StageRow(
            *texts,
            remembers_bytes=held,
            calls=cost.calls,
            rows_in=rows_in,
            rows_out=rows_out,
            p50_ms=None if p50 is None else p50 * MS,
            p95_ms=None if p95 is None else p95 * MS,
            total_ms=cost.seconds * MS,
            share=cost.seconds / self.seconds if self.seconds else None,
        )
