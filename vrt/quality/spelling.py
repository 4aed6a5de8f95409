"""A small n-gram over the characters of digit strings, as an ARPA file that NeMo could read too.

Interpolated Witten-Bell (Witten and Bell, 1991): with c(h, w) occurrences of w after h and n(h)
different ones, p(w | h) = (c(h, w) + n(h) p(w | h')) / (c(h) + n(h)), where h' is h without its
first token; below the 1-grams all tokens are alike. What a context has not met gets
n(h) / (c(h) + n(h)) times p(w | h'): that is the file's back-off weight, so a back-off reader gives
the interpolated probabilities exactly.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import log10
from pathlib import Path

import numpy as np

from vrt.train.corpus import WORDS
from vrt.train.strings import LONGEST

ORDER = 5  # characters: a word with the space before it, and a little more
TOKEN_OFFSET = 100  # token i is the character chr(i + 100), as in NeMo's own n-grams
BEGIN, END = "<s>", "</s>"
NEVER = -99.0  # log10 of what is never predicted
Context = tuple[str, ...]


def digit_texts(count: int, seed: int) -> list[str]:
    """Strings as the training draws them: 1 to 6 words, each equally likely."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, LONGEST + 1, count)
    return [" ".join(WORDS[value] for value in rng.integers(0, 10, length)) for length in lengths]


def symbols(tokens: Sequence[int]) -> list[str]:
    return [chr(token + TOKEN_OFFSET) for token in tokens]


class WittenBell:
    """Counts of sentences of tokens; `labels` tokens can be said, and the end."""

    def __init__(self, sentences: Sequence[Sequence[int]], labels: int, order: int = ORDER):
        self.order = order
        self.vocabulary = [*symbols(range(labels)), END]
        self.counts: dict[Context, Counter[str]] = defaultdict(Counter)
        for sentence in sentences:
            line = [BEGIN, *symbols(sentence), END]
            for place in range(1, len(line)):
                for first in range(max(0, place - order + 1), place + 1):
                    self.counts[tuple(line[first:place])][line[place]] += 1

    def probability(self, context: Context, symbol: str) -> float:
        """Of a symbol or the end after a context; contexts that were not met are cut short."""
        below = self.probability(context[1:], symbol) if context else 1 / len(self.vocabulary)
        after = self.counts.get(context)
        if after is None:
            return below
        return (after[symbol] + len(after) * below) / (after.total() + len(after))

    def backoff(self, context: Context) -> float:
        after = self.counts.get(context)
        return 1.0 if after is None else len(after) / (after.total() + len(after))

    def ngrams(self, size: int) -> list[Context]:
        """Those of `size` symbols; of one, the whole vocabulary and the beginning."""
        if size == 1:
            return [(BEGIN,), *((symbol,) for symbol in self.vocabulary)]
        contexts = sorted(context for context in self.counts if len(context) == size - 1)
        return [(*context, symbol) for context in contexts for symbol in self.counts[context]]

    def arpa(self) -> str:
        """The whole file."""
        orders = [self.ngrams(size) for size in range(1, self.order + 1)]
        lines = ["\\data\\", *(f"ngram {n}={len(o)}" for n, o in enumerate(orders, start=1))]
        for size, ngrams in enumerate(orders, start=1):
            lines += ["", f"\\{size}-grams:", *(self._line(n) for n in ngrams)]
        return "\n".join([*lines, "", "\\end\\", ""])

    def _line(self, ngram: Context) -> str:
        *context, symbol = ngram
        value = NEVER if symbol == BEGIN else log10(self.probability(tuple(context), symbol))
        ends = len(ngram) == self.order or symbol == END
        weight = "" if ends else f"\t{log10(self.backoff(ngram)):.7f}"
        return f"{value:.7f}\t{' '.join(ngram)}{weight}"

    def write(self, path: Path) -> Path:
        path.write_text(self.arpa(), encoding="utf-8")
        return path
