"""The sweep: what a package's functions cost on each compute unit, one process a measurement."""

from vrt.coreml.bench.devices import COREML, DEVICES, TORCH, NotHere
from vrt.coreml.bench.settings import SweepSettings
from vrt.coreml.bench.sweep import sweep
from vrt.coreml.bench.table import latency_rows, latency_table

__all__ = [
    "COREML",
    "DEVICES",
    "TORCH",
    "NotHere",
    "SweepSettings",
    "latency_rows",
    "latency_table",
    "sweep",
]
