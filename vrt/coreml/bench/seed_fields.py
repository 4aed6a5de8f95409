"""The fields that a receipt of a whole decoder has, filled as far as a sweep of graphs can.

What it did not measure is None: a sweep searches nothing, so it has no iterations and no words.
"""

from collections.abc import Sequence
from typing import Any

from vrt.coreml.bench.rows import Row

LATENCY = (
    "preprocess_p50",
    "encoder_p50",
    "predictor_p50",
    "joint_p50",
    "bookkeeping_p50",
    "finalization_p50",
    "finalization_p95",
)
OF_KIND = {
    "voxtral-encoder-chunk": "encoder_p50",
    "predictor": "predictor_p50",
    "joint": "joint_p50",
}


def seed_fields(rows: Sequence[Row], host: dict[str, Any]) -> dict[str, Any]:
    """`latency_ms` by device and settings: `cpu, k8` has the predictor and the joint of K = 8."""
    return {
        "decoder_config": {
            "strategy": None,
            "beam_size": sorted({row.beam for row in rows if row.beam is not None}),
            "max_symbols": None,
            "score_norm": None,
            "dtype": sorted({row.precision for row in rows if row.precision is not None}),
        },
        "host": host,
        "latency_ms": latency(rows),
        "counts": {
            "alignment_iterations": None,
            "predictor_calls": _calls(rows, "predictor"),
            "joint_calls": _calls(rows, "joint"),
            "recombinations": None,
            "bytes_copied": sum(row.calls * row.bytes_copied_per_call for row in rows),
            "allocations": None,
        },
        "quality": {
            "raw_wer": None,
            "greedy_minus_candidate_points": None,
            "paired_interval": None,
            "exact_hypotheses": None,
        },
    }


def latency(rows: Sequence[Row]) -> dict[str, dict[str, float | None]]:
    found: dict[str, dict[str, float | None]] = {}
    for row in rows:
        if row.kind in OF_KIND:
            settings = row.package.removesuffix(".mlpackage").removeprefix(row.kind).strip("-")
            function = "" if row.function == "main" else row.function
            label = ", ".join(part for part in (row.device, settings, function) if part)
            found.setdefault(label, dict.fromkeys(LATENCY))[OF_KIND[row.kind]] = row.p50_ms
    return found


def _calls(rows: Sequence[Row], kind: str) -> int:
    return sum(row.calls for row in rows if row.kind == kind)
