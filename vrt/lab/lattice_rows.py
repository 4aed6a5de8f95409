"""The rows of a beam lattice: its lines, its slots, how slots ended, and what it all comes to."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from vrt.lab.beam_steps import BLANK, FORCED, LIVES, MERGED, PRUNED, START, Move

ASIDE = 0.3  # columns between a slot and the mark of its end
APART = 0.1  # columns between the arrows of one iteration
SAID_LENGTH = 24  # characters of a result that are shown, its end

Columns = Sequence[Sequence[Move]]
Names = Mapping[int, str]


def line_rows(shown: Columns) -> list[dict[str, Any]]:
    """A line from each slot to its parent; `share`: its probability over its column's best."""
    rows = []
    for column in shown[1:]:
        top = max((move.score for move in column), default=0.0)
        for move in column:
            line = {"at": move.iteration - 1, "to": move.iteration}
            line |= {"slot": move.parent, "to_slot": move.slot}
            rows.append(line | {"share": math.exp(move.score - top), "best": move.best})
    return rows


def slot_rows(shown: Columns, names: Names) -> list[dict[str, Any]]:
    """A row a slot, by the move that made it; `sign` is what is written into it."""
    return [
        {
            "at": move.iteration,
            "slot": move.slot,
            "move": BLANK if move.kind == START else move.kind,
            "sign": "" if move.label is None else name(move.label, names),
            "best": move.best,
            "score": move.score,
            "frame": move.frame,
        }
        for column in shown
        for move in column
    ]


def end_rows(shown: Columns) -> list[dict[str, Any]]:
    """A row a slot that ended; `into` is the slot that took its probability, else its own."""
    rows = []
    for column in shown:
        arrows = 0
        for move in (move for move in column if move.fate != LIVES):
            into = move.slot if move.merged_into is None else move.merged_into
            row = {"at": move.iteration + ASIDE, "slot": move.slot, "into": into}
            if move.fate == MERGED:
                row["at"] += APART * (arrows % 4)
                arrows += 1
            angle = 180 if into > move.slot else 0  # slots count downward
            rows.append(row | {"move": move.fate, "angle": angle})
    return rows


def result_rows(column: Sequence[Move], names: Names) -> list[dict[str, Any]]:
    """What the living slots of a column say, to be written beside them."""
    return [
        {"at": move.iteration + ASIDE, "slot": move.slot, "said": _short(said(move, names))}
        for move in column
        if move.fate != MERGED
    ]


def said(move: Move, names: Names) -> str:
    """Labels without names are numbers, apart by spaces; with names they are joined as they are."""
    parts = [name(label, names) for label in move.tokens]
    return ("" if names else " ").join(parts) or "(nothing)"


def name(label: int, names: Names) -> str:
    return names.get(label, str(label))


def _short(text: str) -> str:
    return text if len(text) <= SAID_LENGTH else f"… {text[-SAID_LENGTH:]}"


def finding(columns: Columns, names: Names) -> str:
    """What the whole search did, in one line."""
    moves = [move for column in columns[1:] for move in column]
    fates = Counter(move.fate for column in columns for move in column)
    forced = sum(move.kind == FORCED for move in moves)
    best = next((move for move in columns[-1] if move.best), None)
    end = "the beam dies" if best is None else f"the best says {_short(said(best, names))}"
    counts = (f"{fates[MERGED]} merged", f"{fates[PRUNED]} pruned", f"{forced} blanks forced")
    return f"{len(columns) - 1} iterations, {', '.join(counts)}; {end}"
