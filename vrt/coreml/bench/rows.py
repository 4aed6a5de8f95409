"""A receipt's row of a sweep: one function on one device, all its rounds together.

Times are milliseconds of a call from arrays of the host to arrays of the host.
"""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vrt.coreml.bench.children import Ended
from vrt.coreml.bench.devices import Backend, backend_of
from vrt.coreml.bench.jobs import Arm
from vrt.coreml.bench.memory import slope
from vrt.coreml.contract import Contract


@dataclass(frozen=True)
class Round:
    """How one process ended; `p50_ms` and `p95_ms` are of its own calls. Growth is in bytes a call
    of the memory that it held."""

    outcome: str
    why: str
    reached: str
    seconds: float
    exit_code: int | None
    signal: str | None
    calls: int
    compile_ms: float | None
    cold_load_ms: float | None
    warm_load_ms: float | None
    first_predict_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    rss_start_bytes: int | None
    rss_end_bytes: int | None
    rss_slope_bytes_per_call: float | None
    agreement: dict[str, Any] | None

    @classmethod
    def of(cls, ended: Ended, agreement: dict[str, Any] | None) -> "Round":
        first = {phase["phase"]: phase["wall_ms"] for phase in ended.phases if "cpu_ms" in phase}
        wall = calls_of(ended, "wall_ms")
        read = [p for p in ended.phases if p["phase"] == "calls" and p["rss_bytes"] is not None]
        held = [phase["rss_bytes"] for phase in read]
        return cls(
            *(ended.outcome, ended.why, ended.reached, ended.seconds),
            *(ended.exit_code, ended.signal, len(wall)),
            *(first.get(n) for n in ("compile", "cold load", "warm load", "first predict")),
            *(percentile(wall, 50), percentile(wall, 95)),
            *(held[0] if held else None, held[-1] if held else None),
            slope([phase["until"] for phase in read], held),
            agreement,
        )


@dataclass(frozen=True)
class Row:
    """`p50_ms` and the others that are not in `Round` are over the calls of all rounds; `cpu` is
    time of the process's threads together. `times_first` is p50 over that of the first device.
    Loads are the median of the rounds. `beam` is K; `plan` Core ML's, of the last round that has
    one.
    """

    package: str
    function: str
    device: str
    backend: Backend
    kind: str | None
    beam: int | None
    precision: str | None
    measured: bool  # at least one round ended well
    calls: int
    p50_ms: float | None
    p95_ms: float | None
    cpu_p50_ms: float | None
    cpu_p95_ms: float | None
    compile_ms: float | None
    cold_load_ms: float | None
    warm_load_ms: float | None
    first_predict_ms: float | None
    rss_slope_bytes_per_call: float | None
    bytes_copied_per_call: int
    plan: dict[str, Any] | None
    rounds: tuple[Round, ...]
    times_first: float | None = None


def row_of(
    arm: Arm,
    contract: Contract | None,
    beam: int | None,
    bytes_copied: int,
    ends: Sequence[Ended],
    rounds: Sequence[Round],
) -> Row:
    wall, cpu = ([ms for e in ends for ms in calls_of(e, name)] for name in ("wall_ms", "cpu_ms"))
    plans = [p for e in ends for p in e.phases if p["phase"] == "placement"]
    backend = backend_of(arm.device)
    precision = "fp32" if backend == "torch" else getattr(contract, "precision", None)
    medians = {
        name: _median([getattr(r, name) for r in rounds])
        for name in (
            *("compile_ms", "cold_load_ms", "warm_load_ms", "first_predict_ms"),
            "rss_slope_bytes_per_call",
        )
    }
    return Row(
        **asdict(arm),
        backend=backend,
        kind=getattr(contract, "kind", None),
        beam=beam,
        precision=precision,
        measured=any(r.outcome == "ok" for r in rounds),
        calls=len(wall),
        p50_ms=percentile(wall, 50),
        p95_ms=percentile(wall, 95),
        cpu_p50_ms=percentile(cpu, 50),
        cpu_p95_ms=percentile(cpu, 95),
        **medians,
        bytes_copied_per_call=bytes_copied,
        plan={k: v for k, v in plans[-1].items() if k != "phase"} if plans else None,
        rounds=tuple(rounds),
    )


def calls_of(ended: Ended, name: str) -> list[float]:
    """Milliseconds of every call that was reported."""
    return [ms for phase in ended.phases if phase["phase"] == "calls" for ms in phase[name]]


def percentile(values: Sequence[float], share: int) -> float | None:
    """Linear between the two nearest; None of nothing."""
    return float(np.percentile(values, share)) if len(values) else None


def _median(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return statistics.median(there) if there else None
