"""A beam search as moves: what each slot came from, which slots were merged, which were given up.

B utterances, K slots. Iterations count from 1; 0 is the beam's start, one empty hypothesis.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vrt.golden.malsd_answer import arrays
from vrt.golden.malsd_format import MalsdGolden
from vrt.rnnt.trace import Trace

START, LABEL, BLANK, FORCED, CARRIED = "start", "label", "blank", "forced blank", "carried over"
LIVES, MERGED, PRUNED = "goes on", "merged into another", "pruned"
NO_PARENT = -1


@dataclass(frozen=True)
class Move:
    """What a slot is after an iteration, and how it came to be.

    `score` is the total log-probability after the merge, `score_pruned` the one before it; a slot
    that gave its probability away has the latter twice. `fate` looks ahead: PRUNED slots have no
    child.
    """

    iteration: int
    slot: int
    parent: int  # slot before the iteration
    kind: str  # START, LABEL, BLANK, FORCED, CARRIED
    label: int | None  # of LABEL moves
    tokens: tuple[int, ...]
    score_pruned: float
    score: float
    frame: int  # encoder frame to be read next
    fate: str  # LIVES, MERGED, PRUNED
    merged_into: int | None = None
    best: bool = False  # on the way to the hypothesis that won


def beam_steps(
    source: MalsdGolden | Trace, utterance: int = 0, score_norm: bool = True
) -> list[list[Move]]:
    """The moves of each iteration, the start first; dead slots have none.

    `score_norm` ranks by score / (labels + 1), as the search does by default. Raises ValueError
    where there is no iteration to show, naming the file's error if it has one.
    """
    steps, blank = _steps(source)
    if not steps:
        raise ValueError(f"no iteration to show: {_why(source)}")
    batch = len(steps[0]["parent"])
    if not 0 <= utterance < batch:
        raise ValueError(f"utterance {utterance}: the search has 0..{batch - 1}")
    columns = [[Move(0, 0, NO_PARENT, START, None, (), 0.0, 0.0, 0, LIVES)]]
    for number, step in enumerate(steps, start=1):
        row = {name: values[utterance] for name, values in step.items()}
        columns.append(_column(number, row, columns[-1], blank))
    return _marked(columns, score_norm)


def _steps(source: MalsdGolden | Trace) -> tuple[list[Mapping[str, Any]], int]:
    """Iterations as the golden format writes them, and the blank's id."""
    if isinstance(source, Trace):
        found = source.iterations
        return [arrays(one) for one in found], found[0].log_probs.shape[-1] - 1 if found else 0
    vocab = source.problem["config"]["vocab_with_blank"]
    return source.expected.get("trace", []), int(vocab) - 1


def _why(source: MalsdGolden | Trace) -> str:
    error = None if isinstance(source, Trace) else source.expected.get("error")
    return str(error) if error else "the trace is empty"


def _column(number: int, row: Mapping[str, Any], before: Sequence[Move], blank: int) -> list[Move]:
    parents = {move.slot: move for move in before}
    losers = {
        slot: group["kept"][0]
        for group in row["recombined"]
        for slot in group["slots"]
        if slot not in group["kept"]
    }
    moves = []
    for slot, pruned in enumerate(row["score_pruned"]):
        if not math.isfinite(float(pruned)):
            continue
        parent, label = row["parent"][slot], row["label"][slot]
        kind = _kind(label, blank, bool(row["forced_blank_parent"][parent]))
        said = parents[parent].tokens + ((label,) if kind == LABEL else ())
        into = losers.get(slot)
        moves.append(
            Move(
                number,
                slot,
                parent,
                kind,
                label if kind == LABEL else None,
                said,
                float(pruned),
                float(pruned if into is not None else row["score"][slot]),
                row["time_index"][slot],
                LIVES if into is None else MERGED,
                into,
            )
        )
    return moves


def _kind(label: int, blank: int, forced: bool) -> str:
    if label < 0:
        return CARRIED
    if label != blank:
        return LABEL
    return FORCED if forced else BLANK


def _marked(columns: Sequence[Sequence[Move]], score_norm: bool) -> list[list[Move]]:
    """The same moves, with who was pruned and who leads to the winner."""
    living = [move for move in columns[-1] if move.fate == LIVES]
    ranks = {m.slot: m.score / (len(m.tokens) + 1) if score_norm else m.score for m in living}
    winner = max(ranks, key=lambda slot: ranks[slot], default=None)
    children = {move.slot for move in living}  # of the last column none is pruned
    marked: list[list[Move]] = []
    for column in reversed(columns):
        done = [_with(move, move.slot in children, move.slot == winner) for move in column]
        winner = next((move.parent for move in done if move.best), None)
        children = {move.parent for move in column}
        marked.append(done)
    return marked[::-1]


def _with(move: Move, has_child: bool, best: bool) -> Move:
    fate = PRUNED if move.fate == LIVES and not has_child else move.fate
    return replace(move, fate=fate, best=best)
