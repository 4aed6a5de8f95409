"""A bench receipt for people: a table for the terminal, and rows for a chart."""

from collections.abc import Sequence
from typing import Any

from vrt.bench.rows import FROZEN, OURS, PACKED
from vrt.receipt import Receipt

HEAD = ("row", "arm", "CPU ms (min..max)", "wall ms", "GB", "x floor", "x peer", "goal")
TEXT_COLUMNS = 2  # the others hold numbers and are aligned to the right


def table(receipt: Receipt) -> str:
    """Lines of at most 100 columns: the machine, a block for each number of threads, a legend."""
    rows, speeds = receipt.numbers["rows"], receipt.numbers["read_bytes_per_second_by_threads"]
    widths = [max(map(len, column)) for column in zip(HEAD, *map(_cells, rows), strict=True)]
    rule = "-" * (sum(widths) + 2 * len(widths) - 2)
    lines = [*_machine(receipt), "", line(HEAD, widths)]
    for threads, speed in speeds.items():
        wall, cpu = (f"{speed[clock] / 1e9:.1f}" for clock in ("wall", "cpu"))
        plural = "" if threads == "1" else "s"
        lines += [
            rule,
            f"{threads} thread{plural}: memory reads {wall} GB/s ({cpu} GB a CPU second)",
            *(line(_cells(row), widths) for row in rows if row["threads"] == int(threads)),
        ]
    return "\n".join([*lines, rule, *_legend(rows)])


def chart_rows(receipt: Receipt) -> list[dict[str, Any]]:
    """One flat dict a bar: `row`, `arm`, `threads`, `cpu_ms`, `cpu_min_ms`, `cpu_max_ms`.

    Every row of the bench has one bar more a number of threads, whose arm is `floor`.
    """
    bars: dict[tuple[str, str, int], dict[str, Any]] = {}
    for row in receipt.numbers["rows"]:
        spread = (row[f"cpu_{which}_ms"] for which in ("median", "min", "max"))
        bars[row["row"], row["arm"], row["threads"]] = _bar(row, row["arm"], *spread)
        floor = _bar(row, "floor", *[row["floor_cpu_ms"]] * 3)
        bars.setdefault((row["row"], "floor", row["threads"]), floor)
    return list(bars.values())


def _bar(row: dict[str, Any], arm: str, median: float, low: float, high: float) -> dict[str, Any]:
    named = {"row": row["row"], "arm": arm, "threads": row["threads"]}
    return named | {"cpu_ms": median, "cpu_min_ms": low, "cpu_max_ms": high}


def machine_line(receipt: Receipt) -> str:
    """What ran it, and how busy it was."""
    numbers = receipt.numbers
    before, after = (numbers[f"load_average_{when}"][0] for when in ("before", "after"))
    return (
        f"{receipt.device['cpu']}, {receipt.device['cores_usable']} cores, torch"
        f" {receipt.versions['torch']}; load average {before:.1f} before, {after:.1f} after"
    )


def _machine(receipt: Receipt) -> list[str]:
    numbers, first = receipt.numbers, receipt.numbers["rows"][0]
    before = numbers["load_average_before"][0]
    return [
        machine_line(receipt),
        f"bf16, {first['encoder_layers']} encoder and {first['decoder_layers']} decoder layers,"
        f" {numbers['weights_bytes'] / 1e9:.2f} GB of random weights, {first['repeats']} calls"
        " an arm",
        *_busy(receipt, before),
    ]


def _busy(receipt: Receipt, load: float) -> list[str]:
    """A line for a machine that had other work: threads that wait for a busy core burn CPU time."""
    most = max(row["threads"] for row in receipt.numbers["rows"])
    if load + most < receipt.device["cores_usable"] + 1:
        return []
    return ["other work was running: wall times and rows of several threads are inflated"]


def _legend(rows: Sequence[dict[str, Any]]) -> list[str]:
    compared = dict.fromkeys(f"{row['arm']} / {row['peer']}" for row in rows if row["peer"])
    frozen = any(row["arm"] == FROZEN for row in rows)
    return [
        "CPU ms: median of all threads' time together. GB: weights, keys and values to read.",
        "x floor: CPU ms over the CPU time of reading as many bytes once.",
        *([f"x peer: CPU ms of {', '.join(compared)}."] if compared else []),
        *(["goal: what x peer was wanted to be at most."] if compared else []),
        *(
            [
                f"{FROZEN}: after requires_grad_(False), where torch copies weights at every call;",
                f"  CPU ms over its: {_times_frozen(rows)}.",
            ]
            if frozen
            else []
        ),
    ]


def _times_frozen(rows: Sequence[dict[str, Any]]) -> str:
    """CPU ms of the engine's arms over that of the frozen peer, where both were timed together."""
    spent = {
        (row["row"], row["threads"], row["arm"]): row["cpu_median_ms"]
        for row in rows
        if row["threads"] == rows[0]["threads"]
    }
    frozen = {where[:2]: ms for where, ms in spent.items() if where[2] == FROZEN}
    own = [OURS, PACKED]
    return ", ".join(
        f"{arm} {_ratio(spent[*where, arm] / ms)}"
        for where, ms in frozen.items()
        for arm in own
        if (*where, arm) in spent
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    low, high = ms(row["cpu_min_ms"]), ms(row["cpu_max_ms"])
    return (
        row["row"],
        row["arm"],
        f"{ms(row['cpu_median_ms'])} ({low}..{high})",
        ms(row["wall_median_ms"]),
        f"{row['bytes'] / 1e9:.2f}",
        f"{row['ratio_to_floor']:.1f}",
        "" if row["ratio_to_peer"] is None else _ratio(row["ratio_to_peer"]),
        "" if row["goal"] is None else f"{row['goal']:g}",
    )


def ms(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.4f}" if ratio < 0.1 else f"{ratio:.2f}"


def line(cells: Sequence[str], widths: Sequence[int], text: int = TEXT_COLUMNS) -> str:
    padded = [
        cell.ljust(width) if column < text else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()
