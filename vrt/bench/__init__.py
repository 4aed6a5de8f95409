"""How long one step of the engine takes, against transformers and against the memory's speed."""

from vrt.bench.beam import bench_beam
from vrt.bench.beam_report import beam_table
from vrt.bench.beam_settings import BeamBenchSettings
from vrt.bench.exact import bench_exact, exact_table
from vrt.bench.reencode import bench_reencode, reencode_table
from vrt.bench.report import chart_rows, table
from vrt.bench.settings import ROWS, BenchError, BenchSettings
from vrt.bench.voxtral import bench_voxtral

__all__ = [
    "ROWS",
    "BeamBenchSettings",
    "BenchError",
    "BenchSettings",
    "beam_table",
    "bench_beam",
    "bench_exact",
    "bench_reencode",
    "bench_voxtral",
    "chart_rows",
    "exact_table",
    "reencode_table",
    "table",
]
