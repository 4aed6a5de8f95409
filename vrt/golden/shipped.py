"""The golden files in `data/golden`: small problems, each there for mistakes that ports make.

n samples (16 kHz). `python -m vrt.golden.shipped FOLDER` makes them again, with the rounding of
that machine.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int16

from vrt.audio import read
from vrt.golden.making import VoxtralProblem, make_voxtral, small_config
from vrt.oracle.weights import Weights, random_weights
from vrt.paths import data_dir
from vrt.voxtral.config import DecoderConfig, EncoderConfig, VoxtralConfig

Audio = Int16[np.ndarray, "n"]

CLIP = "audio/sense_and_sensibility_0880.flac"
VOICED = 9000  # sample of the clip at which a word is under way
TINY = 0.006

LONG_PAD = small_config(24, 20)
SHORT_PAD = small_config(24, 20, left_pad=4)  # keeps files small where the long pad shows nothing
UNDER_PROMPT = small_config(30, 7)
CHUNK_EDGE = small_config(5, 2, left_pad=4)
WRAPS = small_config(8, 2, left_pad=4)
NEVER_FULL = small_config(750, 8192, left_pad=4)
WITH_EOS = small_config(24, 20, eos=20, left_pad=4)
ODD_HEADS = VoxtralConfig(
    EncoderConfig(14, 3, 3, head_dim=6, ff=18, window=22, theta=1e4, eps=1e-6),
    DecoderConfig(18, 3, 6, 1, head_dim=10, ff=22, window=13, vocab=37, theta=3e4, eps=1e-6),
    eos=None,
    left_pad_tokens=4,
)


@dataclass(frozen=True)
class Recipe:
    """One file: what it covers, and all that decides its numbers. `delay` is in tokens."""

    name: str
    covers: str
    audio: Audio
    seed: int
    config: VoxtralConfig = SHORT_PAD
    delay: int = 6
    tiny_norms: bool = False

    def problem(self) -> VoxtralProblem:
        weights = random_weights(self.config, self.seed)
        return VoxtralProblem(
            name=f"voxtral-{self.name}",
            config=self.config,
            delay_tokens=self.delay,
            audio=self.audio,
            weights=shrunk(weights) if self.tiny_norms else weights,
            covers=self.covers,
        )


def recipes() -> Iterator[Recipe]:
    """All shipped files. Seeds: varied tokens, and rounding that the layers do not blow up."""
    yield Recipe("length-0", "no audio; delay 1", silence(0), 13, LONG_PAD, 1)
    yield Recipe("length-1", "one loud sample; delay 2", noise(1), 11, delay=2)
    yield Recipe("length-39", "ends one sample before a token's look-ahead does", noise(39), 1)
    yield Recipe("length-40", "ends with a token's look-ahead; delay 10", noise(40), 21, delay=10)
    yield Recipe("length-1279", "one sample short of a token", speech(1279), 14)
    yield Recipe("length-1280", "one whole token: no alignment", speech(1280), 14)
    yield Recipe("length-1281", "one sample over a token; delay 30", speech(1281), 13, delay=30)
    yield Recipe("under-prompt", "windows 30 and 7, prompt of 39", speech(7000), 11, UNDER_PROMPT)
    yield Recipe("over-chunk", "windows barely over a chunk: 5 and 2", speech(8000), 22, CHUNK_EDGE)
    yield Recipe("wraps", "windows of 8 and 2, wrapped 15 times", speech(12000), 9, WRAPS)
    yield Recipe("never-full", "the released windows, never full", speech(8000), 23, NEVER_FULL)
    yield Recipe("loud", "clipped: log-mel above its nominal maximum", amplified(8000, 40.0), 23)
    yield Recipe("quiet", "speech of a few quantisation steps", amplified(8000, 1e-3), 11)
    yield Recipe("eos", "EOS in the middle, where `generate` stops", speech(12000), 1, WITH_EOS)
    yield Recipe("odd-heads", "uncommon heads, theta and eps", speech(8000), 15, ODD_HEADS)
    yield Recipe("tiny-norms", "decoder near the root of eps", speech(8000), 1, tiny_norms=True)


def silence(n: int) -> Audio:
    return np.zeros(n, dtype=np.int16)


def noise(n: int) -> Audio:
    """Loud and white: what a single sample does is seen."""
    return np.random.default_rng(n).integers(-20_000, 20_000, n, dtype=np.int16)


def speech(n: int) -> Audio:
    samples = read(data_dir() / CLIP).samples[VOICED : VOICED + n]
    return (samples * 2**15).round().astype(np.int16)


def amplified(n: int, gain: float) -> Audio:
    return (speech(n) * gain).round().clip(-(2**15), 2**15 - 1).astype(np.int16)


def shrunk(weights: Weights) -> Weights:
    """All that is added up in the decoder made small; the last norm's weights make up for it."""
    decoder = "model.language_model."
    ends = ("embed_tokens.weight", "linear_2.weight", "o_proj.weight", "down_proj.weight")
    changed = {
        name: weight * TINY
        for name, weight in weights.items()
        if name.endswith(ends) and "audio_tower" not in name
    }
    changed[decoder + "norm.weight"] = weights[decoder + "norm.weight"] / TINY
    return weights | changed


def make_shipped(folder: Path) -> None:
    for recipe in recipes():
        path = folder / f"voxtral-{recipe.name}.safetensors"
        about = make_voxtral(path, recipe.problem())
        print(f"{path.name:40} {path.stat().st_size:9,} bytes, N {about.n_audio_tokens}")


if __name__ == "__main__":
    make_shipped(Path(sys.argv[1]))
