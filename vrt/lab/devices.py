"""Benches of the Voxtral engine by the device that they ran on, from the committed receipts."""

from collections.abc import Mapping
from typing import Any

from vrt.lab.latency import bench_rows
from vrt.paths import data_dir
from vrt.receipt import Receipt, ReceiptError

PATTERN = "bench-voxtral-*.json"


def voxtral_benches() -> dict[str, Receipt]:
    """By name, as `vrt.lab.receipt` takes it.

    Raises `ReceiptError` where there is none: an install carries no receipts.
    """
    found = sorted((data_dir() / "receipts").glob(PATTERN))
    if not found:
        raise ReceiptError(f"no {PATTERN} in {data_dir() / 'receipts'}; run in a checkout")
    return {file.stem: Receipt.load(file) for file in found}


def device_name(receipt: Receipt) -> str:
    """An accelerator by its name, else the CPU and its cores."""
    device = receipt.device
    return device.get("accelerator") or f"{device['cpu']}, {device['cores']} cores"


def by_device(
    benches: Mapping[str, Receipt], wanted: tuple[str, ...] = ()
) -> dict[str, list[dict[str, Any]] | None]:
    """Rows for `latency_by_stage` of every receipt at full depth, by device and threads.

    Devices that are `wanted` and appear in the name of none are there with None: not measured.
    """
    found: dict[str, list[dict[str, Any]] | None] = {}
    for receipt in benches.values():
        if receipt.parameters.get("layers") is not None:
            continue  # fewer layers than the released model has
        for threads in sorted({row["threads"] for row in receipt.numbers["rows"]}):
            name = f"{device_name(receipt)}, {threads} thread{'s' * (threads > 1)}"
            found[name] = bench_rows(receipt, threads=threads)
    missing = [name for name in wanted if not any(name in known for known in found)]
    return found | dict.fromkeys(missing)
