"""How long one step of the engine takes, against transformers and against the memory's speed."""

from vrt.bench.report import chart_rows, table
from vrt.bench.settings import ROWS, BenchError, BenchSettings
from vrt.bench.voxtral import bench_voxtral

__all__ = ["ROWS", "BenchError", "BenchSettings", "bench_voxtral", "chart_rows", "table"]
