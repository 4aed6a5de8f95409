"""The beam search with two places to save work: candidates that are not made, and slots given up.

B utterances, K beam slots, V classes with blank, T encoder frames, J frame width.
The order is that of `vrt.rnnt.malsd.step`, and with nothing saved the result is equal to it.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vrt.quality.counts import Moves, WorkCounter
from vrt.quality.searches import Answer, Search, answers
from vrt.rnnt.beam import Beam, begin
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.frames import Frames
from vrt.rnnt.hypotheses import DEAD
from vrt.rnnt.limits import goes_on, refuse_lengths, refuse_undefined
from vrt.rnnt.malsd import advance, at_cap, best_labels, expand, prune, reads_on
from vrt.rnnt.nbest import nbest
from vrt.rnnt.scorer import Scorer

# Log-probabilities of all classes and values of the K best, best first, to values with -inf where
# no candidate is to be made. A slot at its cap takes blank whatever this says.
Thin = Callable[[Float[Tensor, "B K V"], Float[Tensor, "B K K"]], Float[Tensor, "B K K"]]
# Scores of the slots after the merge, to scores with -inf where a slot is given up.
Narrow = Callable[[Float[Tensor, "B K"]], Float[Tensor, "B K"]]


def make_all(acoustic: Float[Tensor, "B K V"], values: Float[Tensor, "B K K"]) -> Tensor:
    """Every candidate."""
    return values


def keep_all(scores: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
    """Every slot."""
    return scores


def approximate_search(
    scorer: Scorer, config: BeamConfig, thin: Thin = make_all, narrow: Narrow = keep_all
) -> Search:
    """A beam search that makes and keeps less."""

    @torch.no_grad()
    def search(frames: Float[Tensor, "B T J"], lengths: Int64[Tensor, "B"]) -> list[Answer]:
        refuse_lengths(frames, lengths)
        counter = WorkCounter(lengths, config.beam_size, scorer.blank)
        beam = begin(scorer, len(frames), config, frames.dtype, frames.device)
        there = Frames.of(frames, lengths)
        beam.active = beam.active & there.nonempty
        while goes_on(beam, config, frames.shape[1]):
            counter.add(_step(scorer, there, beam, config, thin, narrow))
        return answers(nbest(beam.hyps, config.score_norm, config.ties), counter)

    return search


def _step(
    scorer: Scorer, frames: Frames, beam: Beam, config: BeamConfig, thin: Thin, narrow: Narrow
) -> Moves:
    hyps = beam.hyps
    acoustic = scorer.log_probs(frames.at(hyps.times), beam.predictor)
    acoustic = acoustic.unflatten(0, hyps.scores.shape).to(hyps.scores.dtype)
    refuse_undefined(acoustic, beam)
    _, values, labels, blank = best_labels(acoustic, beam, config)
    capped = at_cap(beam, config)
    candidates, labels = expand(beam, thin(acoustic, values), labels, blank, capped)
    parent, label, pruned = prune(candidates, labels, config)
    hyps.extend(parent, label, pruned)
    hyps.merge(hyps.equal(config.collisions))
    merged = hyps.scores
    hyps.scores = narrow(merged)
    advance(scorer, beam, parent, label, config)
    beam.active = reads_on(hyps.times, frames, config)
    beam.iterations += 1
    return Moves(capped, candidates, label, pruned, merged, hyps.scores, beam.active)


def within(nats: float) -> Narrow:
    """Adaptive width: slots that far below the best one are given up."""
    return lambda scores: scores.masked_fill(scores < scores.amax(-1, keepdim=True) - nats, DEAD)


def only_best(count: int) -> Thin:
    """Fewer candidates a hypothesis; K of them still live."""

    def thin(acoustic: Float[Tensor, "B K V"], values: Float[Tensor, "B K K"]) -> Tensor:
        places = torch.arange(values.shape[-1], device=values.device)
        return values.masked_fill(places >= count, DEAD)

    return thin


def greedy_where(sure: Callable[[Float[Tensor, "B K V"]], Tensor]) -> Thin:
    """Confidence-triggered greedy frames: a hypothesis that is sure of its next symbol takes that
    one alone."""
    first = only_best(1)

    def thin(acoustic: Float[Tensor, "B K V"], values: Float[Tensor, "B K K"]) -> Tensor:
        return torch.where(sure(acoustic).unsqueeze(-1), first(acoustic, values), values)

    return thin


def margin_above(nats: float) -> Callable[[Float[Tensor, "B K V"]], Tensor]:
    """The best class leads the second by so much."""

    def sure(acoustic: Float[Tensor, "B K V"]) -> Tensor:
        best, second = acoustic.topk(2, dim=-1).values.unbind(-1)
        return best - second > nats

    return sure


def blank_above(probability: float, blank: int) -> Callable[[Float[Tensor, "B K V"]], Tensor]:
    """Blank is that probable; of at least a half it is the best class."""
    return lambda acoustic: acoustic[..., blank].exp() > probability


def entropy_below(nats: float) -> Callable[[Float[Tensor, "B K V"]], Tensor]:
    """The distribution over classes is that narrow."""
    return lambda acoustic: torch.special.entr(acoustic.exp()).sum(-1) < nats
