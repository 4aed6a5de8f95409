"""A timed search as one flat row: what a receipt holds and a table prints.

B utterances, K beam slots. Times are those of the whole batch; NeMo's arms are named by its
settings.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from vrt.bench.beam_settings import GOALS, Case
from vrt.bench.rows import OURS
from vrt.bench.timing import Timing

CLEAR = "clear search"
INSTALLED, NO_ONEDNN = "NeMo, as installed", "NeMo, oneDNN off"
DEFAULT_MALLOC, KEEPING_MALLOC = "default", "keeps freed memory"


@dataclass(frozen=True)
class BeamRow:
    """`times_ours` is the arm's CPU time over that of vrt's fast search in the same rounds."""

    case: str
    batch: int
    beam: int | None
    arm: str
    allocator: str
    repeats: int
    cpu_median_ms: float
    cpu_min_ms: float
    cpu_max_ms: float
    wall_median_ms: float
    wall_min_ms: float
    wall_max_ms: float
    times_ours: float


@dataclass(frozen=True)
class Comparison:
    """NeMo's CPU time over vrt's: its better setting (the best of all), and as it comes. A goal is
    the ratio that was wanted at least."""

    case: str
    better: float
    better_arm: str
    installed: float
    goal_better: float | None
    goal_installed: float | None
    same_hypotheses: bool
    closest_decision: float  # of the clear search, natural log; below 1e-3 rounding may decide
    largest_score_difference: float


def beam_rows(
    case: Case, timings: Mapping[str, Timing], allocator: str, repeats: int
) -> list[BeamRow]:
    ours = timings[OURS].cpu_ms.median
    return [
        BeamRow(
            case.name,
            case.batch,
            case.beam,
            arm,
            allocator,
            repeats,
            *(timing.cpu_ms.median, timing.cpu_ms.min, timing.cpu_ms.max),
            *(timing.wall_ms.median, timing.wall_ms.min, timing.wall_ms.max),
            timing.cpu_ms.median / ours,
        )
        for arm, timing in timings.items()
    ]


def comparison(
    case: Case, rows: list[BeamRow], same: bool, margin: float, difference: float
) -> Comparison:
    """Of one case's rows under both allocators. Each ratio is of one set of rounds; the least of
    NeMo's is that of its better setting."""
    peers = [row for row in rows if row.arm in (INSTALLED, NO_ONEDNN)]
    best = min(peers, key=lambda row: row.times_ours)
    first = next(r for r in peers if r.arm == INSTALLED and r.allocator == DEFAULT_MALLOC)
    better_goal, installed_goal = GOALS.get(case, (None, None))
    return Comparison(
        case.name,
        best.times_ours,
        f"{best.arm}, malloc {best.allocator}",
        first.times_ours,
        better_goal,
        installed_goal,
        same,
        margin,
        difference,
    )
