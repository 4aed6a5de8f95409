"""A recogniser with doubts: words of a few tokens, each token with a rival about as likely.

T encoder frames, R rows, V classes with blank last. A frame holds (utterance, place).
"""

from dataclasses import dataclass

import numpy as np
import torch

VOCAB = 40
FRAMES = 3  # of each token: one quiet, two that could be it


@dataclass(frozen=True)
class Noisy:
    """A token or its rival, once taken, is not taken again at its frames. The state is the last
    label of each row."""

    logits: torch.Tensor  # [T, V]
    likely: torch.Tensor  # [T, V + 1], the token of a frame and its rival
    said: tuple[int, ...]
    phrases: list[tuple[int, ...]]
    vocab: int = VOCAB
    blank: int = VOCAB - 1

    def start(self, rows):
        return torch.full((rows,), self.vocab)

    def log_probs(self, frames, state):
        t = frames[:, 1].long()
        rows = self.logits[t].clone()
        done = self.likely[t].gather(1, state[:, None])[:, 0]
        rows[done, :-1] -= 6.0
        rows[done, -1] += 3.0
        return rows.log_softmax(-1).to(frames.dtype)

    def advance(self, state, parents, labels):
        return labels.where((labels >= 0) & (labels != self.blank), state[parents])


def noisy(seed, share=0.35):
    """Five words out of thirty; four of these are the phrases, and `share` of what is said."""
    random = np.random.default_rng(seed)
    words = [
        tuple(random.integers(0, VOCAB - 1, random.integers(2, 5)).tolist()) for _ in range(30)
    ]
    picks = [
        random.integers(4) if random.random() < share else random.integers(4, 30) for _ in "five."
    ]
    said = [token for pick in picks for token in words[pick]]
    time = FRAMES * len(said) + 2
    logits = torch.tensor(random.normal(-5, 1, (time, VOCAB)), dtype=torch.float32)
    logits[:, -1] += 8
    likely = torch.zeros(time, VOCAB + 1, dtype=torch.bool)
    for place, token in enumerate(said):
        rival, first = int(random.integers(VOCAB - 1)), 1 + FRAMES * place
        here = slice(first, first + 2)
        logits[here, -1] -= float(random.choice([1, 3, 5]))
        logits[here, token] += float(random.choice([5, 6, 7, 9]))
        logits[here, rival] += 6
        likely[first : first + FRAMES, [token, rival]] = True
    return Noisy(logits, likely, tuple(said), list(dict.fromkeys(words[:4])))


def edits(left, right):
    """Tokens to insert, delete or replace."""
    line = list(range(len(right) + 1))
    for i, a in enumerate(left, start=1):
        before, line[0] = line[:], i
        for j, b in enumerate(right, start=1):
            line[j] = min(before[j] + 1, line[j - 1] + 1, before[j - 1] + (a != b))
    return line[-1]
