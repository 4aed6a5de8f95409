"""The beam search of `malsd`, exactly, with less work.

B utterances, T encoder frames, J frame width.

Less work is: the predictor computes each prefix once, and none for blank; a joint reads living
slots alone, and what follows a row is the K best labels and blank, not V log-probabilities; the
weights are laid out once; K slots are a handful of numbers each.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vrt.rnnt.beam import refuse_config
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.counters import Tally
from vrt.rnnt.fast.beam import FastBeam
from vrt.rnnt.fast.network import NetworkRows
from vrt.rnnt.fast.packed import PackedScorer
from vrt.rnnt.fast.results import nbest_of
from vrt.rnnt.fast.scored import Rows, ScorerRows
from vrt.rnnt.limits import refuse_endless, refuse_lengths, refuse_tdt
from vrt.rnnt.malsd import malsd
from vrt.rnnt.model import ModelScorer
from vrt.rnnt.nbest import NBest
from vrt.rnnt.scorer import Scorer

DTYPES = {torch.float32: np.dtype("float32"), torch.float64: np.dtype("float64")}


@torch.no_grad()
def fast_malsd(
    scorer: Scorer,
    frames: Float[Tensor, "B T J"],
    lengths: Int[Tensor, "B"],
    config: BeamConfig | None = None,
    tally: Tally | None = None,
    remember: bool = True,
) -> list[NBest]:
    """The n-best lists that `malsd` gives: tokens and timestamps equal, scores up to the rounding
    of matrix products whose number of rows differs; where the scorer has none, to the bit.

    For a network pass a `PackedScorer`, made once; a `ModelScorer` is packed at each call. `tally`
    is told what was done. `remember=False` forgets predictors of prefixes that no slot holds.
    `malsd` itself searches where `ties` is "torch" (an order that only torch's own calls have), on
    a GPU and in half precision.

    Raises:
        BeamError: as `malsd`.
    """
    config = config or BeamConfig()
    if not has_fast_path(frames, config):
        return malsd(scorer, frames, lengths, config, tally)
    beam = fast_search(scorer, frames, lengths, config, remember)
    if tally is not None:
        tally.take(beam.work())
    return nbest_of(beam)


def has_fast_path(frames: Float[Tensor, "B T J"], config: BeamConfig) -> bool:
    return config.ties == "lowest" and frames.dtype in DTYPES and frames.device.type == "cpu"


@torch.no_grad()
def fast_search(
    scorer: Scorer,
    frames: Float[Tensor, "B T J"],
    lengths: Int[Tensor, "B"],
    config: BeamConfig,
    remember: bool = True,
) -> FastBeam:
    """As `fast_malsd` with a fast path; returns the finished beam itself."""
    refuse_tdt(scorer)
    refuse_lengths(frames, lengths)
    refuse_config(scorer, config)
    frames, rows = frames.detach().contiguous(), rows_of(scorer, config, frames.dtype)
    beam = FastBeam(rows, scorer.blank, len(frames), config, DTYPES[frames.dtype], remember)
    ends = lengths.long().cpu().numpy()
    beam.slots.active[:] = (ends > 0)[:, None]
    # NeMo forgets after the first iteration that an utterance may have no frames.
    last = np.maximum(ends - 1, 0 if config.zero_length == "nemo" else -1)
    while beam.newest() >= 0:
        refuse_endless(beam.iterations, config, frames.shape[1])
        beam.step(frames, last)
    return beam


def rows_of(scorer: Scorer, config: BeamConfig, dtype: torch.dtype) -> Rows:
    """A network's own rows in fp32, those of any scorer else."""
    if isinstance(scorer, ModelScorer) and dtype == torch.float32:
        packed = isinstance(scorer, PackedScorer)
        return NetworkRows(scorer if packed else PackedScorer(scorer.transducer), config)
    return ScorerRows(scorer, config, dtype)
