"""A measured arm as one flat row: what a receipt holds, a table prints and a chart draws."""

from collections.abc import Mapping
from dataclasses import dataclass

from vrt.bench.bandwidth import Bandwidth
from vrt.bench.timing import Timing

OURS, TRANSFORMERS = "ours", "transformers"
PACKED = "ours, packed"
FROZEN = "transformers, frozen"  # after `model.requires_grad_(False)`
# What this project set out to reach: CPU time of an arm over that of its peer, at most.
GOALS = {
    "encoder chunk": 0.15,
    "decoder at 39": 1.0,
    "decoder at 8192": 0.75,
    "front": 0.02,
    "encoder, 480 ms": 0.5,
}


@dataclass(frozen=True)
class Row:
    """`ratio_to_floor` and `ratio_to_peer` compare CPU times (medians).

    `floor_cpu_ms`: the row's bytes over the read bandwidth of the same threads in CPU time;
    `floor_wall_ms` in wall time. `peer` names the arm that this one is compared with, and
    `difference_to_peer` is the relative RMS difference of their first outputs. `goal` is the
    ratio to the peer that was asked for.
    """

    row: str
    arm: str
    threads: int
    encoder_layers: int
    decoder_layers: int
    repeats: int
    cpu_median_ms: float
    cpu_min_ms: float
    cpu_max_ms: float
    wall_median_ms: float
    wall_min_ms: float
    wall_max_ms: float
    bytes: int
    floor_cpu_ms: float
    floor_wall_ms: float
    ratio_to_floor: float
    peer: str | None = None
    ratio_to_peer: float | None = None
    difference_to_peer: float | None = None
    goal: float | None = None


@dataclass(frozen=True)
class Measured:
    """Arms that were timed together: the first, and ours packed, are compared with the next one."""

    name: str
    timings: Mapping[str, Timing]
    bytes: Mapping[str, int]
    difference: float | None = None


def rows_of(
    measured: Measured,
    bandwidth: Bandwidth,
    threads: int,
    layers: tuple[int, int],
    repeats: int,
) -> list[Row]:
    """A row an arm; `layers` are the encoder's and the decoder's."""
    first, *others = measured.timings
    own = {first, PACKED}
    peer = next((arm for arm in others if arm not in own), None)
    rows = []
    for arm, timing in measured.timings.items():
        cpu, wall = timing.cpu_ms, timing.wall_ms
        floor_cpu, floor_wall = bandwidth.floor_ms(measured.bytes[arm])
        compared = peer is not None and arm in own
        rows.append(
            Row(
                measured.name,
                arm,
                threads,
                *layers,
                repeats,
                *(cpu.median, cpu.min, cpu.max),
                *(wall.median, wall.min, wall.max),
                measured.bytes[arm],
                floor_cpu,
                floor_wall,
                cpu.median / floor_cpu,
                peer if compared else None,
                cpu.median / measured.timings[peer].cpu_ms.median if compared else None,
                measured.difference if compared and arm == first else None,
                GOALS.get(measured.name) if compared else None,
            )
        )
    return rows
