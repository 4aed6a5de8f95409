"""vrt's own answer to a golden file's problem: both arms, every stage.

n samples (16 kHz), T mel or encoder frames, N positions (80 ms).
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

from vrt.golden.feed import DEFAULT_FEED, feeds
from vrt.golden.metadata import Metadata
from vrt.voxtral import decoder
from vrt.voxtral.greedy import ModelOutputError
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.observe import Observer
from vrt.voxtral.offline import transcribe
from vrt.voxtral.session import StreamingSession


@dataclass(frozen=True)
class Answer:
    """Stages by name; `stopped` says why some are missing: the model put out no numbers."""

    stages: dict[str, Tensor]
    stopped: str | None = None


class _Seen:
    """Observer that keeps every stage's outputs in order."""

    def __init__(self) -> None:
        self.outputs: dict[str, list[Tensor]] = defaultdict(list)

    def __call__(self, stage: str, output: Tensor, seconds: float) -> None:
        self.outputs[stage].append(output)

    def stages(self, arm: str) -> dict[str, Tensor]:
        """Joined in the file's layout: mel as [bins, frames], one row of logits a position."""
        joined = {
            stage: torch.stack(pieces) if stage == "logits" else torch.cat(pieces)
            for stage, pieces in self.outputs.items()
        }
        if "mel" in joined:
            joined["mel"] = joined["mel"].T
        return {f"{stage}.{arm}": output for stage, output in joined.items()}


def answer(
    model: VoxtralRealtime,
    about: Metadata,
    samples: Float32[np.ndarray, "n"],
    feed: int | str = DEFAULT_FEED,
) -> Answer:
    """Run the offline path and a stream over the problem, observed, and again up to EOS."""
    offline, stream = _Seen(), _Seen()
    ids: dict[str, list[int]] = {}
    stopped = None
    feeds(samples, feed)  # refused before any work
    try:
        ids["offline_full_span"] = _offline(model, about, samples, offline)
        ids["stream_full_span"] = _stream(model, about, samples, feed, stream)
        to_eos = transcribe(model, samples, about.delay_ms, stop_at_eos=True).ids
        # `generate` over a whole clip never uses the last position
        ids["hf_generate_offline"] = to_eos[: about.rows - 1]
        ids["hf_generate_stream"] = _stream(model, about, samples, feed, None)
    except ModelOutputError as error:
        stopped = str(error)
    tokens = {f"tokens.{name}": torch.tensor(found) for name, found in ids.items()}
    conditioning = _conditioning(model, about)
    stages = offline.stages("offline") | stream.stages("stream") | conditioning | tokens
    return Answer(stages, stopped)


def _offline(
    model: VoxtralRealtime, about: Metadata, samples: Float32[np.ndarray, "n"], seen: _Seen
) -> list[int]:
    hook = model.encoder.layers[0].register_forward_hook(
        lambda _layer, _inputs, output: seen("encoder_layer0", output, 0.0)
    )
    try:
        return transcribe(model, samples, about.delay_ms, observer=seen).ids
    finally:
        hook.remove()


def _stream(
    model: VoxtralRealtime,
    about: Metadata,
    samples: Float32[np.ndarray, "n"],
    feed: int | str,
    seen: Observer | None,
) -> list[int]:
    """One stream: the full span where it is observed, otherwise up to EOS."""
    session = StreamingSession(model, about.delay_ms, stop_at_eos=seen is None, observer=seen)
    session.begin()
    for piece in feeds(samples, feed):
        session.feed(piece)
    return session.finalize().ids


@torch.no_grad()
def _conditioning(model: VoxtralRealtime, about: Metadata) -> dict[str, Tensor]:
    delay, width = about.num_delay_tokens, about.config.decoder.width
    return {
        "t_cond": decoder.time_embedding(delay, width, model.dtype),
        "ada_scale": model.decoder.ada_scale(delay),
    }
