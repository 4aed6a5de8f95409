"""Random phrase lists and ARPA files, and what they mean worked out from their definitions.

Nothing here is shared with vrt: dictionaries of tuples, float64, no tree and no states but the
words themselves.
"""

import math
from dataclasses import dataclass, field

import numpy as np

LN10 = math.log(10)


def random_phrases(random, labels):
    """1 to 8 different phrases of 1 to 5 tokens; few labels, so that they share much."""
    count, known = int(random.integers(1, 9)), set()
    for _ in range(count):
        known.add(tuple(random.integers(0, labels, random.integers(1, 6)).tolist()))
    return sorted(known, key=lambda _: random.random())


def random_weights(random):
    return {
        "context_score": float(random.uniform(0, 3)),
        "depth_scaling": float(random.uniform(1, 3)),
        "unk_score": float(random.choice([0.0, 0.0, -0.5, 0.3])),
        "uniform_weights": bool(random.random() < 0.3),
    }


@dataclass
class PhraseRule:
    """Boosting by its definition. A state is the longest ending of what was said that begins a
    phrase."""

    phrases: list[tuple[int, ...]]
    context_score: float = 1.0
    depth_scaling: float = 2.0
    unk_score: float = 0.0
    uniform_weights: bool = False

    def begins(self, said):
        return any(phrase[: len(said)] == said for phrase in self.phrases)

    def ending(self, said):
        """The longest ending of `said` that begins a phrase."""
        return next(said[n:] for n in range(len(said) + 1) if self.begins(said[n:]))

    def earned(self, depth):
        if depth == 1 or self.uniform_weights:
            return self.context_score
        return self.context_score * self.depth_scaling + math.log(depth)

    def total(self, said):
        return sum(self.earned(depth) for depth in range(1, len(said) + 1))

    def step(self, said, label):
        """Score of a label after the state `said`, and the state after it."""
        score = 0.0
        while not self.begins((*said, label)):
            if not said:
                return score + self.unk_score, ()
            shorter = self.ending(said[1:])
            if said not in self.phrases or (self.uniform_weights and len(said) > 1):
                score += self.total(shorter) - self.total(said)
            said = shorter
        said = (*said, label)
        score += self.earned(len(said))
        if self.uniform_weights and said in self.phrases and len(said) > 1:
            score += self.total(said)
        return score, said


@dataclass
class ArpaRule:
    """Back-off probabilities by their definition: `probs` and `backoffs` in log10, by words."""

    order: int
    labels: int
    probs: dict[tuple, float] = field(default_factory=dict)
    backoffs: dict[tuple, float] = field(default_factory=dict)
    normalize_unk: bool = True

    def unk(self):
        known = sum((word,) in self.probs for word in range(self.labels))
        shared = max(1, self.labels - known) if self.normalize_unk else 1
        return self.probs[("<unk>",)] * LN10 - math.log(shared)

    def log_prob(self, context, word):
        """Natural log of p(word | all words before, `<s>` the first of them)."""
        context = tuple(context)[-(self.order - 1) :] if self.order > 1 else ()
        if (*context, word) in self.probs:
            return self.probs[(*context, word)] * LN10
        if not context:
            return self.unk()
        return self.backoffs.get(context, 0.0) * LN10 + self.log_prob(context[1:], word)

    def text(self, spell):
        """The file, each label as `spell` has it."""
        names = {word: spell(word) for gram in self.probs for word in gram if isinstance(word, int)}
        lines = ["\\data\\"]
        grams = [[g for g in self.probs if len(g) == n] for n in range(1, self.order + 1)]
        lines += [f"ngram {n}={len(some)}" for n, some in enumerate(grams, start=1)]
        for n, some in enumerate(grams, start=1):
            lines += ["", f"\\{n}-grams:"]
            for gram in some:
                line = f"{self.probs[gram]}\t{' '.join(names.get(w, w) for w in gram)}"
                if gram in self.backoffs:
                    line += f"\t{self.backoffs[gram]}"
                lines.append(line)
        return "\n".join([*lines, "", "\\end\\", ""])


def random_arpa(random, labels, order, unknown=0):
    """All n-grams of random sentences, with probabilities and weights out of the air. The last
    `unknown` labels are in none of them."""
    rule = ArpaRule(order, labels)
    for word in ["<unk>", "<s>", "</s>", *range(labels - unknown)]:
        rule.probs[(word,)] = _value(random)
    for _ in range(random.integers(2, 20)):
        inner = random.integers(0, labels - unknown, random.integers(1, 9)).tolist()
        sentence = ["<s>", *inner, "</s>"]
        for n in range(2, order + 1):
            for start in range(len(sentence) - n + 1):
                rule.probs.setdefault(tuple(sentence[start : start + n]), _value(random))
    for gram in rule.probs:
        if len(gram) < order and gram[-1] not in ("</s>", "<unk>") and random.random() < 0.8:
            rule.backoffs[gram] = round(float(random.normal(-0.3, 0.4)), 5)
    return rule


def _value(random):
    return round(float(-np.abs(random.normal(0, 1.5))), 5)
