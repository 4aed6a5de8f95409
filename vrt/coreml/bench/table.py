"""A sweep's receipt for people: a table for the terminal, and rows in which receipts of several
machines stand side by side."""

from collections.abc import Iterable
from typing import Any

from vrt.bench.report import line, ms
from vrt.coreml.bench.devices import REHEARSAL
from vrt.coreml.errors import CoreMLError
from vrt.receipt import Receipt

HEAD = (
    "package",
    "device",
    "p50 ms",
    "p95 ms",
    "x first",
    "CPU ms",
    "cold",
    "warm",
    "first",
    "kB/call",
)
TEXT_COLUMNS = 2
COLUMNS = (
    *("package", "function", "device", "backend", "kind", "beam", "precision", "p50_ms", "p95_ms"),
    *(
        "cpu_p50_ms",
        "compile_ms",
        "cold_load_ms",
        "warm_load_ms",
        "first_predict_ms",
        "times_first",
    ),
    *("rss_slope_bytes_per_call", "measured"),
)


def latency_table(receipt: Receipt) -> str:
    """The machine, a row an arm, and what went wrong.

    Raises `CoreMLError` for a receipt with times of the interpreter, which are no latencies.
    """
    _refuse_rehearsal(receipt)
    numbers = receipt.numbers
    cells = [_cells(row) for row in numbers["rows"]]
    widths = [max(map(len, column)) for column in zip(HEAD, *cells, strict=True)]
    lines = [_machine(receipt), ""]
    lines += [line(one, widths, TEXT_COLUMNS) for one in (HEAD, *cells)]
    failed = [text for row in numbers["rows"] for text in _failures(row)]
    plans = [text for row in numbers["rows"] if (text := _plan(row))]
    for block in (failed, plans):
        lines += ["", *block] if block else []
    return "\n".join([*lines, "", *_legend()])


def latency_rows(receipts: Iterable[Receipt]) -> list[dict[str, Any]]:
    """One flat dict an arm, with `hardware` and `system`: what a chart over devices takes.

    Raises `CoreMLError` as `latency_table`.
    """
    found = []
    for receipt in receipts:
        _refuse_rehearsal(receipt)
        host = receipt.numbers["host"]
        machine = {"hardware": host["hardware"], "system": receipt.device["system"]}
        machine["accelerator"] = receipt.device.get("accelerator")
        for row in receipt.numbers["rows"]:
            found.append(machine | {name: row[name] for name in COLUMNS})
    return found


def _refuse_rehearsal(receipt: Receipt) -> None:
    for row in receipt.numbers["rows"]:
        if row["backend"] == REHEARSAL:
            raise CoreMLError(
                f"{row['package']} was run by vrt's interpreter: its times are a rehearsal and no"
                " latency of Core ML or torch; measure on a device"
            )


def _machine(receipt: Receipt) -> str:
    host, numbers = receipt.numbers["host"], receipt.numbers
    before, after = (numbers[f"load_average_{when}"][0] for when in ("before", "after"))
    build = f" {host['os_build']}" if host["os_build"] else ""
    heat = f", thermal state {host['thermal_state']}" if host["thermal_state"] else ""
    return (
        f"{host['hardware']}, {host['os']}{build}{heat}, torch {receipt.versions['torch']}; load"
        f" average {before:.1f} before, {after:.1f} after"
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    function = "" if row["function"] == "main" else f" {row['function']}"
    growth = row["rss_slope_bytes_per_call"]
    times = ("cpu_p50_ms", "cold_load_ms", "warm_load_ms", "first_predict_ms")
    ratio = row["times_first"]
    return (
        row["package"].removesuffix(".mlpackage") + function,
        row["device"],
        _ms(row["p50_ms"]),
        _ms(row["p95_ms"]),
        "-" if ratio is None else f"{ratio:.2f}",
        *(_ms(row[name]) for name in times),
        "-" if growth is None else f"{growth / 1000:.2f}",
    )


def _ms(value: float | None) -> str:
    return "-" if value is None else ms(value)


def _failures(row: dict[str, Any]) -> list[str]:
    name = f"{row['package']} {row['function']} on {row['device']}"
    return [
        f"{name}, round {number}: {one['outcome']}: {one['why']}"
        for number, one in enumerate(row["rounds"], 1)
        if one["outcome"] != "ok"
    ]


def _plan(row: dict[str, Any]) -> str | None:
    """Operations by device, as Core ML plans them."""
    if row["plan"] is None:
        return None
    counts = ", ".join(f"{device} {n}" for device, n in row["plan"]["operations"].items())
    return f"{row['package']} {row['function']} on {row['device']}: planned {counts or 'nothing'}"


def _legend() -> list[str]:
    return [
        "x first: p50 over that of the first device; arms took turns. CPU ms: median, all threads.",
        "cold, warm: loads in ms; first: first prediction in ms; kB/call: growth of memory.",
    ]
