"""What is compared between two answers to a malsd problem, in the order of the data's flow.

B utterances, K beam slots.
"""

from dataclasses import dataclass
from typing import Any, Literal

TOLERANCE = 2e-4  # of every score, absolute

# Where a field means something: in slots that hold a finite score after pruning, in slots that
# are alive after the merge, in slots that were alive before the iteration, or in all.
Slots = Literal["pruned", "alive", "before", "all"]


@dataclass(frozen=True)
class Field:
    """One array [B][K] of an iteration. `kind` is `score`, `count`, `flag` or `hash`."""

    name: str
    slots: Slots
    kind: Literal["score", "count", "flag", "hash"] = "count"

    @property
    def stage(self) -> str:
        return f"trace.{self.name}"


FIELDS = (
    Field("forced_blank_parent", "before", "flag"),
    Field("score_pruned", "all", "score"),
    Field("parent", "pruned"),
    Field("label", "pruned"),
    Field("score", "all", "score"),
    Field("alive", "all", "flag"),
    Field("last_label", "alive"),
    Field("length_nonblank", "alive"),
    Field("length_with_blank", "alive"),
    Field("symbols_at_time", "alive"),
    Field("step_timestamp", "alive"),
    Field("next_timestamp", "alive"),
    Field("time_index", "alive"),
    Field("safe_time_index", "alive"),
    Field("hash", "alive", "hash"),
    Field("active", "alive", "flag"),
)
RECOMBINED = "trace.recombined"
ITERATIONS = "trace.iterations"
NBESTS = ("nbest_norm", "nbest_raw")
BESTS = {"best_norm": "nbest_norm", "best_raw": "nbest_raw"}
STAGES = (
    *("error", *(field.stage for field in FIELDS), RECOMBINED, ITERATIONS),
    *(*NBESTS, *BESTS),
)


def value(found: Any, kind: str) -> float | int:
    """A number as JSON has it. Raises ValueError or TypeError for what is none."""
    if kind == "score":
        return float(found)
    if kind == "hash":
        return int(found) % 2**64
    if found is None or int(found) != found:
        raise ValueError(f"{found!r} is no whole number")
    return int(found)
