"""What happened in one iteration of a beam search: a sentence, and its slots for a terminal.

K slots; iterations count from 1, 0 is the beam's start.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from vrt.golden.errors import GoldenError
from vrt.golden.malsd_format import MalsdGolden, read
from vrt.lab.beam_steps import (
    BLANK,
    CARRIED,
    FORCED,
    LABEL,
    MERGED,
    PRUNED,
    START,
    Move,
    beam_steps,
)
from vrt.lab.lattice_rows import name as named
from vrt.lab.lattice_rows import said
from vrt.lab.shipped import golden
from vrt.rnnt.trace import Trace

Search = MalsdGolden | Trace
Names = Mapping[int, str]
HEAD = ("slot", "from", "took", "labels so far", "before the merge", "score", "frame", "")


def search_of(fixture: str | PathLike[str] | Search) -> Search:
    """A malsd golden file by its path, or by its name among those that vrt comes with; what is no
    path is given back. Raises `GoldenError` for a file that holds no beam search."""
    if isinstance(fixture, MalsdGolden | Trace):
        return fixture
    path = Path(fixture).expanduser()
    if len(path.parts) == 1 and not path.exists():
        return golden(path.name.removesuffix(".json"))
    found = read(path)
    if "config" not in found.problem:
        raise GoldenError(f"{path} holds no beam search; name a malsd golden file")
    return found


def utterances(search: Search) -> int:
    if isinstance(search, Trace):
        return len(search.iterations[0].parent) if search.iterations else 1
    return len(search.problem["config"]["lengths"])


def beam_size(search: Search) -> int:
    if isinstance(search, Trace):
        return search.iterations[0].parent.shape[-1] if search.iterations else 1
    return int(search.problem["config"]["beam_size"])


def took(move: Move, names: Names) -> str:
    if move.kind == LABEL:
        label = named(move.label, names)
        return f"‘{label}’" if names else label
    return {START: "–", BLANK: "blank", FORCED: "blank, forced", CARRIED: "carried over"}[move.kind]


def fate(move: Move, column: Sequence[Move]) -> str:
    """What became of a slot; empty for one that simply goes on."""
    if move.fate == MERGED:
        return f"merged into {move.merged_into}"
    sums = any(other.merged_into == move.slot for other in column)
    parts = ["keeps the sum"] * sums + ["pruned next"] * (move.fate == PRUNED)
    return ", ".join(parts)


def sentence(columns: Sequence[Sequence[Move]], iteration: int) -> str:
    """What an iteration did, in a line or two."""
    column = columns[iteration]
    if iteration == 0:
        return "The beam starts with one empty hypothesis; its other slots are dead."
    kinds = [move.kind for move in column]
    blanks, forced = kinds.count(BLANK) + kinds.count(FORCED), kinds.count(FORCED)
    parts = [
        f"{kinds.count(LABEL)} took a label and stayed at their frame",
        f"{blanks} took blank and went on by a frame"
        + f" ({forced} forced at the cap)" * (forced > 0),
        *[f"{kinds.count(CARRIED)} were final and carried over"] * (CARRIED in kinds),
    ]
    lines = [f"Pruning kept {len(column)}: {', '.join(parts)}."]
    for kept in column:
        others = [str(move.slot) for move in column if move.merged_into == kept.slot]
        if others:
            slots = f"{'Slots' if len(others) > 1 else 'Slot'} {' and '.join(others)}"
            verb = "spell" if len(others) > 1 else "spells"
            lines.append(
                f"{slots} {verb} the same as slot {kept.slot}, which takes the sum of their"
                " probabilities."
            )
    lost = [str(move.slot) for move in columns[iteration - 1] if move.fate == PRUNED]
    if lost:
        lines.append(f"Without a child, pruned: slot{'s' * (len(lost) > 1)} {', '.join(lost)}.")
    return " ".join(lines)


def beam_text(
    fixture: str | PathLike[str] | Search,
    iteration: int,
    utterance: int = 0,
    names: Names | None = None,
) -> str:
    """The sentence and the slots of an iteration. Raises as `search_of` and `beam_steps`, and
    IndexError for an iteration that was not made."""
    names = names or {}
    columns = beam_steps(search_of(fixture), utterance)
    if not 0 <= iteration < len(columns):
        raise IndexError(f"iteration {iteration} is not one of 0..{len(columns) - 1}")
    column = columns[iteration]
    lines = [HEAD, *(_cells(move, column, names) for move in column)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    table = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    return "\n".join(
        [f"iteration {iteration} of {len(columns) - 1}", sentence(columns, iteration), *table]
    )


def _cells(move: Move, column: Sequence[Move], names: Names) -> tuple[str, ...]:
    parent = "–" if move.kind == START else str(move.parent)
    scores = (f"{move.score_pruned:.4f}", f"{move.score:.4f}")
    end = fate(move, column)
    return (
        str(move.slot),
        parent,
        took(move, names),
        said(move, names),
        *scores,
        str(move.frame),
        end,
    )
