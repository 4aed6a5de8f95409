"""A beam search as rows, one for each iteration and slot: who came from whom, and what it spells.

Read from a malsd golden file, or from the trace of a search of your own.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any

from vrt.golden.errors import GoldenError
from vrt.golden.malsd_answer import arrays
from vrt.golden.malsd_format import read
from vrt.paths import data_dir
from vrt.rnnt.trace import Trace

CARRIED = -1  # the label of a final hypothesis that an iteration carries over


@dataclass(frozen=True)
class BeamRow:
    """One slot after one iteration; both count from 0, labels and frames too.

    `parent` is a slot of the iteration before. `label` is None where a final hypothesis was carried
    over. `tokens` are the labels so far. Scores are natural logarithms, None for minus infinity:
    `score_pruned` before the merge, `score` after it. `forced`: the parent was at its cap, so blank
    was all it could take. `merged_into`: the slot that kept the sum of a group's probabilities,
    itself for the one that did. `active`: it has frames left to read.
    """

    iteration: int
    slot: int
    parent: int
    label: int | None
    blank: bool
    tokens: tuple[int, ...]
    score_pruned: float | None
    score: float | None
    frame: int
    symbols: int
    forced: bool
    merged_into: int | None
    active: bool

    @property
    def alive(self) -> bool:
        return self.score is not None


@dataclass(frozen=True)
class BeamStory:
    """All rows of one utterance, and the slots through which the best hypothesis came."""

    name: str
    note: str
    utterance: int
    utterances: int
    beam_size: int
    iterations: int
    rows: tuple[BeamRow, ...]
    best: tuple[int, ...]  # a slot for each iteration; none where nothing survived

    def at(self, iteration: int) -> list[BeamRow]:
        """The slots after an iteration. Raises IndexError."""
        if not 0 <= iteration < self.iterations:
            raise IndexError(f"iteration {iteration} is not one of 0..{self.iterations - 1}")
        return list(self.rows[iteration * self.beam_size : (iteration + 1) * self.beam_size])

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def beam_story(
    fixture: str | PathLike[str] | Trace, utterance: int = 0, blank: int | None = None
) -> BeamStory:
    """`fixture`: a malsd golden file, the name of one that vrt comes with, or a `Trace`.

    `blank` is a trace's blank label; None: its last class. Raises `GoldenError` for a file without
    a search in it, and for an utterance that it does not have.
    """
    name, note, steps, label = _steps(fixture, blank)
    if not steps:
        raise GoldenError(f"{name} holds no iteration to step through{note and ': ' + note}")
    batch, size = len(steps[0]["parent"]), len(steps[0]["parent"][0])
    if not 0 <= utterance < batch:
        raise GoldenError(f"{name} has no utterance {utterance}; choose of 0..{batch - 1}")
    rows: list[BeamRow] = []
    for number, step in enumerate(steps):
        rows += _rows(step, number, utterance, size, label, rows[-size:])
    best = _best(rows, size)
    return BeamStory(name, note, utterance, batch, size, len(steps), tuple(rows), best)


def golden_path(name: str | PathLike[str]) -> Path:
    """A path as it is given, else the golden file of that name among those of the package."""
    path = Path(name).expanduser()
    shipped = data_dir() / "golden" / f"{path.name.removesuffix('.json')}.json"
    return shipped if not path.exists() and len(path.parts) == 1 and shipped.exists() else path


def _steps(
    fixture: str | PathLike[str] | Trace, blank: int | None
) -> tuple[str, str, list[Mapping[str, Any]], int]:
    """Name, note, iterations as JSON, and the blank label."""
    if isinstance(fixture, Trace):
        iterations = fixture.iterations
        last = iterations[0].log_probs.shape[-1] - 1 if iterations else 0
        steps = [arrays(iteration) for iteration in iterations]
        return "trace", "", steps, last if blank is None else blank
    golden = read(golden_path(fixture))
    config, expected = golden.problem.get("config"), golden.expected
    if config is None or not expected.get("trace"):
        reason = expected.get("error") or "a search without frames, or no malsd golden file"
        return golden.name, str(reason), [], 0
    whole = json.loads(golden.path.read_text(encoding="utf-8"))
    return golden.name, whole.get("note", ""), expected["trace"], config["vocab_with_blank"] - 1


def _rows(
    step: Mapping[str, Any],
    number: int,
    utterance: int,
    size: int,
    blank: int,
    before: Sequence[BeamRow],
) -> list[BeamRow]:
    columns = {key: rows[utterance] for key, rows in step.items()}
    merged = {
        slot: kept
        for group in columns["recombined"]
        for kept in group["kept"][:1]
        for slot in group["slots"]
    }
    rows = []
    for slot in range(size):
        parent, label = columns["parent"][slot], columns["label"][slot]
        spelled = before[parent].tokens if before else ()
        score_pruned, score = (_score(columns[key][slot]) for key in ("score_pruned", "score"))
        row = BeamRow(
            number,
            slot,
            parent,
            None if label == CARRIED else label,
            label == blank,
            spelled if label in (CARRIED, blank) else (*spelled, label),
            score_pruned,
            score,
            columns["time_index"][slot],
            columns["symbols_at_time"][slot],
            bool(columns["forced_blank_parent"][parent]),
            merged.get(slot),
            bool(columns["active"][slot]),
        )
        rows.append(row)
    return rows


def _score(value: float | str) -> float | None:
    return float(value) if isfinite(float(value)) else None


def _best(rows: Sequence[BeamRow], size: int) -> tuple[int, ...]:
    """Back from the living slot of the highest score per label (with 1 added), as ranked."""
    living = [row for row in rows[-size:] if row.score is not None]
    if not living:
        return ()
    row = max(living, key=lambda row: row.score / (len(row.tokens) + 1))
    path = [row.slot]
    while row.iteration:
        row = rows[(row.iteration - 1) * size + row.parent]
        path.append(row.slot)
    return tuple(reversed(path))
