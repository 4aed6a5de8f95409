"""vrt's answer to a malsd problem, in the arrays of the golden format.

B utterances, K beam slots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from vrt.golden.malsd_format import MalsdProblem, number
from vrt.golden.malsd_stages import FIELDS
from vrt.rnnt.config import BeamError
from vrt.rnnt.malsd import search
from vrt.rnnt.nbest import Hypothesis, NBest, nbest
from vrt.rnnt.toy import toy_frames
from vrt.rnnt.trace import Iteration, Trace


def answer(problem: MalsdProblem) -> dict[str, Any]:
    """The `expected` object as vrt would write it; a refusal is its `error`."""
    trace, config = Trace(), problem.config
    try:
        lengths = torch.tensor(problem.lengths, dtype=torch.int64)
        frames = toy_frames(len(lengths), problem.max_time)
        hyps = search(problem.scorer, frames, lengths, config, trace).hyps
    except BeamError as error:
        return {"error": f"BeamError: {error}", "trace": []}
    by_norm = nbest(hyps, score_norm=True, ties=config.ties)
    by_score = nbest(hyps, score_norm=False, ties=config.ties)
    return {
        "error": None,
        "trace": [arrays(iteration) for iteration in trace.iterations],
        **results(by_norm, by_score),
    }


def results(by_norm: list[NBest], by_score: list[NBest]) -> dict[str, Any]:
    return {
        "nbest_norm": [[_hypothesis(h) for h in best] for best in by_norm],
        "nbest_raw": [[_hypothesis(h) for h in best] for best in by_score],
        "best_norm": [_best(best) for best in by_norm],
        "best_raw": [_best(best) for best in by_score],
    }


def arrays(step: Iteration) -> dict[str, Any]:
    """One iteration of vrt's."""
    names = {field.name for field in FIELDS} & {field.name for field in fields(step)}
    values: dict[str, Tensor] = {name: getattr(step, name) for name in names}
    values["alive"] = step.alive
    values["length_with_blank"] = torch.full_like(step.parent, step.length_with_blank)
    # vrt keeps one clock: the next label's stamp is the frame to be read.
    values["next_timestamp"] = values["step_timestamp"] = step.time_index
    return as_json(values, step.recombined)


def as_json(
    values: Mapping[str, Tensor], recombined: list[list[tuple[tuple[int, ...], tuple[int, ...]]]]
) -> dict[str, Any]:
    """Every array [B][K] of one iteration, as the format writes its kind."""
    as_kind = {"score": number, "count": int, "flag": int, "hash": lambda v: str(v % 2**64)}
    found: dict[str, Any] = {
        field.name: [[as_kind[field.kind](value) for value in row] for row in rows]
        for field in FIELDS
        for rows in [values[field.name].tolist()]
    }
    found["recombined"] = [
        [{"slots": list(slots), "kept": list(kept)} for slots, kept in groups]
        for groups in recombined
    ]
    return found


def _hypothesis(h: Hypothesis) -> dict[str, Any]:
    return {
        "tokens": list(h.tokens),
        "score": number(h.score),
        "norm_score": number(h.norm_score),
        "timestamps": list(h.timestamps),
    }


def _best(best: Sequence[Hypothesis]) -> dict[str, Any] | None:
    if not best:
        return None
    return {key: value for key, value in _hypothesis(best[0]).items() if key != "norm_score"}
