"""What an observer of the search sees: every iteration's arrays, and a table of them.

B utterances, K beam slots, V classes. Names are those of the golden format.
"""

import html
from dataclasses import dataclass, field

from jaxtyping import Bool, Float, Int64
from torch import Tensor

from vrt.rnnt.hypotheses import DEAD


@dataclass(frozen=True)
class Iteration:
    """One iteration: what each slot came from, and what it is afterwards."""

    forced_blank_parent: Bool[Tensor, "B K"]  # over the slots before the iteration
    parent: Int64[Tensor, "B K"]
    label: Int64[Tensor, "B K"]  # -1: a final hypothesis carried over
    score_pruned: Float[Tensor, "B K"]  # after pruning, before the merge
    equal: Bool[Tensor, "B K K"]  # slots that the merge took for the same transcript
    score: Float[Tensor, "B K"]  # after the merge; -inf: dead
    last_label: Int64[Tensor, "B K"]
    length_nonblank: Int64[Tensor, "B K"]
    length_with_blank: int  # iterations so far
    symbols_at_time: Int64[Tensor, "B K"]
    time_index: Int64[Tensor, "B K"]  # also the stamp of the next label
    safe_time_index: Int64[Tensor, "B K"]
    active: Bool[Tensor, "B K"]  # for the next iteration
    hash: Int64[Tensor, "B K"]  # modulo 2^64, as int64 has it
    log_probs: Float[Tensor, "B K V"]  # acoustic, over the slots before the iteration
    rows: Float[Tensor, "B K V"]  # what each slot's K best labels were chosen by: fused if late
    candidates: Float[Tensor, "B K K"]  # what pruning chose from
    candidate_labels: Int64[Tensor, "B K K"]

    @property
    def alive(self) -> Bool[Tensor, "B K"]:
        return self.score > DEAD

    @property
    def recombined(self) -> list[list[tuple[tuple[int, ...], tuple[int, ...]]]]:
        """Per utterance, groups of two or more living slots that were merged, and who was kept."""
        living = self.score_pruned > DEAD
        pairs = (self.equal & living.unsqueeze(-1) & living.unsqueeze(-2)).tolist()
        alive = self.alive.tolist()
        return [
            [
                (group, tuple(k for k in group if alive[row][k]))
                for group in dict.fromkeys(tuple(_where(line)) for line in lines)
                if len(group) > 1
            ]
            for row, lines in enumerate(pairs)
        ]


def _where(flags: list[bool]) -> list[int]:
    return [k for k, flag in enumerate(flags) if flag]


@dataclass(frozen=True)
class Table:
    """Rows of a trace; a frame of pandas or polars takes them as they are."""

    rows: list[dict[str, int | float | bool]]

    def __str__(self) -> str:
        """Columns for a terminal."""
        if not self.rows:
            return "no iteration"
        head = list(self.rows[0])
        lines = [head, *([_shown(value) for value in row.values()] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
            for line in lines
        )

    def _repr_html_(self) -> str:
        if not self.rows:
            return "<table><caption>no iteration</caption></table>"
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.rows[0])
        body = "".join(
            "<tr>" + "".join(f"<td>{_shown(value)}</td>" for value in row.values()) + "</tr>"
            for row in self.rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _shown(value: int | float | bool) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


@dataclass
class Trace:
    """An observer that keeps every iteration: `malsd(..., observer=trace)`."""

    iterations: list[Iteration] = field(default_factory=list)

    def __call__(self, iteration: Iteration) -> None:
        self.iterations.append(iteration)

    def table(self, utterance: int = 0) -> Table:
        """One row per iteration and living slot of an utterance."""
        columns = ("parent", "label", "score_pruned", "score", "time_index", "symbols_at_time")
        rows = []
        for number, iteration in enumerate(self.iterations):
            merged = {k for group, _ in iteration.recombined[utterance] for k in group}
            values = [getattr(iteration, name)[utterance].tolist() for name in columns]
            for slot in _where((iteration.score_pruned[utterance] > DEAD).tolist()):
                row = {"iteration": number, "slot": slot}
                row |= {n: v[slot] for n, v in zip(columns, values, strict=True)}
                rows.append(row | {"merged": slot in merged})
        return Table(rows)
