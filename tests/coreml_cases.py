"""A small transducer, packages of it made once a session, and how they are searched."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from vrt.coreml.arms import Arm
from vrt.rnnt import BeamConfig, ModelScorer, Transducer, TransducerConfig, malsd
from vrt.rnnt.scorer import Scorer
from vrt.rnnt.trace import Iteration

# Widths that differ from one another, so that swapped axes cannot fit; 1,920 weights to palettize.
CONFIG = TransducerConfig(
    vocab=33, encoder_width=48, predictor_width=32, predictor_layers=2, joint_width=40
)


BEAM = ("predictor", "joint", "fused")
ARMS = {
    "k1": Arm(beam=1),
    "k4": Arm(beam=4),
    "k8": Arm(frames=20),
    "unrolled": Arm(lstm="unrolled"),
    "logits": Arm(tail="logits"),
    "fp16": Arm(precision="fp16-body", frames=20),
    "fp16-unrolled": Arm(precision="fp16-body", lstm="unrolled"),
    "functions": Arm(beams=(1, 4, 8), target="iOS18"),
    "palette": Arm(palettize=6, frames=20),
    "palette-fp16": Arm(palettize=6, precision="fp16-body", target="iOS18", frames=20),
}
MADE: dict[tuple[str, str], Any] = {}  # by arm and graph


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


def exports(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Any]:
    """Packages of `transducer()` by arm and graph, made when first asked for in this session."""
    needs_coremltools()
    from vrt.coreml.export import export
    from vrt.coreml.sources import Source

    folder, source = tmp_path_factory.getbasetemp() / "coreml", Source("tiny", transducer())

    def of(arm: str, kind: str) -> Any:
        if (arm, kind) not in MADE:
            MADE[arm, kind] = export(source, kind, folder / arm, ARMS[arm])
        return MADE[arm, kind]

    return of
