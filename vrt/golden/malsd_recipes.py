"""The malsd golden files in `data/golden`: each a small search, there for a mistake ports make.

V classes with blank last, K beam slots, M labels at one frame at most, T encoder frames. Seeds are
those of small ones that merge most and whose decisions are apart by 0.001 or more.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

from vrt.golden.malsd_make import MalsdRecipe
from vrt.golden.malsd_tables import (
    NEVER,
    at_most,
    colliding,
    config,
    formula,
    prefixes,
    scattered,
    table,
)


def recipes() -> Iterator[MalsdRecipe]:
    """All shipped files, `malsd-NAME.json`."""
    yield from _ties()
    yield from _merging()
    yield from _caps_and_ends()
    yield from _lengths()
    yield from _sizes()
    yield from _dead()
    yield from _formulas()
    yield from _fusion()


def _recipe(
    name: str,
    note: str,
    config: dict[str, Any],
    scorer: dict[str, Any],
    *tags: str,
    fusion: dict[str, Any] | None = None,
) -> MalsdRecipe:
    return MalsdRecipe(f"malsd-{name}", note, config, scorer, fusion, tags)


def _ties() -> Iterator[MalsdRecipe]:
    note = "blank and a label score the same at every step"
    yield _recipe("tie-blank-label", note, config(3, 2, 2, 3), table({}, [-1.0, -3.0, -1.0]), "tie")
    note = "all classes score the same"
    yield _recipe("tie-all", note, config(7, 3, 2, 3), table({}, [-2.0] * 7), "tie")
    note = "many equal scores, K * 64 > V: torch.topk partitions, then sorts"
    scorer = formula(21, quant=0.5, bits=19)
    yield _recipe("tie-partition", note, config(40, 4, 3, 5, 3), scorer, "tie")
    note = "many equal scores, K * 64 <= V: torch.topk selects with a heap"
    scorer = formula(22, quant=0.5, bits=19)
    yield _recipe("tie-heap", note, config(200, 3, 3, 5), scorer, "tie")
    note = "hypotheses of equal total score at the end, in both rankings"
    rows = {(t, ()): [-1.0] * 5 for t in (0, 1)}
    scorer = table(rows, [NEVER] * 4 + [-1.0])
    yield _recipe("tie-final", note, config(5, 4, 1, 2), scorer, "tie")


def _merging() -> Iterator[MalsdRecipe]:
    note = "(0) is reached by emitting at frame 0, 1 or 2; K = 2 keeps one way at a time"
    rows = {(t, ()): [-1.0, -3.0, -0.5] for t in range(3)}
    rows |= {(t, (0,)): [-5.0, -6.0, -0.25] for t in range(3)}
    scorer = table(rows, [-6.0, -6.0, -0.125])
    yield _recipe("two-alignments", note, config(3, 2, 2, 3), scorer, "merge", "tie")
    note = "two alignments of (0), probability 0.4 and 0.24, end as one hypothesis of 0.64"
    rows = {(t, ()): [-0.91629073, NEVER, -0.51082562] for t in (0, 1)}
    scorer = table(rows, [NEVER, NEVER, 0.0])
    yield _recipe("merge-sums", note, config(3, 3, 2, 2), scorer, "merge")
    note = "prune first, then merge: a pruned alignment adds nothing"
    scorer = formula(162, tdiv=3, blank_add=1.5, bits=19)
    yield _recipe("merge-after-pruning", note, config(4, 2, 2, 6), scorer, "merge")
    note = "a freed slot stays empty until the next pruning; what was dropped never comes back"
    scorer = formula(802, bits=19, blank_add=3.0, peak_add=3.0, tdiv=3)
    yield _recipe("merge-frees-a-slot", note, config(9, 4, 2, 12, 10, 5), scorer, "merge")
    note = "two merges in one iteration"
    scorer = formula(208, tdiv=4, blank_add=3.0, bits=19)
    yield _recipe("merge-two-groups", note, config(7, 6, 3, 7), scorer, "merge")
    note = "the winner of a merge keeps its own count of labels at its frame, and is forced by it"
    rows = {
        (0, ()): [-0.4, -4.0, -7.0, -1.3],
        (1, ()): [-0.5, -4.5, -7.0, -1.7],
        (0, (0,)): [-1.9, -0.7, -7.2, -0.8],
        (1, (0,)): [-2.2, -0.6, -7.2, -1.0],
        (1, (0, 1)): [-0.3, -2.9, -6.0, -1.8],
    }
    scorer = table(rows, [-1.6, -2.1, -5.0, -0.45])
    yield _recipe("merge-winner-counter", note, config(4, 4, 2, 3), scorer, "merge", "forced")
    note = "a winner's counter again, in many merges over two utterances"
    scorer = formula(127, tdiv=4, bits=19)
    yield _recipe("merge-many", note, config(5, 3, 2, 8, 6), scorer, "merge")
    note = "(0) and (0, 0) share the last label: the length is part of what is compared"
    yield _recipe("merge-same-label", note, config(3, 3, 3, 5), formula(246, tdiv=3), "merge")
    note = "a slot that a merge emptied keeps its hash and must not be merged again"
    scorer = formula(150, bits=18, shift=16, tdiv=4, blank_add=2.5)
    yield _recipe("merge-dead-twin", note, config(5, 4, 2, 7), scorer, "merge")
    note = "different labels of one hash, last label and length: NeMo merges them"
    yield _recipe("hash-collision", note, config(15, 2, 16, 1), colliding(), "collision")


def _caps_and_ends() -> Iterator[MalsdRecipe]:
    note = "labels are likelier than blank: the cap forces blank, frame after frame"
    scorer = formula(221, blank_add=-2.0)
    yield _recipe("forced-blank", note, config(5, 3, 2, 4, 2), scorer, "forced")
    note = "the forced blank is not among the K best labels of its slot"
    scorer = formula(163, blank_add=-16.0)
    yield _recipe("forced-blank-outside-k", note, config(6, 2, 3, 3), scorer, "forced")
    note = "no label is permitted at all"
    yield _recipe("cap-0", note, config(5, 3, 0, 4), formula(31), "forced")
    yield _recipe("cap-1", "one label a frame", config(7, 4, 1, 6, 4), formula(234), "forced")
    note = "no cap: three labels at most are possible, so the search ends by itself"
    yield _recipe("cap-none", note, config(4, 4, None, 5), at_most(3, 4, 5, seed=68), "none")
    note = "no cap and one frame: more iterations than frames, the history grows"
    yield _recipe("cap-none-grows", note, config(4, 4, None, 1), at_most(4, 4, 1, seed=76), "none")
    note = "no cap, utterances of unequal length"
    scorer = at_most(2, 4, 4, seed=112)
    yield _recipe("cap-none-batch", note, config(4, 3, None, 4, 2, 3), scorer, "none")
    note = "a final hypothesis competes by its score and is not pinned to slot 0"
    rows = {(0, ()): [-0.2, -4.0, -2.1], (0, (0,)): [-0.4, -3.7, -1.6]}
    scorer = table(rows, [-0.3, -3.5, -1.3])
    yield _recipe("final-not-first", note, config(3, 3, 3, 1), scorer, "final")
    note = "a final hypothesis is outscored and lost"
    scorer = table({(0, ()): [-0.1, -0.9, -5.0, -2.6]}, [-0.2, -1.1, -5.0, -0.7])
    yield _recipe("final-pruned", note, config(4, 2, 4, 1), scorer, "final")
    note = "dividing by the length + 1 makes a longer hypothesis the winner"
    scorer = formula(122, blank_add=1.0)
    yield _recipe("score-norm", note, config(4, 3, 2, 4), scorer, "norm")


def _lengths() -> Iterator[MalsdRecipe]:
    note = "four lengths, two of them equal"
    yield _recipe("uneven", note, config(8, 4, 3, 9, 1, 6, 6), formula(115, tdiv=3))
    note = "more padding than frames"
    yield _recipe("padded", note, config(8, 3, 2, 3, 2, time=9), formula(116))
    note = "an utterance of no frames wakes up in the second iteration and decodes its padding"
    scorer = formula(188, blank_add=0.5)
    yield _recipe("zero-length", note, config(6, 3, 2, 4, 0, 2), scorer, "zero_length")
    note = "no utterance has frames: no iteration, one empty hypothesis each"
    yield _recipe("zero-length-all", note, config(6, 3, 2, 0, 0, time=4), scorer, "zero_length")
    note = "beside utterances of one frame NeMo overruns its history"
    scorer = table({}, [-0.1, -3.0, -4.0, -6.0])
    yield _recipe("zero-length-error", note, config(4, 2, 2, 1, 0), scorer, "zero_length", "error")
    yield _recipe("no-frames", "T = 0", config(4, 2, 2, 0, time=0), formula(54), "error")
    yield _recipe("one-frame", "T = 1", config(8, 4, 3, 1, 1), formula(121))


def _sizes() -> Iterator[MalsdRecipe]:
    note = "one slot: nothing to merge"
    yield _recipe("beam-1", note, config(8, 1, 3, 9, 5), formula(61))
    note = "one slot pays for the blank it is forced to take"
    scorer = table({}, [-0.3, -2.0, -3.0, -4.0, -2.5])
    yield _recipe("beam-1-forced", note, config(5, 1, 2, 3), scorer, "forced")
    note = "as many slots as classes"
    yield _recipe("beam-v", note, config(5, 5, 2, 5), formula(148, tdiv=2))
    note = "more slots than classes: torch.topk raises"
    scorer = table({}, [-1.0, -2.0, -3.0, -0.5])
    yield _recipe("beam-over-v", note, config(4, 8, 2, 2), scorer, "error")
    yield _recipe("beam-16", "16 slots", config(24, 16, 3, 4), formula(186, bits=22))
    yield _recipe("beam-64", "64 slots", config(70, 64, 2, 2), formula(224, bits=24))
    yield _recipe("long", "40 frames", config(12, 4, 4, 40), formula(129, tdiv=4, blank_add=3.0))


def _dead() -> Iterator[MalsdRecipe]:
    note = "fewer finite candidates than slots: the rest are dead, what they hold is free"
    scorer = table({}, [NEVER, NEVER, -1.0, NEVER, -0.5])
    yield _recipe("few-finite", note, config(5, 4, 2, 3), scorer, "dead", "tie")
    note = "blank has probability 0 where the cap forces it: the slot dies"
    rows = scattered(7, 4, 3, longest=2)
    rows[0, ()] = rows[0, (0,)] = [-0.2, -2.5, -3.7, -1.9]
    rows[0, (0, 0)] = [-0.1, -1.0, -2.0, NEVER]
    scorer = table(rows, [-2.3, -3.1, -4.2, -0.3])
    yield _recipe("forced-blank-impossible", note, config(4, 3, 2, 3), scorer, "dead", "forced")
    note = "nothing is possible at frame 1: the beam dies and the n-best list is empty"
    dead = {(1, p): [NEVER] * 4 for p in prefixes(3, 2)}
    scorer = table(dead, [-0.7, -1.8, -3.0, -1.1])
    yield _recipe("all-dead", note, config(4, 2, 2, 3), scorer, "dead")
    note = "one utterance's beam dies, the other's goes on"
    scorer = table(scattered(8, 4, 3, longest=1), [-0.7, -1.8, -3.0, -1.1])
    dead = [{"b": 0, "t": 1, "prefix": list(p), "row": [NEVER] * 4} for p in prefixes(3, 2)]
    scorer["table"] = dead + scorer["table"]
    yield _recipe("one-row-dead", note, config(4, 2, 2, 2, 3), scorer, "dead")
    note = "a label of probability 1 until the cap, at every frame"
    scorer = table({}, [0.0, NEVER, NEVER, -9.0])
    yield _recipe("certain-label", note, config(4, 3, 3, 3), scorer, "dead", "forced", "tie")
    note = "blank leaves next to nothing to labels"
    yield _recipe("all-blank", note, config(6, 4, 3, 8), formula(212, blank_add=9.0))


def _formulas() -> Iterator[MalsdRecipe]:
    note = "ctx 0: rows depend on the number of labels only"
    yield _recipe("no-context", note, config(8, 4, 3, 7), formula(71, ctx=0), "tie")
    note = "ctx 1: rows depend on the last label"
    yield _recipe("bigram", note, config(8, 4, 3, 7), formula(183, ctx=1))
    note = "ctx 2, and frames that share a base"
    yield _recipe("trigram", note, config(8, 4, 3, 9), formula(240, ctx=2, tdiv=3))
    note = "values floored to multiples of 1/8"
    yield _recipe("coarse", note, config(8, 4, 3, 7), formula(74, quant=0.125), "tie")
    note = "a seed of 64 bits with the top bit set"
    yield _recipe("large-seed", note, config(8, 4, 3, 5), formula(2**63 + 75))


def _fusion() -> Iterator[MalsdRecipe]:
    one = [{"seed": 9000, "alpha": 0.25}]
    two = [{"seed": 9001, "alpha": 0.3}, {"seed": 9002, "alpha": 0.15}]
    for pruning, blank in product(("late", "early"), ("no_score", "lm_weighted_full")):
        name = f"fusion-{pruning}-{'unscored' if blank == 'no_score' else 'weighted'}"
        modes = {"pruning_mode": pruning, "blank_lm_score_mode": blank}
        fusion, scorer = {"models": one, **modes}, formula(396, tdiv=3)
        yield _recipe(
            name, "one bigram", config(9, 4, 3, 6, 3), scorer, "fusion", "merge", fusion=fusion
        )
        fusion, scorer = {"models": two, **modes}, formula(340, blank_add=1.0, tdiv=2)
        note = "two models, forced blanks and merges"
        size = config(7, 4, 1, 7, 5)
        yield _recipe(f"{name}-two", note, size, scorer, "fusion", "merge", "forced", fusion=fusion)
