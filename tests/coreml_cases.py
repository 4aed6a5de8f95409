"""A small transducer, packages of it made once a session, and how they are searched."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from vrt.rnnt import BeamConfig, ModelScorer, Transducer, TransducerConfig, malsd
from vrt.rnnt.scorer import Scorer
from vrt.rnnt.trace import Iteration

# Widths that differ from one another, so that swapped axes cannot fit; 1,920 weights to palettize.
CONFIG = TransducerConfig(
    vocab=33, encoder_width=48, predictor_width=32, predictor_layers=2, joint_width=40
)


def needs_coremltools() -> None:
    pytest.importorskip("coremltools", reason="coremltools is not installed: vrt[coreml]")


def transducer(seed: int = 0, **changes: object) -> Transducer:
    return Transducer.random(replace(CONFIG, **changes), seed)


def searched(
    scorer: Scorer, model: Transducer, beam: int, frames: int = 12, **settings: object
) -> tuple[list[tuple], list[float], list[Iteration]]:
    """Tokens and frames of every hypothesis, their scores, and all iterations: of 12 frames 113."""
    generator = torch.Generator().manual_seed(7)
    encoded = torch.randn(1, frames, model.config.encoder_width, generator=generator)
    given = ModelScorer(model).project(encoded)
    trace: list[Iteration] = []
    config = BeamConfig(beam_size=beam, **settings)
    found = malsd(scorer, given, torch.tensor([frames]), config, trace.append)[0]
    return [(h.tokens, h.timestamps) for h in found], [h.score for h in found], trace


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
