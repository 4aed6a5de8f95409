"""The bench of the transducer's searches against NeMo's own, turn about in one process.

    receipt = bench_beam(BeamBenchSettings())
    print(beam_table(receipt))

NeMo is measured as installed and with oneDNN off, and both again once the allocator keeps what is
freed; the best of the four is the peer. B utterances, K beam slots, T encoder frames.
"""

import os
from dataclasses import asdict
from typing import Any

import torch

from vrt.bench.allocator import keep_freed_memory
from vrt.bench.bandwidth import read_bandwidth, written_buffer
from vrt.bench.beam_arms import Problem, differences
from vrt.bench.beam_model import CALIBRATION_BEAM, calibrated, random_frames
from vrt.bench.beam_parts import measured_parts
from vrt.bench.beam_rows import (
    DEFAULT_MALLOC,
    INSTALLED,
    KEEPING_MALLOC,
    BeamRow,
    beam_rows,
    comparison,
)
from vrt.bench.beam_settings import BeamBenchSettings, Case
from vrt.bench.beam_work import latency, predictor_bytes, work_of
from vrt.bench.rows import OURS
from vrt.bench.timing import interleaved
from vrt.bench.voxtral import Tell, silent
from vrt.receipt import Receipt, digest
from vrt.rnnt.fast import PackedScorer
from vrt.rnnt.model import Transducer
from vrt.voxtral.measure.speed import torch_threads


def bench_beam(settings: BeamBenchSettings, tell: Tell = silent) -> Receipt:
    """Measure all that `settings` asks for, on one thread; the receipt is ended, not yet written.

    `tell` hears one line before each part.
    """
    receipt = Receipt.begin(_parameters(settings))
    load_before = os.getloadavg()
    with torch_threads(1), torch.no_grad():
        bench = _BeamBench(settings, tell)
        numbers = bench.run()
    load = {"load_average_before": load_before, "load_average_after": os.getloadavg()}
    return receipt.end(numbers | load, bench.digests)


def _parameters(settings: BeamBenchSettings) -> dict[str, Any]:
    decoder = {"strategy": "malsd_batch", "score_norm": True, "dtype": "float32"}
    return asdict(settings) | {"threads": 1, "decoder": decoder}


class _BeamBench:
    def __init__(self, settings: BeamBenchSettings, tell: Tell):
        self.settings, self.tell = settings, tell
        self.problems: dict[Case, Problem] = {}
        self.rates: dict[Case, float] = {}
        self.digests: dict[str, str] = {}  # of the weights, by case

    def run(self) -> dict[str, Any]:
        kinds = [(case.rate, case.beam is None) for case in self.settings.cases]
        for rate, greedy in dict.fromkeys(kinds):
            self._prepare(rate, greedy)
        work = {case.name: work_of(problem) for case, problem in self.problems.items()}
        rows = self._round(DEFAULT_MALLOC)
        parts = measured_parts(next(iter(self.problems.values())), self.settings.repeats)
        if self.settings.against == "nemo" and keep_freed_memory():
            rows += self._round(KEEPING_MALLOC)
        weights = written_buffer(predictor_bytes(self.settings.model))
        return {
            "rows": [asdict(row) for row in rows],
            "comparisons": self._compare(rows),
            "labels_per_frame": {case.name: rate for case, rate in self.rates.items()},
            "work": work,
            "parts": parts,
            "latency_ms": self._latency(rows, work, parts),
            # Of a buffer as large as the predictor's weights: a cache may hold a part of it.
            "read_bytes_per_second": asdict(read_bandwidth(weights)),
        }

    def _prepare(self, rate: float, greedy: bool) -> None:
        """One model for all beams, or greedy searches, of a label rate: its blank bias is found at
        B=1."""
        settings = self.settings
        kind = "greedy" if greedy else "beam"
        self.tell(f"calibrating a random model to {rate} labels a frame, {kind}")
        model = Transducer.random(settings.model, settings.seed)
        one = random_frames(settings.model, 1, settings.frames, settings.seed)
        beam = None if greedy else min(CALIBRATION_BEAM, settings.model.vocab)
        said = calibrated(model, one, rate, settings.max_symbols, beam)
        scorer, weights = PackedScorer(model), digest(model.state_dict())
        for case in settings.cases:
            if case.rate == rate and (case.beam is None) == greedy:
                frames = random_frames(settings.model, case.batch, settings.frames, settings.seed)
                self.problems[case] = Problem(case, model, scorer, frames, settings.max_symbols)
                self.rates[case] = said
                self.digests[f"weights, {case.name}"] = weights

    def _round(self, allocator: str) -> list[BeamRow]:
        rows = []
        for case, problem in self.problems.items():
            self.tell(f"{case.name}, malloc {allocator}")
            arms = problem.arms(self.settings.against == "nemo")
            timings = interleaved(arms, self.settings.repeats)
            rows += beam_rows(case, timings, allocator, self.settings.repeats)
        return rows

    def _latency(
        self, rows: list[BeamRow], work: dict[str, Any], parts: dict[str, Any]
    ) -> dict[str, Any]:
        """Of each beam at B=1: for more utterances a call has more rows than were timed."""
        spent = {row.case: row.cpu_median_ms for row in rows if row.arm == OURS}
        return {
            case.name: latency(parts, work[case.name]["counters"], spent[case.name])
            for case in self.problems
            if case.beam is not None and case.batch == 1
        }

    def _compare(self, rows: list[BeamRow]) -> list[dict[str, Any]]:
        if self.settings.against != "nemo":
            return []
        found = []
        for case, problem in self.problems.items():
            arms = problem.arms(True)
            same, difference = differences(arms[OURS](), arms[INSTALLED]())
            of_case = [row for row in rows if row.case == case.name]
            margin = problem.closest_decision()
            found.append(asdict(comparison(case, of_case, same, min(margin, 1e9), difference)))
        return found
