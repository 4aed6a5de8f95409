"""Mistakes that ports make, made on purpose: each changes the numbers and fails a golden file.

A row: the mistake, the shipped golden file that shows it, the stage that must be named first.
Numbers are those of the list of traps in the engine's specification.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F

from vrt.golden import checking
from vrt.golden.comparing import against
from vrt.golden.format import read_problem
from vrt.paths import data_dir
from vrt.voxtral import decoder, encoder, layers, mel, stem
from vrt.voxtral.config import VoxtralConfig
from vrt.voxtral.decoder import Decoder, DecoderState
from vrt.voxtral.mel import LogMel, LogMelStream
from vrt.voxtral.stem import CausalConv1d
from vrt.voxtral.weights import from_tensors

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Trap:
    number: int
    mistake: str
    file: str
    first: str
    make: Callable[[Patch], None]


def config(side: str, **changes: Callable[[float], float]) -> Callable[[Patch], None]:
    """Build the model with some settings of one side changed."""

    def changed(old: VoxtralConfig) -> VoxtralConfig:
        part = getattr(old, side)
        new = replace(part, **{k: change(getattr(part, k)) for k, change in changes.items()})
        return replace(old, **{side: new})

    return lambda patch: patch.setattr(
        checking, "from_tensors", lambda old, weights: from_tensors(changed(old), weights)
    )


def without(ending: str) -> Callable[[Patch], None]:
    """Weights whose names end so are zeros, as if a loader had dropped them."""

    def load(old: VoxtralConfig, weights: dict[str, torch.Tensor]):
        zeroed = {k: w * (not k.endswith(ending)) for k, w in weights.items()}
        return from_tensors(old, zeroed)

    return lambda patch: patch.setattr(checking, "from_tensors", load)


def functional(module: object, **changes: Callable) -> Callable[[Patch], None]:
    """One module sees another torch.nn.functional."""
    kept = {name: getattr(F, name) for name in ("gelu", "linear", "pad", "silu")}
    return lambda patch: patch.setattr(module, "F", SimpleNamespace(**kept | changes))


def tanh_gelu(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh")


def interleaved(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x[..., 0::2], x[..., 1::2]
    cos, sin = cos[:, None], sin[:, None]
    return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)


def rotate_interleaved(patch: Patch) -> None:
    for module in (encoder, decoder):
        patch.setattr(module, "rotate", interleaved)


def pad_second_convolution(patch: Patch) -> None:
    patch.setattr(CausalConv1d, "left_pad", 2)


def pad_both_sides(patch: Patch) -> None:
    def forward(self: CausalConv1d, x: torch.Tensor, cache: object) -> torch.Tensor:
        rows = F.pad(x, (0, 0, 1, 1)).unfold(0, 3, self.stride).flatten(1)
        return F.linear(rows, self.weight.flatten(1), self.bias)

    patch.setattr(CausalConv1d, "forward", forward)


def centre_every_chunk(patch: Patch) -> None:
    def feed(self: LogMelStream, samples: torch.Tensor) -> torch.Tensor:
        held = torch.cat([getattr(self, "held", torch.zeros(0)), samples])
        whole = len(held) // 1280 * 1280
        self.held = held[whole:]
        return self.log_mel(held[:whole]) if whole else torch.empty(0, 128)

    patch.setattr(LogMelStream, "feed", feed)


def log_mel_by(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Patch], None]:
    """`change` maps log10 of the mel powers to what is scaled and put out."""

    def frames(self: LogMel, samples: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.rfft(samples.unfold(0, 400, 160) * self.window)
        power = spectrum.real.square() + spectrum.imag.square()
        return (change((power @ self.filters).clamp(min=1e-10).log10()) + 4) / 4

    return lambda patch: patch.setattr(LogMel, "frames", frames)


def gains_without_one(patch: Patch) -> None:
    patch.setattr(
        Decoder,
        "state",
        lambda self, delay, capacity=None: DecoderState(
            self.config, self.ada_scale(delay), capacity
        ),
    )


def embed_time(change: Callable[..., torch.Tensor]) -> Callable[[Patch], None]:
    right = decoder.time_embedding

    def wrong(delay: int, width: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return change(right, delay, width, dtype)

    return lambda patch: patch.setattr(decoder, "time_embedding", wrong)


def by_half_minus_one(right: Callable, delay: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    half = width // 2
    angles = delay * 1e4 ** -(torch.arange(half) / (half - 1))
    return torch.cat([angles.cos(), angles.sin()])


def sines_first(right: Callable, delay: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    return right(delay, width, dtype).roll(width // 2)


def frequencies_in_bf16(patch: Patch) -> None:
    right = layers.Rotary.__init__

    def rounded(self: layers.Rotary, theta: float, head_dim: int) -> None:
        right(self, theta, head_dim)
        self.inv_freq = self.inv_freq.bfloat16().float()

    patch.setattr(layers.Rotary, "__init__", rounded)


def ada_of_next_delay(patch: Patch) -> None:
    right = Decoder.ada_scale
    patch.setattr(
        Decoder,
        "state",
        lambda self, delay, capacity=None: DecoderState(
            self.config, 1 + right(self, delay + 1), capacity
        ),
    )


def symmetric_hann(patch: Patch) -> None:
    patch.setattr(mel, "hann", lambda: torch.hann_window(400, periodic=False, device="cpu"))


LAYER0, TIME, ADA = "encoder_layer0.offline", "t_cond", "ada_scale"
MEL, STEM, ENCODER, LOGITS = "mel.offline", "conv_stem.offline", "encoder.offline", "logits.offline"

# One row a line: the table is read as a table.
# ruff: noqa: E501
TRAPS = [
    Trap(1, "encoder window with one key more", "wraps", LAYER0, config("encoder", window=lambda w: w + 1)),
    Trap(2, "encoder window with one key less", "wraps", LAYER0, config("encoder", window=lambda w: w - 1)),
    Trap(3, "encoder theta 1e4", "wraps", LAYER0, config("encoder", theta=lambda _: 1e4)),
    Trap(4, "interleaved rotary pairs", "over-chunk", LAYER0, rotate_interleaved),
    Trap(5, "second convolution padded by 2", "length-40", STEM, pad_second_convolution),
    Trap(5, "convolutions padded on both sides", "length-40", STEM, pad_both_sides),
    Trap(6, "every chunk padded as if it were a clip", "length-1280", "mel.stream", centre_every_chunk),
    Trap(7, "floor set by the clip's maximum", "quiet", MEL, log_mel_by(lambda x: torch.maximum(x, x.max() - 8))),
    Trap(7, "no floor", "quiet", MEL, log_mel_by(lambda x: x)),
    Trap(8, "clamped at the top", "loud", MEL, log_mel_by(lambda x: x.clamp(-6.5, 1.5))),
    Trap(9, "symmetric Hann window", "length-1279", MEL, symmetric_hann),
    Trap(10, "tanh GELU in the stem", "length-1281", STEM, functional(stem, gelu=tanh_gelu)),
    Trap(11, "tanh GELU in the delay's MLP", "wraps", ADA, functional(decoder, gelu=tanh_gelu)),
    Trap(12, "gain without the 1", "length-1", LOGITS, gains_without_one),
    Trap(12, "SiLU in the delay's MLP", "length-1", ADA, functional(decoder, gelu=F.silu)),
    Trap(13, "sines before cosines", "length-0", TIME, embed_time(sines_first)),
    Trap(13, "frequencies divided by half - 1", "length-0", TIME, embed_time(by_half_minus_one)),
    Trap(13, "delay in ms", "length-0", TIME, embed_time(lambda f, d, w, t: f(80 * d, w, t))),
    Trap(14, "delay off by one where it conditions", "wraps", LOGITS, ada_of_next_delay),
    Trap(15, "encoder eps x 10", "length-1281", LAYER0, config("encoder", eps=lambda e: e * 10)),
    Trap(16, "decoder eps x 10", "tiny-norms", LOGITS, config("decoder", eps=lambda e: e * 10)),
    Trap(17, "q bias dropped", "over-chunk", LAYER0, without("q_proj.bias")),
    Trap(17, "down bias dropped", "over-chunk", LAYER0, without("down_proj.bias")),
    Trap(18, "rotary frequencies in bf16", "wraps", LAYER0, frequencies_in_bf16),
    Trap(19, "decoder window with one key more", "under-prompt", LOGITS, config("decoder", window=lambda w: w + 1)),
    Trap(19, "decoder window with one key less", "under-prompt", LOGITS, config("decoder", window=lambda w: w - 1)),
]  # fmt: skip


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: f"{trap.number}: {trap.mistake}")
def test_the_mistake_is_caught(trap: Trap, monkeypatch: Patch) -> None:
    golden = read_problem(data_dir() / "golden" / f"voxtral-{trap.file}.safetensors")
    right = checking.solve(golden).stages
    assert against(trap.file, golden.expect, right).ok
    trap.make(monkeypatch)
    wrong = checking.solve(golden).stages
    changed = {
        stage
        for stage, value in right.items()
        if value.shape != wrong[stage].shape or not torch.equal(value, wrong[stage])
    }
    assert changed, "the mutation does nothing"
    report = against(trap.file, golden.expect, wrong)
    assert not report.ok
    assert report.first is not None and report.first.stage == trap.first


def test_every_trap_has_its_row() -> None:
    assert {trap.number for trap in TRAPS} == set(range(1, 20))
