"""Phrase boosting: phrases a user expects, as a tree that a search adds to the model's scores.

R rows, V classes with blank last. The tree is an Aho-Corasick automaton: a token that goes on with
a phrase earns a score, and one that leaves it unfinished pays back what the phrase had earned.
Equal to NeMo 3.0.0's `GPUBoostingTreeModel` (Andrusenko et al., "TurboBias", 2025), itself after
icefall's `ContextGraph`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import isfinite, log
from operator import index

import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from vrt.rnnt.backoff import Arc, BackoffGraph
from vrt.rnnt.config import BeamError


@dataclass(eq=False)
class _Node:
    """A token of one or more phrases, after the tokens above it."""

    number: int
    label: int
    score: float  # of this token
    total: float  # of the tokens down to here
    parent: "_Node | None" = None
    ends: bool = False  # a phrase is complete
    children: dict[int, "_Node"] = field(default_factory=dict)
    fail: "_Node | None" = None  # longest proper suffix that begins a phrase too


@dataclass(frozen=True)
class BoostingTree:
    """A fusion model: `Fusion(BoostingTree.from_phrases(...), alpha=...)`.

    The rule, for a token after what was said so far:
    - it goes on with a phrase: `context_score` for a phrase's first token, for the i-th
      `context_score * depth_scaling + ln i`;
    - it does not: the scores of the unfinished phrase are taken back, and the rule starts over with
      the longest ending of what was said that begins a phrase;
    - that begins none: `unk_score`.
    A phrase that is complete keeps its score. Three consequences, NeMo's as well: "ab" is lost
    again if "abc" is under way and breaks off; a complete phrase whose last tokens begin another
    one pays for those as well if they break off; and a phrase repeated earns again.

    Its scores are no log-probabilities: 0 for most tokens, so most hypotheses keep their order.
    Search with `blank_lm_score_mode="no_score"`; the other mode is made for language models, and
    moves the balance of blank and labels by alpha even where the tree says nothing. An alpha of
    0.25 to 1 is a place to start: much above, unlikely tokens of a phrase are inserted.
    `vrt.rnnt.why` shows what the tree did to a hypothesis.
    """

    graph: BackoffGraph

    @classmethod
    def from_phrases(
        cls,
        phrases: Sequence[Sequence[int]],
        labels: int,
        *,
        context_score: float = 1.0,
        depth_scaling: float = 2.0,
        unk_score: float = 0.0,
        uniform_weights: bool = False,
        scores: Sequence[float] | None = None,
    ) -> "BoostingTree":
        """Phrases as token ids (see `tokenized` for text) over `labels` tokens, V - 1.

        Scores are in natural-log units, before alpha. `depth_scaling` and `unk_score` as above.
        `scores` gives each phrase a `context_score` of its own; a token shared by phrases has the
        greatest one. `uniform_weights`: every token earns `context_score`, and a phrase's total,
        paid back when the phrase is left, is earned once more by its last token (icefall's way; not
        by a phrase of one token).

        Raises:
            BeamError: no phrase, one that is empty, given twice, or has a token outside
                0..labels - 1 (blank included); a score that is negative, NaN or infinite;
                depth_scaling below 1.
        """
        _refuse_scores(context_score, depth_scaling, unk_score)
        known = _checked(phrases, labels)
        own = [context_score] * len(known) if scores is None else _own(scores, len(known))
        # Greatest first: then no later phrase raises a token that others build upon.
        order = sorted(range(len(known)), key=lambda place: -own[place])
        nodes = [_Node(0, -1, 0.0, 0.0)]
        scaling, growth = (1.0, 0.0) if uniform_weights else (depth_scaling, 1.0)
        for place in order:
            _add(nodes, known[place], own[place], scaling, growth)
        levels = _levels(nodes[0])
        _link(levels)
        return cls(_graph(nodes[0], levels, labels, unk_score, uniform_weights))

    @property
    def labels(self) -> int:
        return self.graph.labels

    def to(self, device: torch.device | str) -> "BoostingTree":
        return BoostingTree(self.graph.to(device))

    def start(self, rows: int) -> Int64[Tensor, "R"]:
        """State 0: no phrase has begun."""
        return torch.zeros(rows, dtype=torch.int64, device=self.graph.backoff_to.device)

    def advance(
        self, states: Int64[Tensor, "R"]
    ) -> tuple[Float32[Tensor, "R labels"], Int64[Tensor, "R labels"]]:
        """Score of every label in each state, and the state after it."""
        return self.graph.rows(states)


def tokenized(
    phrases: Sequence[str], tokenize: Callable[[str], Sequence[int]]
) -> list[tuple[int, ...]]:
    """Text as token ids. Write it as the model does: a model with capitals needs capitals.

    Raises:
        BeamError: a phrase that is blank, or of which `tokenize` makes nothing, or the same as of
            another.
    """
    found: dict[tuple[int, ...], str] = {}
    for phrase in phrases:
        tokens = tuple(index(token) for token in tokenize(phrase)) if phrase.strip() else ()
        if not tokens:
            raise BeamError(f"phrase {phrase!r} has no tokens; leave it out")
        if tokens in found:
            raise BeamError(
                f"phrases {found[tokens]!r} and {phrase!r} have the same tokens; leave one out"
            )
        found[tokens] = phrase
    return list(found)


def _refuse_scores(context_score: float, depth_scaling: float, unk_score: float) -> None:
    if not (isfinite(context_score) and context_score >= 0):
        raise BeamError(f"context_score must be 0 or more and finite, got {context_score}")
    if not (isfinite(depth_scaling) and depth_scaling >= 1):
        raise BeamError(f"depth_scaling must be at least 1 and finite, got {depth_scaling}")
    if not isfinite(unk_score):
        raise BeamError(f"unk_score must be finite, got {unk_score}")


def _own(scores: Sequence[float], count: int) -> list[float]:
    if len(scores) != count:
        raise BeamError(f"{len(scores)} scores for {count} phrases; give one for each, or none")
    for place, score in enumerate(scores):
        if not (isfinite(score) and score > 0):
            raise BeamError(f"score {score} of phrase {place} must be above 0 and finite")
    return list(scores)


def _checked(phrases: Sequence[Sequence[int]], labels: int) -> list[tuple[int, ...]]:
    if labels < 1:
        raise BeamError(f"labels must be at least 1 (blank not counted), got {labels}")
    if not len(phrases):
        raise BeamError("no phrases to boost; leave the boosting tree out of the fusion models")
    places: dict[tuple[int, ...], int] = {}
    for place, phrase in enumerate(phrases):
        if isinstance(phrase, str):
            raise BeamError(f"phrase {place} is text, {phrase!r}: give `tokenized(phrases, ...)`")
        tokens = tuple(index(token) for token in phrase)
        if not tokens:
            raise BeamError(f"phrase {place} is empty; leave it out")
        for token in tokens:
            if not 0 <= token < labels:
                why = "is blank" if token == labels else f"is outside 0..{labels - 1}"
                raise BeamError(f"token {token} of phrase {place} {why}; tokens of another model?")
        if tokens in places:
            raise BeamError(
                f"phrase {place} is the same as phrase {places[tokens]}, tokens {list(tokens)};"
                " leave one out"
            )
        places[tokens] = place
    return list(places)


def _add(
    nodes: list[_Node], phrase: tuple[int, ...], score: float, scaling: float, growth: float
) -> None:
    node = nodes[0]
    for depth, label in enumerate(phrase, start=1):
        if label not in node.children:
            earned = score if depth == 1 else score * scaling + growth * log(depth)
            child = _Node(len(nodes), label, earned, node.total + earned, node)
            node.children[label] = child
            nodes.append(child)
        node = node.children[label]
    node.ends = True


def _levels(root: _Node) -> list[list[_Node]]:
    """Nodes by depth, in the order in which NeMo numbers its states."""
    levels, level = [], [root]
    while level := [child for node in level for child in node.children.values()]:
        level.sort(key=lambda node: (node.parent.number, node.label))
        levels.append(level)
    return levels


def _link(levels: list[list[_Node]]) -> None:
    """Fail arcs, from those of the level above."""
    for node in chain.from_iterable(levels):
        root = node.parent.fail is None
        node.fail = node.parent
        while not root:
            node.fail = node.fail.fail
            if node.label in node.fail.children:
                node.fail = node.fail.children[node.label]
                break
            root = node.fail.fail is None


def _graph(
    root: _Node, levels: list[list[_Node]], labels: int, unk_score: float, uniform: bool
) -> BackoffGraph:
    nodes = list(chain.from_iterable(levels))
    state = {node: place for place, node in enumerate([root, *nodes])}
    arcs = [(0, unk_score)] * labels
    for node in root.children.values():
        arcs[node.label] = (state[node], node.score)
    backoffs = [(0, 0.0), *((state[node.fail], _left(node, uniform)) for node in nodes)]
    return BackoffGraph.of(arcs, backoffs, list(_deeper(nodes, state, uniform)))


def _left(node: _Node, uniform: bool) -> float:
    """Score for leaving a node by its fail arc: what its phrase has earned is taken back but for
    what its ending earns as the beginning of another. A complete phrase is not."""
    if node.ends and not (uniform and node.parent.parent is not None):
        return 0.0
    return node.fail.total - node.total


def _deeper(nodes: list[_Node], state: dict[_Node, int], uniform: bool) -> Iterator[Arc]:
    for node in nodes:
        if node.parent.parent is not None:
            again = node.total if uniform and node.ends else 0.0
            yield Arc(state[node.parent], node.label, state[node], node.score + again)
