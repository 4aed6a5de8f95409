"""Making Voxtral golden files: a problem, and the answer of the oracle that is named in the file.

n samples (16 kHz).
"""

from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int16
from torch import Tensor

from vrt.golden.checking import produced_by_vrt, solve
from vrt.golden.comparing import compare_stage
from vrt.golden.errors import GoldenError
from vrt.golden.feed import DEFAULT_FEED
from vrt.golden.format import Golden, write
from vrt.golden.metadata import Metadata
from vrt.oracle.weights import Weights, random_weights
from vrt.voxtral.config import DecoderConfig, EncoderConfig, VoxtralConfig
from vrt.voxtral.schedule import delay_tokens

MOST_DRIFT = 0.5  # of the tolerance


@dataclass(frozen=True)
class VoxtralProblem:
    """A complete small problem; `covers` says in words what it is there for."""

    name: str
    config: VoxtralConfig
    delay_tokens: int
    audio: Int16[np.ndarray, "n"]
    weights: Weights
    covers: str = ""

    @property
    def about(self) -> Metadata:
        more: dict[str, Any] = {"audio_samples": len(self.audio)}
        if self.covers:
            more["covers"] = self.covers
        return Metadata.of(self.name, self.config, self.delay_tokens, len(self.audio), more)


def small_problem(
    name: str,
    audio: Int16[np.ndarray, "n"],
    *,
    seed: int = 0,
    delay_ms: int = 480,
    encoder_window: int = 24,
    decoder_window: int = 20,
    eos: int | None = None,
) -> VoxtralProblem:
    """Random weights at a size that keeps files small, and windows that wrap on short clips."""
    config = small_config(encoder_window, decoder_window, eos)
    weights = random_weights(config, seed)
    return VoxtralProblem(name, config, delay_tokens(delay_ms), audio, weights, f"seed {seed}")


def small_config(
    encoder_window: int, decoder_window: int, eos: int | None = None, left_pad: int = 32
) -> VoxtralConfig:
    """Two layers a side and 16 wide; the delay MLP keeps its 32, which transformers fixes."""
    encoder = EncoderConfig(width=12, layers=2, heads=2, head_dim=8, ff=20)
    decoder = DecoderConfig(width=16, layers=2, heads=4, kv_heads=2, head_dim=8, ff=24, vocab=40)
    return VoxtralConfig(
        encoder=replace(encoder, window=encoder_window),
        decoder=replace(decoder, window=decoder_window),
        eos=eos,
        left_pad_tokens=left_pad,
    )


def make_voxtral(
    path: str | PathLike[str], problem: VoxtralProblem, oracle: str = "hf"
) -> Metadata:
    """Write the problem and the oracle's answer to `path`; returns what the file says of itself.

    `oracle`: `hf` (transformers) or `vrt`. Raises `GoldenError` where it is not installed, or
    where it cannot answer.
    """
    answers = {"hf": _ask_transformers, "vrt": _ask_vrt}
    if oracle not in answers:
        raise GoldenError(f"oracle {oracle!r} is not one of {', '.join(answers)}")
    about, stages = answers[oracle](problem)
    write(path, about, stages, torch.from_numpy(problem.audio), problem.weights)
    return about


def _ask_vrt(problem: VoxtralProblem) -> tuple[Metadata, dict[str, Tensor]]:
    about, audio = problem.about, torch.from_numpy(problem.audio)
    found = solve(Golden(Path(problem.name), about, audio, problem.weights, {}, ()))
    if found.stopped:
        raise GoldenError(f"{problem.name}: {found.stopped}")
    produced = produced_by_vrt(about, DEFAULT_FEED)
    return _with(about, produced.more | _margins(found.stages)), found.stages


def _ask_transformers(problem: VoxtralProblem) -> tuple[Metadata, dict[str, Tensor]]:
    try:
        from vrt.oracle import hf
    except ImportError as error:
        raise GoldenError(
            f"the oracle `hf` needs transformers ({error}): pip install 'vrt[hf]', or use"
            " the oracle `vrt`"
        ) from error
    samples = problem.audio.astype(np.float32) / 2**15
    try:
        stages = hf.reference(problem.config, problem.weights, samples, problem.delay_tokens)
    except hf.OracleError as error:
        raise GoldenError(f"{problem.name}: {error}") from error
    drift = _drift(problem.name, stages)
    more = {"oracle": {"name": "hf", **hf.versions()}, "offline_vs_stream_maxabs": drift}
    return _with(problem.about, more | _margins(stages)), stages


def _drift(name: str, stages: dict[str, Tensor]) -> dict[str, float]:
    """How far the reference's own two arms part, which only rounding separates.

    Raises `GoldenError` where that uses up half of the tolerance: no port could then be judged.
    """
    drift = {}
    for stage in ("mel", "conv_stem", "encoder", "projector", "logits"):
        pair = f"{stage}.offline", f"{stage}.stream"
        result = compare_stage(pair[0], stages[pair[0]], stages[pair[1]])
        if not result.ratio <= MOST_DRIFT:
            raise GoldenError(
                f"{name}: the reference's stream is {result.ratio:.2f} of the tolerance away from"
                f" its own offline answer at {stage}; use another seed or smaller weights"
            )
        drift[stage] = result.error
    return drift


def _with(about: Metadata, more: dict[str, Any]) -> Metadata:
    return Metadata(
        *(about.name, about.num_delay_tokens, about.n_audio_tokens, about.config),
        about.more | more,
    )


def _margins(stages: dict[str, Tensor]) -> dict[str, float | int]:
    """How far the best logit is ahead of the next one, and how varied the tokens are."""
    best = stages["logits.offline"].topk(2).values
    return {
        "greedy_min_margin": float((best[:, 0] - best[:, 1]).min()),
        "greedy_distinct_tokens": len(stages["tokens.offline_full_span"].unique()),
    }
