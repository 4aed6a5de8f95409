"""Golden files: a complete small problem and the reference's answer to it, stage by stage."""

from vrt.golden.checking import check
from vrt.golden.comparing import compare
from vrt.golden.errors import GoldenError
from vrt.golden.making import VoxtralProblem, make_voxtral, small_problem
from vrt.golden.malsd_shipped import make_malsd_files
from vrt.golden.report import Divergence, Report, StageResult

__all__ = [
    "Divergence",
    "GoldenError",
    "Report",
    "StageResult",
    "VoxtralProblem",
    "check",
    "compare",
    "make_malsd_files",
    "make_voxtral",
    "small_problem",
]
