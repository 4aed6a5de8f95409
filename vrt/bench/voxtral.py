"""The bench of the Voxtral engine: every row at each number of threads, in one process and run.

receipt = bench_voxtral(BenchSettings(layers=4))
print(table(receipt))
receipt.write("bench.json")
"""

import gc
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from vrt.bench import arms as ours
from vrt.bench.bandwidth import BUFFER_BYTES, Bandwidth, read_bandwidth, written_buffer
from vrt.bench.front import session_steps
from vrt.bench.rows import FROZEN, OURS, PACKED, TRANSFORMERS, Measured, Row, rows_of
from vrt.bench.settings import BenchSettings
from vrt.bench.timing import interleaved
from vrt.bench.traffic import decoder_bytes, encoder_bytes, stem_bytes, step_bytes
from vrt.bench.weights import bench_model, packed_copy
from vrt.receipt import Receipt
from vrt.voxtral.config import FRAMES_PER_TOKEN, TOKEN_MS
from vrt.voxtral.measure.cost import cost
from vrt.voxtral.measure.speed import torch_threads

Tell = Callable[[str], None]


def silent(line: str) -> None:
    """For callers that want no progress."""


def bench_voxtral(
    settings: BenchSettings, tell: Tell = silent, buffer_bytes: int = BUFFER_BYTES
) -> Receipt:
    """Measure all that `settings` asks for; the receipt is ended and not yet written.

    `tell` hears one line before each part. `buffer_bytes`: memory read for the bandwidth.
    Raises `BenchError` where memory is short.
    """
    receipt = Receipt.begin(_parameters(settings))
    load_before = os.getloadavg()
    with torch.no_grad():
        numbers = _Bench(settings, tell, buffer_bytes).run()
    load = {"load_average_before": load_before, "load_average_after": os.getloadavg()}
    return receipt.end(numbers | load)


def _parameters(settings: BenchSettings) -> dict[str, Any]:
    return asdict(settings) | {"dtype": "bfloat16", "contexts": settings.contexts}


class _Bench:
    """One set of weights, used by both arms, and what each row needs of it."""

    def __init__(self, settings: BenchSettings, tell: Tell, buffer_bytes: int):
        self.settings, self.tell = settings, tell
        tell("writing random weights")
        self.model = bench_model(settings.model, copies=1 + settings.packed)
        self.own = {OURS: self.model}
        if settings.packed:
            tell("packing them")
            self.own[PACKED] = packed_copy(self.model)
        self.inputs = ours.Inputs.draw(self.model)
        self.cost = cost(settings.model, self.model.dtype)
        self.peers: dict[str, nn.Module] = {}
        if settings.against == TRANSFORMERS:
            tell("building transformers' model over the same weights")
            build = _peer_arms().build_shared
            self.peers = {
                TRANSFORMERS: build(self.model),
                FROZEN: build(self.model).requires_grad_(False),
            }
        self.buffer = written_buffer(buffer_bytes)

    def run(self) -> dict[str, Any]:
        rows: list[Row] = []
        bandwidths = {}
        for threads in self.settings.threads:
            with torch_threads(threads):
                measured, bandwidth = self._measure(threads)
            bandwidths[str(threads)] = {"wall": bandwidth.wall, "cpu": bandwidth.cpu}
            layers = self.settings.model.encoder.layers, self.settings.model.decoder.layers
            for group in measured:
                rows += rows_of(group, bandwidth, threads, layers, self.settings.repeats)
        return {
            "rows": [asdict(row) for row in rows],
            "read_bytes_per_second_by_threads": bandwidths,
            "weights_bytes": sum(self.cost.weight_bytes.values()),
        }

    def _measure(self, threads: int) -> tuple[list[Measured], Bandwidth]:
        """All rows at one number of threads; the bandwidth is the best before and after them."""
        before = read_bandwidth(self.buffer)
        measured = []
        for row in self.settings.rows:
            for group in self._groups(row, threads):
                measured.append(group)
                gc.collect()  # the rings of a row are gone before the next one's are made
        return measured, before.best(read_bandwidth(self.buffer))

    def _groups(self, row: str, threads: int) -> Iterator[Measured]:
        self.tell(f"{row}, threads {threads}")
        match row:
            case "encoder":
                yield self._encoder()
            case "decoder":
                yield from (self._decoder(context) for context in self.settings.contexts)
            case "front":
                yield self._front()
            case "batch":
                yield self._batch()

    def _encoder(self) -> Measured:
        """All arms turn 8 mel frames into 4 encoder frames at a full window."""
        nbytes = stem_bytes(self.cost) + encoder_bytes(self.cost)
        steps = {}
        for name, model in self.own.items():
            steps[name], past = ours.encoder_chunk(model, self.inputs)
        for name, peer in self.peers.items():
            steps[name] = _peer_arms().encoder_chunk(peer, self.inputs.mel, past)
        return self._compare("encoder chunk", steps, nbytes)

    def _decoder(self, context: int) -> Measured:
        steps = {}
        for name, model in self.own.items():
            steps[name], past = ours.decoder_step(model, self.inputs, context)
        if self.peers:
            given = self.inputs.token, self.inputs.audio, self.model.config.delay_tokens
            step = _peer_arms().decoder_step(self.peers[TRANSFORMERS], *given, past)
            steps[TRANSFORMERS] = step
        name = f"decoder at {context}"
        return self._compare(name, steps, decoder_bytes(self.cost, context))

    def _compare(self, name: str, steps: dict[str, Callable[[], Tensor]], nbytes: int) -> Measured:
        outputs = [step() for name, step in steps.items() if name != PACKED]
        difference = relative_difference(*outputs[:2]) if len(outputs) > 1 else None
        timings = interleaved(steps, self.settings.repeats)
        return Measured(name, timings, dict.fromkeys(steps, nbytes), difference)

    def _front(self) -> Measured:
        config = self.model.config
        context = config.left_pad_tokens + 1 + config.delay_tokens
        nbytes = stem_bytes(self.cost), step_bytes(self.cost, context)
        timings = session_steps(self.model, self.settings.repeats)
        return Measured("front", timings, dict(zip(timings, nbytes, strict=True)))

    def _batch(self) -> Measured:
        """480 ms in one encoder call against six calls of 80 ms."""
        single, tokens = FRAMES_PER_TOKEN, ours.BATCH_TOKENS
        calls = {
            f"1 x {ours.BATCH_FRAMES} frames": (ours.BATCH_FRAMES, 1),
            f"{tokens} x {single} frames": (single, tokens),
        }
        steps = {name: ours.encoder_frames(self.model, *sizes) for name, sizes in calls.items()}
        nbytes = {
            name: count * encoder_bytes(self.cost, frames)
            for name, (frames, count) in calls.items()
        }
        name = f"encoder, {tokens * TOKEN_MS} ms"
        return Measured(name, interleaved(steps, self.settings.repeats), nbytes)


def relative_difference(ours: Tensor, theirs: Tensor) -> float:
    """RMS of the difference over RMS of the second."""
    ours, theirs = ours.double(), theirs.double()
    return ((ours - theirs).square().mean().sqrt() / theirs.square().mean().sqrt()).item()


def _peer_arms() -> ModuleType:
    """The room that may import transformers, loaded only where it is measured."""
    from vrt.oracle import hf_bench

    return hf_bench
