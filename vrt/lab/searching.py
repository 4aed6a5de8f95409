"""Searches that notebooks make again and again: a golden file's problem, and a recording.

B utterances, T encoder frames, J frame width.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from vrt.audio import read
from vrt.golden.malsd_format import MalsdGolden, MalsdProblem, problem_of
from vrt.paths import data_dir
from vrt.rnnt.acoustic import AcousticTransducer
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.greedy import greedy
from vrt.rnnt.malsd import malsd
from vrt.rnnt.model import ModelScorer
from vrt.rnnt.nbest import NBest
from vrt.rnnt.toy import toy_frames
from vrt.rnnt.trace import Trace


def problem(file: MalsdGolden) -> MalsdProblem:
    """What a search needs to answer `file`: scorer, config, lengths."""
    return problem_of(file.problem, file.name)


def searched(asked: MalsdProblem) -> tuple[list[NBest], Trace]:
    """The n-best list of each utterance, and every iteration."""
    trace = Trace()
    frames = toy_frames(len(asked.lengths), asked.max_time)
    return malsd(asked.scorer, frames, torch.tensor(asked.lengths), asked.config, trace), trace


def clip(name: str) -> Float[Tensor, "n"]:
    """Samples at 16 kHz of a recording that vrt comes with, else of the file `name`."""
    shipped = data_dir() / "audio" / name
    return torch.from_numpy(read(shipped if shipped.is_file() else name).samples)


def heard(model: AcousticTransducer, samples: Float[Tensor, "n"]) -> Float[Tensor, "1 T J"]:
    """The frames that a search reads: encoded, and projected by the joint once."""
    return ModelScorer(model.transducer).project(model.encode(samples).unsqueeze(0))


def decoded(
    model: AcousticTransducer, frames: Float[Tensor, "1 T J"], beam: int, trace: Trace | None = None
) -> NBest:
    """The n-best list of one clip; `beam` 0 is greedy search, a list of one."""
    scorer, lengths = ModelScorer(model.transducer), torch.tensor([frames.shape[1]])
    lengths = lengths.to(frames.device)
    if beam == 0:
        return NBest(greedy(scorer, frames, lengths))
    return malsd(scorer, frames, lengths, BeamConfig(beam_size=beam), trace)[0]
