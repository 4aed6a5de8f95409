"""Making malsd golden files: a toy problem, and the answer of the oracle that is named in the file.

B utterances, K beam slots.
"""

from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal

import torch

from vrt.golden.errors import GoldenError
from vrt.golden.malsd_answer import answer, as_json, results
from vrt.golden.malsd_check import produced_by_vrt
from vrt.golden.malsd_format import MalsdProblem, problem_of, write
from vrt.golden.malsd_stages import TOLERANCE
from vrt.rnnt.config import BeamError
from vrt.rnnt.malsd import search
from vrt.rnnt.margins import margins
from vrt.rnnt.nbest import nbest
from vrt.rnnt.toy import toy_frames
from vrt.rnnt.trace import Trace

MalsdOracle = Literal["nemo", "vrt"]
SURE = 2 * TOLERANCE  # decisions by less are ties to anyone within the tolerance


@dataclass(frozen=True)
class MalsdRecipe:
    """A problem as its file says it; `note` tells what it is there for."""

    name: str
    note: str
    config: dict[str, Any]
    scorer: dict[str, Any]
    fusion: dict[str, Any] | None = None
    tags: tuple[str, ...] = field(default=())

    @property
    def problem(self) -> dict[str, Any]:
        parts = {"config": self.config, "scorer": self.scorer, "fusion": self.fusion}
        return {key: value for key, value in parts.items() if value is not None}


def make_malsd(
    path: str | PathLike[str], recipe: MalsdRecipe, oracle: MalsdOracle = "nemo"
) -> dict[str, Any]:
    """Write the problem and the oracle's answer to `path`; returns what the file says of itself.

    `tie_sensitive` is whether two scores that a decision compares differ by less than the format
    lets scores differ. Raises `GoldenError` where the oracle is not installed.
    """
    answers = {"nemo": _ask_nemo, "vrt": _ask_vrt}
    if oracle not in answers:
        raise GoldenError(f"oracle {oracle!r} is not one of {', '.join(answers)}")
    problem = problem_of(recipe.problem, recipe.name)
    produced, expected = answers[oracle](problem)
    gap = smallest_margin(problem)
    about = {
        "note": recipe.note,
        "tags": list(recipe.tags),
        "tie_sensitive": gap is not None and gap < SURE,
        **produced,
        **recipe.problem,
        "stats": {**stats(expected), "min_gap": None if gap is None else float(f"{gap:.4g}")},
    }
    write(path, recipe.name, about, expected)
    return about


def smallest_margin(problem: MalsdProblem) -> float | None:
    """Of every decision of vrt's search, in either ranking; None where there was none."""
    trace, config = Trace(), problem.config
    lengths = torch.tensor(problem.lengths, dtype=torch.int64)
    frames = toy_frames(len(lengths), problem.max_time)
    try:
        hyps = search(problem.scorer, frames, lengths, config, trace).hyps
    except BeamError:
        return None
    rankings = [nbest(hyps, score_norm=norm, ties=config.ties) for norm in (True, False)]
    by_norm = margins(trace.iterations, rankings[0], config, by_norm=True).smallest
    by_score = margins(trace.iterations, rankings[1], config, by_norm=False).smallest
    gap = min(by_norm, by_score)
    return None if gap == torch.inf else gap


def stats(expected: dict[str, Any]) -> dict[str, int]:
    """What happened, over living slots: enough to see that a file tests what it is there for."""
    counts = dict.fromkeys(("iterations", "merges", "forced", "final_kept", "dead_slots"), 0)
    before = None
    for step in expected["trace"]:
        counts["iterations"] += 1
        counts["merges"] += sum(len(groups) for groups in step["recombined"])
        counts["forced"] += sum(
            flag and (before[b][k] if before else k == 0)
            for b, row in enumerate(step["forced_blank_parent"])
            for k, flag in enumerate(row)
        )
        counts["final_kept"] += sum(
            label == -1 and alive
            for labels, alives in zip(step["label"], step["alive"], strict=True)
            for label, alive in zip(labels, alives, strict=True)
        )
        before = step["alive"]
        counts["dead_slots"] += sum(not alive for row in before for alive in row)
    lists = zip(expected.get("nbest_norm", ()), expected.get("nbest_raw", ()), strict=True)
    flips = sum(bool(a) and a[0]["tokens"] != b[0]["tokens"] for a, b in lists)
    return {**counts, "norm_flip": flips}


def _ask_vrt(problem: MalsdProblem) -> tuple[dict[str, Any], dict[str, Any]]:
    return produced_by_vrt(), answer(problem)


def _ask_nemo(problem: MalsdProblem) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        from vrt.oracle import nemo
    except ImportError as error:
        raise GoldenError(
            f"the oracle `nemo` needs NeMo ({error}): pip install 'vrt[nemo]', or use the oracle"
            " `vrt`"
        ) from error
    lengths = torch.tensor(problem.lengths, dtype=torch.int64)
    frames = toy_frames(len(lengths), problem.max_time)
    found = nemo.reference(problem.scorer, frames, lengths, problem.config)
    produced = {"oracle": {"name": "nemo", **nemo.versions()}}
    if found.error:
        return produced, {"error": found.error, "trace": []}
    trace = [as_json(step.arrays, step.recombined) for step in found.trace]
    return produced, {
        "error": None,
        "trace": trace,
        **results(found.nbest_norm, found.nbest_raw),
    }
