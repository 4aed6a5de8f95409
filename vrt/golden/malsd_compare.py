"""Two answers to one malsd problem, compared iteration by iteration by the format's rule.

B utterances, K beam slots.
"""

import math
from collections.abc import Iterator
from itertools import zip_longest
from os import PathLike
from pathlib import Path
from typing import Any

from vrt.golden.errors import GoldenError
from vrt.golden.malsd_differences import AFTER, Answer, Comparison, Index, Stage
from vrt.golden.malsd_format import PROBLEM, read
from vrt.golden.malsd_stages import (
    BESTS,
    FIELDS,
    ITERATIONS,
    NBESTS,
    RECOMBINED,
    STAGES,
    TOLERANCE,
    Field,
)
from vrt.golden.report import Report, StageResult

HYPOTHESIS = {"tokens": "count", "timestamps": "count", "score": "score", "norm_score": "score"}


def compare_malsd(expected: str | PathLike[str], got: str | PathLike[str]) -> Report:
    """Compare two files of one problem; `got` may be a port's dump and may lack any of the stages.

    Raises `GoldenError` for unreadable files, different problems, and no stage in common.
    """
    want, have = read(expected), read(got)
    for part in PROBLEM:
        if part in have.problem and have.problem[part] != want.problem.get(part):
            raise GoldenError(f"{have.path} is another problem than {want.path}: {part} differs")
    try:
        report = against(Path(got).name, want.expected, have.expected)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise GoldenError(
            f"{have.path} or {want.path} is not as the format has it ({what})"
        ) from error
    if all(stage.absent for stage in report.stages):
        raise GoldenError(f"{have.path}: no stage in common with {want.path}")
    return report


def against(name: str, expected: Answer, got: Answer) -> Report:
    """Where the answers part first: in the earliest iteration, there in the order of the flow."""
    work = Comparison(expected, got)
    _errors(work)
    if not expected.get("error") and not got.get("error"):
        _trace(work)
        for stage in NBESTS:
            _nbest(work, stage)
        for stage, nbest in BESTS.items():
            _best(work, stage, nbest)
    found = [stage.first for stage in work.stages.values() if stage.first]
    first = min(found, key=lambda pair: pair[0])[1] if found else None
    results = [work.stages[s].result() for s in STAGES if s in work.stages and work.stages[s].seen]
    return Report(name, (*results, *_absent(work)), first)


def _errors(work: Comparison) -> None:
    """Both refuse, each in its own words, or neither does."""
    if "error" not in work.got or "error" not in work.expected:
        return
    stage, texts = work.stage("error"), (work.got["error"], work.expected["error"])
    stage.seen = True
    if bool(texts[0]) != bool(texts[1]):
        stage.error = 1.0
        stage.differ((-1,), (), *(text or "no error" for text in texts))


def _trace(work: Comparison) -> None:
    want, have = work.expected.get("trace"), work.got.get("trace")
    if want is None or have is None:
        return
    before = None
    for i, (left, right) in enumerate(zip(want, have, strict=False)):
        for rank, part in enumerate(FIELDS):
            if part.name in left and part.name in right:
                _field(work, (i, rank), part, left, right, before)
        if "recombined" in left and "recombined" in right:
            _recombined(work, (i, len(FIELDS)), left["recombined"], right["recombined"])
        before = left
    stage, both = work.stage(ITERATIONS), min(len(want), len(have))
    stage.seen = True
    if len(want) != len(have) and not _over((want if len(want) > both else have)[:both]):
        stage.error = float(abs(len(want) - len(have)))
        stage.differ((both, len(FIELDS) + 1), (), len(have), len(want))


def _over(trace: list[Answer]) -> bool:
    """No living slot has frames left, so that an engine may stop."""
    return bool(trace) and not any(
        alive and active
        for alives, actives in zip(trace[-1]["alive"], trace[-1]["active"], strict=True)
        for alive, active in zip(alives, actives, strict=True)
    )


