"""Random beam-search problems, the same from the same seed, and the rule for comparing results.

B utterances, K beam slots, V classes with blank, T encoder frames.
"""

from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product

import jaxtyping
import numpy as np
import torch

from vrt.rnnt import BeamConfig, Fusion, Trace
from vrt.rnnt.malsd import search
from vrt.rnnt.margins import margins
from vrt.rnnt.nbest import nbest
from vrt.rnnt.toy import ToyNgram, ToyScorer, toy_frames
from vrt.rnnt.toy_formula import Formula

DECISION = 1e-3  # a case whose closest decision is below is not compared
SCORE = 2e-4  # how far scores may be apart


@contextmanager
def unchecked():
    """Without the check of shapes at each call, which takes three quarters of a long run's time;
    the short tests have it."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@dataclass(frozen=True)
class Case:
    scorer: ToyScorer
    time: int
    lengths: tuple[int, ...]
    config: BeamConfig

    @property
    def arguments(self):
        """As search and oracle take them."""
        lengths = torch.tensor(self.lengths)
        return self.scorer, toy_frames(len(lengths), self.time), lengths, self.config

    @property
    def limit(self):
        """Iterations after which a search that has not ended never will."""
        return 40 * self.time

    def search(self, dtype=torch.float32, **changes):
        """vrt's n-best lists by the case's ranking, and its closest decision."""
        trace, config = Trace(), replace(self.config, **changes)
        scorer, frames, lengths, _ = self.arguments
        hyps = search(scorer, frames.to(dtype), lengths, config, trace).hyps
        found = nbest(hyps, config.score_norm, config.ties)
        margin = margins(trace.iterations, found, config, by_norm=config.score_norm)
        return found, margin.decision


def random_case(seed):
    """B 1-4, K 1-16 with K <= V, V 3-64, T 1-60, cap 1-10 or none, a fifth of them fused, rows of
    length 0 where T >= 2. Values are spread wide, so that close decisions are rare; large beams
    and long utterances take turns, so that a thousand cases take minutes."""
    random = np.random.default_rng(seed)
    vocab = int(random.integers(3, 65) if random.random() < 0.5 else random.integers(3, 10))
    beam = int(random.integers(1, min(16, vocab) + 1))
    batch = int(random.integers(1, 5))
    if random.random() < 0.04:
        time = int(random.integers(1, 61))
    elif beam * batch < 24:
        time = int(min(random.geometric(0.1), 60))
    else:
        time = int(random.integers(1, 7))
    lengths = [time, *random.integers(0 if time >= 2 else 1, time + 1, batch - 1).tolist()]
    random.shuffle(lengths)
    config = BeamConfig(
        beam_size=beam,
        max_symbols=int(random.integers(1, 11)),
        score_norm=bool(random.random() < 0.7),
        **_fusion(random, vocab),
    ).as_nemo()
    if random.random() < 0.15 and vocab <= 5:
        scorer = _ending(random, vocab, time)
        config = replace(config, max_symbols=None, iteration_guard=40)
    else:
        scorer = ToyScorer(vocab, "logits", formula=_formula(random, seed))
    return Case(scorer, time, tuple(lengths), config)


def _formula(random, seed):
    return Formula(
        seed=seed,
        ctx=int(random.choice([-1, -1, 1, 2])),
        bits=22,
        shift=int(random.choice([17, 18, 19])),
        tdiv=int(random.choice([1, 2, 3, 5])),
        peak_add=float(random.choice([0.0, 2.0, 4.0])),
        blank_add=float(random.choice([-2.0, 0.0, 3.0, 6.0])),
    )


def _fusion(random, vocab):
    if random.random() > 0.2:
        return {}
    models = [
        Fusion(ToyNgram(int(random.integers(1, 10**6)), vocab - 1), float(random.uniform(0.05, 1)))
        for _ in range(random.integers(1, 3))
    ]
    return {
        "fusion": tuple(models),
        "pruning_mode": str(random.choice(["late", "early"])),
        "blank_lm_score_mode": str(random.choice(["no_score", "lm_weighted_full"])),
    }


def _ending(random, vocab, time):
    """Rows for every frame and prefix of up to two labels; then blank alone is possible."""
    prefixes = [p for n in range(3) for p in product(range(vocab - 1), repeat=n)]
    rows = {
        (None, t, p): np.round(-5 * random.random(vocab), 5).tolist()
        for t in range(time)
        for p in prefixes
    }
    return ToyScorer(vocab, "logprob", rows, default_row=[-torch.inf] * (vocab - 1) + [-0.2])


def differences(got, want, limit=SCORE):
    """What two results differ in, or None. Tokens and timestamps are equal, scores near."""
    if len(got) != len(want):
        return f"{len(got)} utterances, {len(want)} wanted"
    for row, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        for name in ("tokens", "timestamps"):
            left, right = ([getattr(h, name) for h in side] for side in (ours, theirs))
            if left != right:
                return f"utterance {row}: {name} {left}, {right} wanted"
        for n, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            if not abs(a.score - b.score) <= limit:
                return f"utterance {row}, hypothesis {n}: score {a.score}, {b.score} wanted"
    return None
