"""Random TDT problems, the same from the same seed, and what the closest decision of each was.

B utterances, K beam slots, V classes with blank last, D durations, T encoder frames.
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
from rnnt_cases import differences

from vrt.rnnt import BeamConfig, Fusion, Trace
from vrt.rnnt.hypotheses import DEAD
from vrt.rnnt.margins import margins
from vrt.rnnt.tdt import search
from vrt.rnnt.tdt_config import TdtConfig
from vrt.rnnt.tdt_nbest import nbest_with_durations
from vrt.rnnt.tdt_toy import ToyDurationScorer
from vrt.rnnt.toy import ToyNgram, ToyScorer, toy_frames
from vrt.rnnt.toy_formula import Formula


@dataclass(frozen=True)
class TdtCase:
    scorer: ToyDurationScorer
    time: int
    lengths: tuple[int, ...]
    config: TdtConfig

    @property
    def arguments(self):
        """As search and oracle take them."""
        lengths = torch.tensor(self.lengths)
        return self.scorer, toy_frames(len(lengths), self.time), lengths, self.config

    @property
    def limit(self):
        """Iterations after which a search that has not ended never will."""
        return 40 * self.time

    def traced(self, dtype=torch.float32):
        scorer, frames, lengths, config = self.arguments
        return traced(scorer, frames.to(dtype), lengths, config)

    def search(self, dtype=torch.float32, **changes):
        found, margin, _ = replace(self, config=replace(self.config, **changes)).traced(dtype)
        return found, margin

    def in_doubles(self):
        """For a comparison with plain Python: ties and merges by definition, values as they are."""
        beam = replace(self.config.beam, ties="lowest", collisions="verify")
        return replace(self, config=replace(self.config, beam=beam))


def traced(scorer, frames, lengths, config):
    """vrt's n-best lists by the ranking asked for, its closest decision, and the iterations."""
    trace, beam, count = Trace(), config.beam, len(scorer.durations)
    hyps = search(scorer, frames, lengths, config, trace).hyps
    found = nbest_with_durations(hyps, beam)
    margin = margins(trace.iterations, found, beam, by_norm=beam.score_norm).decision
    if beam.fusion and beam.pruning_mode == "early":
        margin = min(margin, first_cut(trace.iterations, count))
    return found, min(margin, forced(trace.iterations, count)), trace


def _rows(iterations, durations):
    for step in iterations:
        pairs = step.log_probs.unflatten(-1, (-1, durations))
        labels, lengths = pairs.logsumexp(-1), pairs.logsumexp(-2)
        yield step, labels, lengths


def first_cut(iterations, durations):
    """Early pruning takes K classes before durations count: the last taken to the first missed."""
    least = torch.inf
    for step, labels, _ in _rows(iterations, durations):
        size = step.candidates.shape[-1]
        if labels.shape[-1] > size:
            ends = labels.topk(size + 1, dim=-1).values[..., -2:]
            gap = (ends[..., 0] - ends[..., 1])[step.candidates[..., 0] > DEAD]
            least = min([least, *gap.tolist()])
    return least


def forced(iterations, durations):
    """A forced blank moves by the best duration: its lead over the next."""
    least = torch.inf
    for step, _, lengths in _rows(iterations, durations):
        if durations > 1 and step.forced_blank_parent.any():
            best = lengths[step.forced_blank_parent].topk(2, dim=-1).values
            least = min(least, float((best[..., 0] - best[..., 1]).min()))
    return least


DURATIONS = [
    (0, 1, 2, 3, 4),
    (0, 1, 2, 3, 4),
    (0, 1, 2),
    (0, 1),
    (0, 1, 2, 4, 8),
    (1, 2),
    (1,),
    (0,),
]


def random_tdt_case(seed):
    """B 1-4, K 1-16 with K <= V*D, V 3-64, T 1-60, cap 1-10 or none, a fifth of them fused, rows of
    length 0. Values are spread wide, so that close decisions are rare."""
    random = np.random.default_rng(seed)
    durations = DURATIONS[int(random.integers(len(DURATIONS)))]
    vocab = int(random.integers(3, 65) if random.random() < 0.4 else random.integers(3, 10))
    fusion = _fusion(random, vocab)
    most = vocab if fusion.get("pruning_mode") == "early" else vocab * len(durations)
    beam = int(random.integers(1, min(16, most) + 1))
    batch = int(random.integers(1, 5))
    if random.random() < 0.04:
        time = int(random.integers(1, 61))
    elif beam * batch < 24:
        time = int(min(random.geometric(0.08), 60))
    else:
        time = int(random.integers(1, 9))
    lengths = [time, *random.integers(0, time + 1, batch - 1).tolist()]
    random.shuffle(lengths)
    config = BeamConfig(
        beam_size=beam,
        max_symbols=int(random.choice([1, 1, 2, 3, 5, 10])),
        score_norm=bool(random.random() < 0.7),
        **fusion,
    )
    if random.random() < 0.15 and vocab <= 5:
        labels, config = _ending(random, vocab, time), replace(config, max_symbols=None)
        config = replace(config, iteration_guard=40)
        lengths_toy = _table(random, vocab, time, len(durations))
    else:
        labels = ToyScorer(vocab, "logits", formula=_formula(random, seed, blank=True))
        lengths_toy = _lengths(random, seed, len(durations))
    scorer = ToyDurationScorer(labels, lengths_toy, durations)
    return TdtCase(scorer, time, tuple(lengths), TdtConfig(config).as_nemo())


def _formula(random, seed, blank):
    return Formula(
        seed=seed,
        ctx=int(random.choice([-1, -1, 1, 2])),
        bits=22,
        shift=int(random.choice([17, 18, 19])),
        tdiv=int(random.choice([1, 2, 3, 5])),
        peak_add=float(random.choice([0.0, 2.0, 4.0])),
        blank_add=float(random.choice([-2.0, 0.0, 3.0, 6.0])) if blank else 0.0,
    )


def _lengths(random, seed, count):
    if count == 1:
        return ToyScorer(1, "logits", default_row=[0.0])
    formula = replace(_formula(random, seed + 7_000_000, blank=False), shift=19)
    return ToyScorer(count, "logits", formula=formula)


def _prefixes(vocab):
    return [p for n in range(3) for p in product(range(vocab - 1), repeat=n)]


def _ending(random, vocab, time):
    """Rows for every frame and prefix of up to two labels; then blank alone is possible."""
    rows = {
        (None, t, p): np.round(-5 * random.random(vocab), 5).tolist()
        for t in range(time)
        for p in _prefixes(vocab)
    }
    return ToyScorer(vocab, "logprob", rows, default_row=[-torch.inf] * (vocab - 1) + [-0.2])


def _table(random, vocab, time, count):
    rows = {
        (None, t, p): np.round(-3 * random.random(count), 5).tolist()
        for t in range(time)
        for p in _prefixes(vocab)
    }
    return ToyScorer(
        count, "logprob", rows, default_row=np.round(-np.arange(count) / 3, 5).tolist()
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


def tdt_differences(got, want, limit=2e-4):
    """As `differences`, token durations included."""
    found = differences(got, want, limit)
    if found is not None:
        return found
    for row, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        left, right = [h.durations for h in ours], [h.durations for h in theirs]
        if left != right:
            return f"utterance {row}: durations {left}, {right} wanted"
    return None