def _field(
    work: Comparison, order: Index, part: Field, want: Answer, have: Answer, before: Answer | None
) -> None:
    tolerance = TOLERANCE if part.kind == "score" else None
    stage, counts = work.stage(part.stage, tolerance), _shape(want[part.name])
    if _shape(have[part.name]) != counts:
        stage.seen = True
        stage.error += 1.0
        stage.differ(order, order[:1], f"shape {_shape(have[part.name])}", f"shape {counts}")
        return
    for b, k in _meaning(part, want, before):
        pair = want[part.name][b][k], have[part.name][b][k]
        work.numbers(stage, (*order, b, k), (order[0], b, k), pair, part.kind)


def _meaning(part: Field, want: Answer, before: Answer | None) -> Iterator[Index]:
    """Utterance and slot of each value that means something."""
    for b, row in enumerate(want["score_pruned"]):
        for k, score in enumerate(row):
            held = {
                "all": True,
                "pruned": float(score) > -math.inf,
                "alive": bool(want["alive"][b][k]),
                "before": bool(before["alive"][b][k]) if before else k == 0,
            }
            if held[part.slots]:
                yield b, k


def _recombined(work: Comparison, order: Index, want: list, have: list) -> None:
    stage = work.stage(RECOMBINED)
    stage.seen = True
    for b, (left, right) in enumerate(zip_longest(want, have, fillvalue=[])):
        if _groups(left) != _groups(right):
            stage.error += 1.0
            stage.differ((*order, b), (order[0], b), _groups(right), _groups(left))


def _groups(groups: list[dict[str, list[int]]]) -> list[tuple[list[int], list[int]]]:
    return sorted((sorted(group["slots"]), sorted(group["kept"])) for group in groups)


def _nbest(work: Comparison, name: str) -> None:
    """Per utterance: as many hypotheses, in the same order."""
    want, have = work.expected.get(name), work.got.get(name)
    if want is None or have is None:
        return
    stage = work.stage(name, TOLERANCE)
    stage.seen = True
    rank = (AFTER, STAGES.index(name))
    if len(want) != len(have):
        stage.differ(rank, (), f"{len(have)} utterances", f"{len(want)} utterances")
    for b, (left, right) in enumerate(zip(want, have, strict=False)):
        for n, pair in enumerate(zip(left, right, strict=False)):
            _hypothesis(work, stage, (*rank, b, n), (b, n), pair)
        if len(left) != len(right):
            stage.differ((*rank, b), (b,), f"{len(right)} hypotheses", f"{len(left)} hypotheses")


def _best(work: Comparison, name: str, nbest: str) -> None:
    """The single best, where there is one."""
    want, have = work.expected.get(name), work.got.get(name)
    if want is None or have is None:
        return
    stage, held = work.stage(name, TOLERANCE), work.expected.get(nbest, want)
    stage.seen = True
    rank = (AFTER, STAGES.index(name))
    if len(want) != len(have):
        stage.differ(rank, (), f"{len(have)} utterances", f"{len(want)} utterances")
    for b, pair in enumerate(zip(want, have, strict=False)):
        if held[b]:
            _hypothesis(work, stage, (*rank, b), (b,), pair)


def _hypothesis(
    work: Comparison, stage: Stage, order: Index, index: Index, pair: tuple[Any, Any]
) -> None:
    want, have = pair
    if not isinstance(have, dict):
        stage.differ(order, index, "no hypothesis", str(want))
        return
    for key, kind in HYPOTHESIS.items():
        if key not in want or key not in have:
            continue
        if kind == "score":
            work.numbers(stage, order, index, (want[key], have[key]), kind)
        elif list(want[key]) != list(have[key]):
            stage.differ(order, index, f"{key} {have[key]}", f"{key} {want[key]}")


def _absent(work: Comparison) -> list[StageResult]:
    """Stages that one answer holds and the other does not."""
    found = []
    for name in STAGES:
        sides = [_holds(answer, name) for answer in (work.expected, work.got)]
        if sides[0] != sides[1]:
            found.append(StageResult(name, absent="got" if sides[0] else "expected"))
    return found


def _holds(answer: Answer, stage: str) -> bool:
    room, _, name = stage.partition(".")
    if not name or name == "iterations":
        return room in answer
    return any(name in step for step in answer.get("trace") or [])


def _shape(rows: Any) -> list[int]:
    if not isinstance(rows, list):
        return []
    return [len(row) if isinstance(row, list) else 0 for row in rows]
