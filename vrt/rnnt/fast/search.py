"""The beam search of `malsd`, exactly, with less work.

B utterances, T encoder frames, J frame width.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vrt.rnnt.beam import refuse_config
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.fast.beam import FastBeam
from vrt.rnnt.fast.results import nbest_of
from vrt.rnnt.fast.network import NetworkRows
from vrt.rnnt.fast.packed import PackedTransducer
from vrt.rnnt.fast.scored import Rows, ScorerRows
from vrt.rnnt.limits import refuse_endless, refuse_lengths
from vrt.rnnt.malsd import malsd
from vrt.rnnt.model import ModelScorer
from vrt.rnnt.nbest import NBest
from vrt.rnnt.scorer import Scorer

DTYPES = {torch.float32: np.dtype("float32"), torch.float64: np.dtype("float64")}


@torch.no_grad()
def fast_malsd(
    scorer: Scorer | PackedTransducer,
    frames: Float[Tensor, "B T J"],
    lengths: Int[Tensor, "B"],
    config: BeamConfig | None = None,
    remember: bool = True,
) -> list[NBest]:
    """The n-best list of each utterance, equal to that of `malsd`."""
    config = config or BeamConfig()
    if not is_fast(frames, config):
        return malsd(scorer, frames, lengths, config)
    return nbest_of(fast_search(scorer, frames, lengths, config, remember))


def is_fast(frames: Float[Tensor, "B T J"], config: BeamConfig) -> bool:
    return config.ties == "lowest" and frames.dtype in DTYPES and frames.device.type == "cpu"


@torch.no_grad()
def fast_search(
    scorer: Scorer | PackedTransducer,
    frames: Float[Tensor, "B T J"],
    lengths: Int[Tensor, "B"],
    config: BeamConfig,
    remember: bool = True,
) -> FastBeam:
    """As `fast_malsd`; returns the finished beam itself."""
    refuse_lengths(frames, lengths)
    refuse_config(scorer, config)
    rows = rows_of(scorer, config, frames.dtype)
    beam = FastBeam(rows, scorer.blank, len(frames), config, DTYPES[frames.dtype], remember)
    ends = lengths.long().cpu().numpy()
    beam.slots.active[:] = (ends > 0)[:, None]
    last = ends - 1
    if config.zero_length == "nemo":
        last = np.maximum(last, 0)
    while beam.newest() >= 0:
        refuse_endless(beam.iterations, config, frames.shape[1])
        beam.step(frames, last)
    return beam


def rows_of(scorer: Scorer | PackedTransducer, config: BeamConfig, dtype: torch.dtype) -> Rows:
    if isinstance(scorer, ModelScorer) and dtype == torch.float32:
        scorer = PackedTransducer(scorer.transducer)
    if isinstance(scorer, PackedTransducer):
        return NetworkRows(scorer, config)
    return ScorerRows(scorer, config, dtype)
