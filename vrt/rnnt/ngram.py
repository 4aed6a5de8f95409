"""A back-off n-gram over a transducer's tokens, as a fusion model.

R rows, V classes with blank last. p(w | context) is the file's where the context has w, else the
context's back-off weight times p(w | context without its first word) (Katz 1987). Equal to NeMo
3.0.0's `NGramGPULanguageModel`, state numbers included.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, log10
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from vrt.rnnt.arpa import ArpaError, Entry, read_arpa
from vrt.rnnt.backoff import Arc, BackoffGraph
from vrt.rnnt.config import BeamError

BOS, EOS, UNK = -1, -2, -3
SPECIAL = {"<s>": BOS, "</s>": EOS, "<unk>": UNK, "<UNK>": UNK}
Words = tuple[int, ...]


@dataclass(frozen=True)
class Ngram:
    """A fusion model: `Fusion(Ngram.from_arpa(...), alpha=...)`.

    State 0 is the empty context, 1 the beginning of a sentence. The probability of the sentence's
    end is not used, as in NeMo: a search does not know that a stream ends.
    """

    graph: BackoffGraph
    order: int

    @classmethod
    def from_arpa(
        cls,
        path: str | Path,
        vocabulary: Sequence[str],
        *,
        normalize_unk: bool = True,
        unk_log_prob: float | None = None,
    ) -> "Ngram":
        """An ARPA file (plain or gzip) whose tokens are spelled as in `vocabulary`, by token id.

        Tokens that the file lacks have the probability of `<unk>`; `normalize_unk` divides it
        among them, as NeMo does by default (KenLM does not), and after one the context is empty.
        `unk_log_prob` (natural log) takes its place in a file without `<unk>`; -inf makes such
        tokens impossible, which is what NeMo does.

        Raises:
            ArpaError: see `read_arpa`; a token that `vocabulary` lacks, `<unk>` or a misplaced
                `<s>` or `</s>` in a longer n-gram, an n-gram whose beginning is missing, or tokens
                of which nothing is known.
        """
        orders = read_arpa(path)
        build = _Build(str(path), _ids(vocabulary), len(vocabulary), len(orders))
        build.unigrams(orders[0], normalize_unk, unk_log_prob)
        for order, entries in enumerate(orders[1:], start=2):
            build.longer(order, entries)
        return cls(BackoffGraph.of(build.root, build.backoffs, build.arcs), len(orders))

    @classmethod
    def from_nemo_arpa(
        cls,
        path: str | Path,
        labels: int,
        *,
        token_offset: int = 100,
        normalize_unk: bool = True,
        unk_log_prob: float | None = None,
    ) -> "Ngram":
        """An ARPA file as NeMo's `train_kenlm.py` makes it: token i is the character
        `chr(i + token_offset)`. `labels` is V - 1; the rest as in `from_arpa`."""
        if token_offset < 33:
            raise BeamError(
                f"token_offset must be at least 33, got {token_offset}: characters below are white"
                " space, and would not be told from what separates tokens"
            )
        characters = [chr(token + token_offset) for token in range(labels)]
        return cls.from_arpa(
            path, characters, normalize_unk=normalize_unk, unk_log_prob=unk_log_prob
        )

    @property
    def labels(self) -> int:
        return self.graph.labels

    def to(self, device: torch.device | str) -> "Ngram":
        return replace(self, graph=self.graph.to(device))

    def start(self, rows: int) -> Int64[Tensor, "R"]:
        """State 1: a sentence begins."""
        return torch.ones(rows, dtype=torch.int64, device=self.graph.backoff_to.device)

    def advance(
        self, states: Int64[Tensor, "R"]
    ) -> tuple[Float32[Tensor, "R labels"], Int64[Tensor, "R labels"]]:
        """Natural-log probability of every label in each state, and the state after it."""
        return self.graph.rows(states)


def _ids(vocabulary: Sequence[str]) -> dict[str, int]:
    if not len(vocabulary):
        raise BeamError("vocabulary is empty; give the spelling of every token but blank")
    ids = {}
    for token, spelling in enumerate(vocabulary):
        if spelling in ids:
            raise BeamError(
                f"vocabulary spells tokens {ids[spelling]} and {token} the same: {spelling!r}"
            )
        ids[spelling] = token
    return ids | SPECIAL


def _natural(log_10: float) -> float:
    """As fp32 has it, which is what NeMo keeps."""
    return float(np.float32(log_10 / log10(np.e)))


@dataclass
class _Build:
    """States in NeMo's order: empty, beginning, then n-grams by order, each order sorted."""

    path: str
    ids: dict[str, int]
    labels: int
    order: int

    def __post_init__(self) -> None:
        self.states: dict[Words, int] = {(): 0, (BOS,): 1}
        self.backoffs: list[tuple[int, float]] = [(0, 0.0), (0, 0.0)]
        self.root: list[tuple[int, float]] = []
        self.arcs: list[Arc] = []

    def unigrams(
        self, entries: list[Entry], normalize_unk: bool, unk_log_prob: float | None
    ) -> None:
        found: dict[int, tuple[int, float]] = {}
        unk = unk_log_prob
        for (word,), entry in self._sorted(entries):
            if word == UNK:
                unk = _natural(entry.log_prob)
            elif word == BOS:
                self.backoffs[1] = (0, _natural(entry.backoff))
            elif word >= 0:
                target = self._add((word,), entry) if self.order > 1 else 0
                found[word] = (target, _natural(entry.log_prob))
        unknown = [token for token in range(self.labels) if token not in found]
        if unknown and unk is None:
            raise ArpaError(
                f"{self.path} has no <unk>, and no 1-gram for {len(unknown)} of {self.labels}"
                f" tokens ({_some(unknown)}), which could then never be said: give unk_log_prob,"
                " such as -10"
            )
        if len(unknown) > 1 and normalize_unk:
            unk -= log(len(unknown))
        self.known = found
        self.root = [found.get(token, (0, unk)) for token in range(self.labels)]

    def longer(self, order: int, entries: list[Entry]) -> None:
        for words, entry in self._sorted(entries):
            *context, word = words
            self._refuse_misplaced(words, entry)
            if word == EOS:
                continue
            origin = self.states.get(tuple(context))
            if origin is None:
                spelled = " ".join(entry.symbols[:-1])
                raise self._error(entry, f"its beginning {spelled!r} is no {order - 1}-gram")
            target = self._longest(words[1:]) if order == self.order else self._add(words, entry)
            self.arcs.append(Arc(origin, word, target, _natural(entry.log_prob)))

    def _add(self, words: Words, entry: Entry) -> int:
        state = len(self.backoffs)
        self.backoffs.append((self._longest(words[1:]), _natural(entry.backoff)))
        self.states[words] = state
        return state

    def _longest(self, words: Words) -> int:
        """The state of the longest ending that is a context. Pruned files lack some endings; a
        context that is not there has the back-off weight 1."""
        while words not in self.states:
            words = words[1:]
        return self.states[words]

    def _sorted(self, entries: list[Entry]) -> list[tuple[Words, Entry]]:
        return sorted((self._words(entry), entry) for entry in entries)

    def _words(self, entry: Entry) -> Words:
        try:
            return tuple(self.ids[symbol] for symbol in entry.symbols)
        except KeyError as error:
            raise self._error(
                entry,
                f"token {error.args[0]!r} is none of the {self.labels} of the vocabulary; is it the"
                " model's, and does the file spell tokens so?",
            ) from None

    def _refuse_misplaced(self, words: Words, entry: Entry) -> None:
        if UNK in words:
            raise self._error(entry, "<unk> in a longer n-gram; train without unknown words")
        if BOS in words[1:] or EOS in words[:-1]:
            raise self._error(entry, "<s> may only begin an n-gram, and </s> end it")
        for word in words:
            if word >= 0 and word not in self.known:
                raise self._error(entry, f"token {word} has no 1-gram")

    def _error(self, entry: Entry, what: str) -> ArpaError:
        spelled = " ".join(entry.symbols)
        return ArpaError(
            f"{self.path}, line {entry.line}: {len(entry.symbols)}-gram {spelled!r}: {what}"
        )


def _some(tokens: list[int]) -> str:
    return ", ".join(map(str, tokens[:5])) + (", ..." if len(tokens) > 5 else "")
