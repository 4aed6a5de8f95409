"""The malsd golden files in `data/golden`: each a small search, there for a mistake ports make.

V classes with blank last, K beam slots, M labels at one frame at most, T encoder frames.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from vrt.golden.malsd_make import MalsdRecipe

Row = Sequence[float | str]
NEVER = "-inf"

# Two lists of 15 labels with one 64-bit hash, last label and length: their differences are a short
# vector of the lattice of x with sum(x[i] * 6364136223846793005^(14 - i)) = 0 modulo 2^64.
_DIFFERENCE = (8, 3, 4, -1, 7, 13, 11, -1, -7, 5, 2, -6, -8, -2, 0)
COLLIDING = (
    tuple(max(x, 0) for x in _DIFFERENCE),
    tuple(max(-x, 0) for x in _DIFFERENCE),
)


def config(
    vocab: int, beam: int, symbols: int | None, *lengths: int, time: int | None = None, **rules: str
) -> dict[str, Any]:
    return {
        "vocab_with_blank": vocab,
        "beam_size": beam,
        "max_symbols": symbols,
        "lengths": list(lengths),
        "max_time": max(lengths) if time is None else time,
        **rules,
    }


def table(
    rows: dict[tuple[int, tuple[int, ...]], Row], default: Row | None = None
) -> dict[str, Any]:
    """Log-probabilities by (encoder frame, labels so far)."""
    entries = [{"t": t, "prefix": list(p), "row": list(row)} for (t, p), row in rows.items()]
    found: dict[str, Any] = {"mode": "logprob", "table": entries}
    return found if default is None else {**found, "default_row": list(default)}


def formula(seed: int, **changes: float) -> dict[str, Any]:
    base = {"seed": seed, "ctx": -1, "bits": 20, "shift": 17, "blank_add": 2.0, "peak_add": 2.0}
    return {"mode": "logits", "formula": base | changes}


def recipes() -> Iterator[MalsdRecipe]:
    """All shipped files, `malsd-NAME.json`."""
    yield from _ties()
    yield from _merging()
    yield from _ends_and_caps()
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
    yield _recipe(
        "tie-blank-label",
        "blank and a label score the same at every step",
        config(3, 2, 2, 3),
        table({}, [-1.0, -3.0, -1.0]),
        "ties",
    )
    yield _recipe(
        "tie-all",
        "all classes score the same",
        config(7, 3, 2, 3),
        table({}, [-2.0] * 7),
        "ties",
    )
    yield _recipe(
        "tie-partition",
        "many equal scores, K * 64 > V: torch.topk partitions, then sorts",
        config(40, 4, 3, 5, 3),
        formula(21, quant=0.5, bits=19),
        "ties",
    )
    yield _recipe(
        "tie-heap",
        "many equal scores, K * 64 <= V: torch.topk selects with a heap",
        config(200, 3, 3, 5),
        formula(22, quant=0.5, bits=19),
        "ties",
    )
    yield _recipe(
        "tie-final",
        "hypotheses of equal total score at the end, in both rankings",
        config(5, 4, 1, 2),
        table({(t, ()): [-1.0, -1.0, -1.0, -1.0, -1.0] for t in (0, 1)}, [NEVER] * 4 + [-1.0]),
        "ties",
    )


def _merging() -> Iterator[MalsdRecipe]:
    step = [-1.0, -3.0, -0.5]
    frames = {(t, ()): step for t in range(3)}
    yield _recipe(
        "two-alignments",
        "(0) is reached by emitting at frame 0, 1 or 2; K = 2 keeps only one way at a time",
        config(3, 2, 2, 3),
        table(frames | {(t, (0,)): [-5.0, -6.0, -0.25] for t in range(3)}, [-6.0, -6.0, -0.125]),
        "recombine",
    )
    half = -0.69314718
    yield _recipe(
        "merge-sums",
        "two alignments of (0), 1/2 and 1/4, end as one hypothesis of probability 3/4",
        config(3, 3, 2, 2),
        table({(t, ()): [half, NEVER, half] for t in (0, 1)}, [NEVER, NEVER, 0.0]),
        "recombine",
    )
    yield _recipe(
        "merge-after-pruning",
        "a third, pruned alignment would change the sum if merging came first",
        config(4, 2, 2, 4),
        table(
            {(t, ()): [-1.0, -1.4, -6.0, -1.1] for t in range(4)},
            [-4.0, -4.5, -6.0, -0.3],
        ),
        "recombine",
    )
    yield _recipe(
        "merge-frees-a-slot",
        "a freed slot stays empty until the next pruning; a dropped candidate never comes back",
        config(9, 4, 2, 12, 10, 5),
        formula(802, bits=19, blank_add=3.0, peak_add=3.0, tdiv=3),
        "recombine",
    )
    yield _recipe(
        "merge-three",
        "three alignments meet in one iteration",
        config(4, 6, 3, 6),
        table(
            {(t, ()): [-1.0, -5.0, -5.3, -0.9] for t in range(6)},
            [-5.0, -5.6, -5.2, -0.05],
        ),
        "recombine",
    )
    yield _recipe(
        "merge-winner-counter",
        "the winner of a merge keeps its own count of labels at its frame, and is forced by it",
        config(4, 4, 2, 3),
        table(
            {
                (0, ()): [-0.4, -4.0, -7.0, -1.3],
                (1, ()): [-0.5, -4.5, -7.0, -1.7],
                (0, (0,)): [-1.9, -0.7, -7.2, -0.8],
                (1, (0,)): [-2.2, -0.6, -7.2, -1.0],
                (1, (0, 1)): [-0.3, -2.9, -6.0, -1.8],
            },
            [-1.6, -2.1, -5.0, -0.45],
        ),
        "recombine",
        "forced",
    )
    yield _recipe(
        "same-label-twice",
        "(0) and (0, 0) share hash parts and the last label: the length tells them apart",
        config(3, 4, 3, 4),
        table({}, [-0.8, -3.1, -0.7]),
        "recombine",
    )
    yield _recipe(
        "dead-twin",
        "a slot that a merge emptied has the hash of a living one and must not be merged again",
        config(5, 4, 2, 7),
        formula(87, bits=18, shift=16, tdiv=4, blank_add=2.5),
        "recombine",
    )
    yield from _collision()


def _collision() -> Iterator[MalsdRecipe]:
    """Two different lists of labels that meet in one hash after 15 iterations at one frame."""
    labels, blank = max(map(max, COLLIDING)) + 1, -7.0
    rows: dict[tuple[int, tuple[int, ...]], Row] = {}
    for tokens, first in zip(COLLIDING, (-0.5, -1.0), strict=True):
        for n, token in enumerate(tokens):
            row = list(rows.get((0, tokens[:n]), [-9.0 - 0.1 * v for v in range(labels)] + [blank]))
            row[token] = first if n == 0 else -0.1
            rows[0, tokens[:n]] = row
    rows |= {(0, tokens): [-9.0] * labels + [-0.1] for tokens in COLLIDING}
    found = table(rows, [-9.0 - 0.1 * v for v in range(labels)] + [-8.0])
    for collisions in ("nemo", "verify"):
        if collisions == "nemo":
            yield _recipe(
                "hash-collision",
                "different labels, one hash, last label and length: NeMo merges them",
                config(labels + 1, 3, 16, 1, collisions=collisions),
                found,
                "collision",
            )


def _ends_and_caps() -> Iterator[MalsdRecipe]:
    yield _recipe(
        "forced-blank",
        "labels are likelier than blank: the cap forces blank, frame after frame",
        config(5, 3, 2, 4, 2),
        table({}, [-0.6, -1.5, -2.8, -4.4, -3.3]),
        "forced",
    )
    yield _recipe(
        "forced-blank-outside-k",
        "the forced blank is not among the K best labels of its slot",
        config(6, 2, 3, 2),
        table({}, [-0.1, -3.0, -4.0, -4.5, -5.0, -20.0]),
        "forced",
    )
    yield _recipe(
        "cap-0", "no label is permitted at all", config(5, 3, 0, 4), formula(31), "forced"
    )
    yield _recipe("cap-1", "one label a frame", config(7, 4, 1, 6, 4), formula(32), "forced")
    yield _recipe(
        "final-not-first",
        "a final hypothesis competes by its score and is not pinned to slot 0",
        config(3, 3, 3, 1),
        table(
            {(0, ()): [-0.2, -4.0, -2.1], (0, (0,)): [-0.4, -3.7, -1.6]},
            [-0.3, -3.5, -1.3],
        ),
        "final",
    )
    yield _recipe(
        "final-pruned",
        "a final hypothesis is outscored and lost",
        config(4, 2, 4, 1),
        table({(0, ()): [-0.1, -0.9, -5.0, -2.6]}, [-0.2, -1.1, -5.0, -0.7]),
        "final",
    )
    yield _recipe(
        "score-norm",
        "dividing by the length + 1 makes a longer hypothesis the winner",
        config(3, 3, 1, 3),
        table({}, [-1.0, -9.0, -0.9]),
        "norm",
    )
    yield _recipe(
        "cap-none",
        "no cap: three labels at most are possible, so the search ends by itself",
        config(4, 4, None, 5),
        _at_most(3, 4, 5, seed=41),
        "none",
    )
    yield _recipe(
        "cap-none-one-frame",
        "no cap and one frame: more iterations than frames, the history grows",
        config(4, 6, None, 1),
        _at_most(4, 4, 1, seed=42),
        "none",
    )
    yield _recipe(
        "cap-none-batch",
        "no cap, utterances of unequal length",
        config(4, 3, None, 4, 2, 3),
        _at_most(2, 4, 4, seed=43),
        "none",
    )


def _at_most(labels: int, vocab: int, time: int, seed: int) -> dict[str, Any]:
    """Random rows for every prefix that may still grow; from `labels` labels on only blank."""
    random = np.random.default_rng(seed)
    prefixes = [p for n in range(labels) for p in product(range(vocab - 1), repeat=n)]
    rows = {
        (t, prefix): np.round(-4 * random.random(vocab) - 0.05, 4).tolist()
        for t in range(time)
        for prefix in prefixes
    }
    return table(rows, [NEVER] * (vocab - 1) + [-0.3])


def _lengths() -> Iterator[MalsdRecipe]:
    yield _recipe("uneven", "four lengths, two equal", config(8, 4, 3, 9, 1, 6, 6), formula(51))
    yield _recipe(
        "padded",
        "more padding than frames",
        config(8, 3, 2, 3, 2, time=9),
        formula(52),
    )
    yield _recipe(
        "zero-length",
        "an utterance of no frames wakes up in the second iteration and decodes its padding",
        config(6, 3, 2, 4, 0, 2),
        formula(53, blank_add=0.5),
        "zero_length",
    )
    yield _recipe(
        "zero-length-empty",
        "the same problem with the utterance kept empty, which NeMo does in a batch of its own",
        config(6, 3, 2, 0, 0, time=4),
        formula(53, blank_add=0.5),
        "zero_length",
    )
    yield _recipe(
        "zero-length-one-frame",
        "beside utterances of one frame NeMo overruns its history",
        config(4, 2, 2, 1, 0),
        table({}, [-0.1, -3.0, -4.0, -6.0]),
        "zero_length",
        "error",
    )
    yield _recipe("no-frames", "T = 0", config(4, 2, 2, 0, time=0), formula(54), "error")
    yield _recipe("one-frame", "T = 1", config(8, 4, 3, 1, 1), formula(55))


def _sizes() -> Iterator[MalsdRecipe]:
    yield _recipe(
        "beam-1",
        "nothing to merge; labels and blanks taken one best at a time",
        config(8, 1, 3, 9, 5),
        formula(61),
    )
    yield _recipe(
        "beam-1-forced",
        "a beam of one pays for the blank it is forced to take",
        config(5, 1, 2, 3),
        table({}, [-0.3, -2.0, -3.0, -4.0, -2.5]),
        "forced",
    )
    yield _recipe("beam-v", "as many slots as classes", config(5, 5, 2, 5), formula(62))
    yield _recipe(
        "beam-over-v",
        "more slots than classes: torch.topk raises",
        config(4, 8, 2, 2),
        table({}, [-1.0, -2.0, -3.0, -0.5]),
        "error",
    )
    yield _recipe("beam-16", "sixteen slots", config(24, 16, 3, 4), formula(63, bits=22))
    yield _recipe("beam-64", "sixty-four slots", config(70, 64, 2, 2), formula(64, bits=24))
    yield _recipe("long", "forty frames", config(12, 4, 4, 40), formula(65, blank_add=3.0))


def _dead() -> Iterator[MalsdRecipe]:
    only = [NEVER, NEVER, -1.0, NEVER, -0.5]
    yield _recipe(
        "few-finite",
        "fewer finite candidates than slots: the rest are dead, their content is free",
        config(5, 4, 2, 3),
        table({}, only),
        "dead",
    )
    yield _recipe(
        "forced-blank-impossible",
        "blank has probability 0 where the cap forces it: the slot dies",
        config(4, 3, 2, 3),
        table(
            {(0, (0, 0)): [-1.0, -1.0, -1.0, NEVER]},
            [-0.4, -1.9, -4.1, -1.4],
        ),
        "dead",
        "forced",
    )
    yield _recipe(
        "all-dead",
        "nothing is possible at frame 1: the beam dies and the n-best list is empty",
        config(4, 2, 2, 3),
        table({(1, p): [NEVER] * 4 for p in _prefixes(3, 4)}, [-0.7, -1.8, -3.0, -1.1]),
        "dead",
    )
    yield _recipe(
        "one-row-dead",
        "one utterance's beam dies, the other's goes on",
        config(4, 2, 2, 2, 3),
        {
            "mode": "logprob",
            "table": [
                {"b": 0, "t": 1, "prefix": list(p), "row": [NEVER] * 4} for p in _prefixes(3, 4)
            ],
            "default_row": [-0.7, -1.8, -3.0, -1.1],
        },
        "dead",
    )
    yield _recipe(
        "certain-label",
        "a label of probability 1 until the cap, at every frame",
        config(4, 3, 3, 3),
        table({}, [0.0, NEVER, NEVER, -9.0]),
        "dead",
        "forced",
    )
    yield _recipe(
        "all-blank",
        "blank has all but no probability to itself",
        config(6, 4, 3, 8),
        table({}, [-9.0, -9.4, -9.9, -10.5, -11.2, -0.001]),
    )


def _prefixes(labels: int, longest: int) -> list[tuple[int, ...]]:
    return [p for n in range(longest + 1) for p in product(range(labels), repeat=n)]


def _formulas() -> Iterator[MalsdRecipe]:
    yield _recipe(
        "no-context",
        "ctx 0: rows depend on the number of labels only",
        config(8, 4, 3, 7),
        formula(71, ctx=0),
    )
    yield _recipe(
        "bigram", "ctx 1: rows depend on the last label", config(8, 4, 3, 7), formula(72, ctx=1)
    )
    yield _recipe(
        "trigram",
        "ctx 2, and frames that share a base",
        config(8, 4, 3, 9),
        formula(73, ctx=2, tdiv=3),
    )
    yield _recipe(
        "coarse", "values floored to multiples of 1/8", config(8, 4, 3, 7), formula(74, quant=0.125)
    )
    yield _recipe(
        "negative-seed",
        "a seed of 64 bits with the top bit set",
        config(8, 4, 3, 5),
        formula(2**63 + 75),
    )


def _fusion() -> Iterator[MalsdRecipe]:
    for pruning, blank in product(("late", "early"), ("no_score", "lm_weighted_full")):
        name = f"{pruning}-{'no-score' if blank == 'no_score' else 'weighted'}"
        modes = {"pruning_mode": pruning, "blank_lm_score_mode": blank}
        yield _recipe(
            f"fusion-{name}",
            "one bigram",
            config(9, 4, 3, 6, 3),
            formula(81, blank_add=1.5),
            "fusion",
            fusion={"models": [{"seed": 9000, "alpha": 0.25}], **modes},
        )
        yield _recipe(
            f"fusion-{name}-two",
            "two models, forced blanks and merges",
            config(7, 4, 1, 7, 5),
            formula(82, blank_add=1.0, tdiv=2),
            "fusion",
            "forced",
            fusion={
                "models": [{"seed": 9001, "alpha": 0.3}, {"seed": 9002, "alpha": 0.15}],
                **modes,
            },
        )
