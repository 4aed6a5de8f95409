"""A receipt of the beam's bench as a table for the terminal."""

from typing import Any

from vrt.bench.report import line, machine_line, ms
from vrt.receipt import Receipt

HEAD = ("search", "arm", "malloc", "CPU ms (min..max)", "wall ms", "x ours")
TEXT_COLUMNS = 3


def beam_table(receipt: Receipt) -> str:
    """The machine, a row an arm, and NeMo over vrt with what was wanted."""
    numbers = receipt.numbers
    cells = [_cells(row) for row in numbers["rows"]]
    widths = [max(map(len, column)) for column in zip(HEAD, *cells, strict=True)]
    lines = [machine_line(receipt), "one thread; times of a whole batch", ""]
    lines += [line(one, widths, TEXT_COLUMNS) for one in (HEAD, *cells)]
    if numbers["comparisons"]:
        lines += ["", *_compared(numbers["comparisons"])]
    lines += ["", *_work(numbers)]
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    low, high = ms(row["cpu_min_ms"]), ms(row["cpu_max_ms"])
    spread = f"{ms(row['cpu_median_ms'])} ({low}..{high})"
    wall, times = ms(row["wall_median_ms"]), f"{row['times_ours']:.2f}"
    return row["case"], row["arm"], row["allocator"], spread, wall, times


def _compared(comparisons: list[dict[str, Any]]) -> list[str]:
    lines = ["NeMo over vrt, CPU time: its better setting (wanted), as installed (wanted)"]
    for one in comparisons:
        same = "same n-best" if one["same_hypotheses"] else "N-BEST DIFFERS"
        better = _wanted(one["better"], one["goal_better"])
        installed = _wanted(one["installed"], one["goal_installed"])
        lines.append(
            f"  {one['case']:<26} {better:<14} {installed:<14} {same}, scores within"
            f" {one['largest_score_difference']:.1e}"
        )
    return lines


def _wanted(ratio: float, goal: float | None) -> str:
    return f"{ratio:.1f}" + (f" ({goal:g})" if goal else "")


def _work(numbers: dict[str, Any]) -> list[str]:
    """What the weights alone take: bytes over the speed at which this machine reads as many."""
    speed = numbers["read_bytes_per_second"]["cpu"]
    ours = {row["case"]: row for row in reversed(numbers["rows"]) if row["arm"] == "ours"}
    lines = [f"floor: weights at {speed / 1e9:.0f} GB a CPU second"]
    for case, work in numbers["work"].items():
        if not work:
            continue
        counted, floor = work["counters"], 1000 * work["weight_bytes"] / speed
        spent = ours[case]["cpu_median_ms"]
        lines.append(
            f"  {case:<26} {counted['iterations']} iterations, {counted['predictor_calls']}"
            f" predictor calls of {counted['predictor_rows']} rows, {counted['tokens']} tokens:"
            f" {work['weight_bytes'] / 1e9:.1f} GB, {floor:.0f} ms of {spent:.0f}"
        )
    return lines
