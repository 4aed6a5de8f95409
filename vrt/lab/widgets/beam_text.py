"""What happened in one iteration of a beam search, in sentences and as a table for a terminal."""

from collections.abc import Sequence

from vrt.lab.widgets.beam_rows import BeamRow, BeamStory

HEAD = ("slot", "from", "took", "labels so far", "before merge", "score", "frame", "state")


def spelled(tokens: Sequence[int], labels: Sequence[str] | None) -> str:
    """Label ids in order, or what they spell."""
    if labels is None:
        return " ".join(map(str, tokens)) or "(empty)"
    return "".join(labels[token] for token in tokens) or "(empty)"


def took(row: BeamRow, labels: Sequence[str] | None) -> str:
    if row.score_pruned is None:
        return "–"
    if row.label is None:
        return "carried"
    if row.blank:
        return "blank, forced" if row.forced else "blank"
    return f"‹{labels[row.label]}›" if labels else str(row.label)


def state(row: BeamRow) -> str:
    """Empty for a slot that simply lives on."""
    if row.score_pruned is None:
        return "empty"
    if row.score is None:
        return "merged into " + str(row.merged_into) if row.merged_into is not None else "dead"
    if row.merged_into is not None:
        return "keeps the sum"
    return "" if row.active else "final"


def sentence(story: BeamStory, iteration: int) -> str:
    """What an iteration did, in a line."""
    rows = story.at(iteration)
    living = [row for row in rows if row.score_pruned is not None]
    labels = sum(row.label is not None and not row.blank for row in living)
    blanks, carried = sum(row.blank for row in living), sum(row.label is None for row in living)
    parts = [f"{labels} took a label", f"{blanks} took blank and went on by a frame"]
    if carried:
        parts.append(f"{carried} final ones were carried over")
    said = f"Of {len(living)} that pruning kept, {', '.join(parts)}."
    groups = [row for row in living if row.merged_into == row.slot]
    for kept in groups:
        others = [row.slot for row in living if row.merged_into == kept.slot != row.slot]
        names = " and ".join(map(str, others))
        free = "slots are" if len(others) > 1 else "slot is"
        said += f" Slot {names} spelled what slot {kept.slot} spells: {kept.slot} takes the sum of"
        said += f" their probabilities, the {free} free."
    before = story.at(iteration - 1) if iteration else []
    kept_parents = {row.parent for row in living}
    lost = [row.slot for row in before if row.alive and row.slot not in kept_parents]
    if lost:
        named = ", ".join(map(str, lost))
        said += f" Without a child: slot{'s' * (len(lost) > 1)} {named}."
    return said


def beam_text(story: BeamStory, iteration: int, labels: Sequence[str] | None = None) -> str:
    """The sentence and the slots of an iteration. Raises IndexError."""
    lines = [HEAD]
    for row in story.at(iteration):
        scores = (
            "-inf" if value is None else f"{value:.4f}" for value in (row.score_pruned, row.score)
        )
        empty = row.score_pruned is None
        lines.append(
            (
                str(row.slot),
                "–" if empty else str(row.parent),
                took(row, labels),
                "–" if empty else spelled(row.tokens, labels),
                *scores,
                "–" if empty else str(row.frame),
                state(row),
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    title = f"{story.name}, utterance {story.utterance}: iteration {iteration}"
    return "\n".join([f"{title} of 0..{story.iterations - 1}", sentence(story, iteration), *table])
