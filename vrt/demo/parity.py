"""Is a stream what the whole clip gives? Every number of every stage, at several feed sizes."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vrt.audio import Clip
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.observe import STAGES
from vrt.voxtral.offline import transcribe
from vrt.voxtral.session import StreamingSession

EXACT_MACHINES = ("x86_64", "AMD64")  # where a row never depends on its batch: tests show it
ROUNDING = 1e-5  # relative


class Recorder:
    """An observer that keeps all rows of a short clip, and counts the calls that gave some."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Tensor]] = {stage: [] for stage in STAGES}

    def __call__(self, stage: str, output: Tensor, seconds: float) -> None:
        if output.numel():
            self._rows[stage].append(output.reshape(-1, output.shape[-1]).clone())

    def rows(self, stage: str) -> Tensor:
        return torch.cat(self._rows[stage]) if self._rows[stage] else torch.empty(0)

    def calls(self, stage: str) -> int:
        return len(self._rows[stage])


@dataclass(frozen=True)
class Comparison:
    """One stage of a stream against the whole clip.

    `largest`: the largest absolute difference, None where the shapes differ or a number is NaN.
    `scale`: the largest absolute number of the whole clip. `calls`: of the stream; the whole clip
    takes one a stage, and one a token for the logits.
    """

    feed_samples: int
    stage: str
    largest: float | None
    scale: float
    calls: int
    calls_offline: int

    @property
    def exact(self) -> bool:
        return self.largest == 0.0

    @property
    def rounding(self) -> bool:
        """Within what a row's company in a batch can change (measured in fp32: 1e-6)."""
        return self.largest is not None and self.largest <= ROUNDING * max(1.0, self.scale)


@dataclass(frozen=True)
class Parity:
    """All comparisons, and by feed size whether the token ids are equal."""

    comparisons: tuple[Comparison, ...]
    tokens_equal: dict[int, bool]
    tokens: int

    @property
    def exact(self) -> bool:
        return all(self.tokens_equal.values()) and all(c.exact for c in self.comparisons)

    @property
    def holds(self) -> bool:
        """Exact, or equal tokens up to rounding on a machine that nobody has shown to be exact."""
        if self.exact or platform.machine() in EXACT_MACHINES:
            return self.exact
        return all(self.tokens_equal.values()) and all(c.rounding for c in self.comparisons)


def check(model: VoxtralRealtime, clip: Clip, delay_ms: int, feeds: Sequence[int]) -> Parity:
    """Stream `clip` at each feed size (samples) and compare with one offline pass."""
    whole = Recorder()
    expected = transcribe(model, clip, delay_ms, observer=whole).ids
    comparisons: list[Comparison] = []
    tokens_equal: dict[int, bool] = {}
    for feed in feeds:
        pieces = Recorder()
        tokens_equal[feed] = _stream(model, clip, delay_ms, feed, pieces) == expected
        comparisons += [_compare(feed, stage, pieces, whole) for stage in STAGES]
    return Parity(tuple(comparisons), tokens_equal, len(expected))


def _stream(
    model: VoxtralRealtime, clip: Clip, delay_ms: int, feed: int, observer: Recorder
) -> list[int]:
    session = StreamingSession(model, delay_ms, observer=observer)
    session.begin()
    for at in range(0, len(clip.samples), feed):
        session.feed(clip.samples[at : at + feed])
    return session.finalize().ids


def _compare(feed: int, stage: str, pieces: Recorder, whole: Recorder) -> Comparison:
    got, expected = pieces.rows(stage), whole.rows(stage)
    largest: float | None = None
    if got.shape == expected.shape:
        difference = (got.double() - expected.double()).abs().max().item()
        largest = difference if difference == difference else None  # NaN is no difference
    scale = expected.abs().max().item()
    return Comparison(feed, stage, largest, scale, pieces.calls(stage), whole.calls(stage))


def render(parity: Parity) -> str:
    """A line a feed size: largest absolute difference by stage, and the tokens."""
    lines = [("samples a feed", *STAGES, "tokens")]
    for feed, equal in parity.tokens_equal.items():
        found = [c.largest for c in parity.comparisons if c.feed_samples == feed]
        cells = ["differs" if value is None else _difference(value) for value in found]
        verdict = f"{parity.tokens} equal" if equal else "DIFFER"
        lines.append((f"{feed}", *cells, verdict))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True))
        for line in lines
    )


def _difference(value: float) -> str:
    return "0.0" if value == 0 else f"{value:.1e}"
