"""What a bench run measures, checked before anything long starts."""

import os
from dataclasses import dataclass, replace
from importlib.util import find_spec

from vrt.voxtral.config import VoxtralConfig

ROWS = ("encoder", "decoder", "front", "batch")
PEERS = ("transformers", "none")
RELEASED = VoxtralConfig()


class BenchError(ValueError):
    """A run that cannot be measured as asked; the message names the value and the way out."""


@dataclass(frozen=True)
class BenchSettings:
    """`layers` None keeps the configuration's depth; a number lowers both depths to it.

    `threads` are measured one after another. `rows` are of `ROWS`. `against` is `transformers`
    or `none`. `repeats` counts timed calls of each arm. `packed` measures the engine with packed
    weights as well, which need as much memory again.
    """

    layers: int | None = None
    threads: tuple[int, ...] = (1, 2)
    rows: tuple[str, ...] = ROWS
    against: str = "transformers"
    repeats: int = 9
    packed: bool = False
    config: VoxtralConfig = RELEASED

    def __post_init__(self) -> None:
        deepest = max(self.config.encoder.layers, self.config.decoder.layers)
        if self.layers is not None and not 1 <= self.layers <= deepest:
            raise BenchError(f"layers {self.layers}: 1 to {deepest}, or none for the full depth")
        if self.repeats < 1:
            raise BenchError(f"repeats {self.repeats}: at least 1 call of each arm is timed")
        self._check_threads()
        if not self.rows or (unknown := set(self.rows) - set(ROWS)):
            named = ", ".join(sorted(unknown)) if self.rows else "nothing"
            raise BenchError(f"rows {named}: there are {', '.join(ROWS)}")
        if self.against not in PEERS:
            raise BenchError(f"against {self.against}: there are {', '.join(PEERS)}")
        if self.against == "transformers" and find_spec("transformers") is None:
            raise BenchError(
                "transformers is not installed; pip install 'vrt[hf]', or measure against none"
            )

    def _check_threads(self) -> None:
        usable, given = _usable_cores(), ",".join(map(str, self.threads)) or "none"
        if not self.threads or not all(1 <= count <= usable for count in self.threads):
            raise BenchError(f"threads {given}: this process may use 1 to {usable}")
        if len(set(self.threads)) < len(self.threads):
            raise BenchError(f"threads {given}: name each number once")

    @property
    def model(self) -> VoxtralConfig:
        """The configuration at the depth that is measured."""
        if self.layers is None:
            return self.config
        encoder, decoder = self.config.encoder, self.config.decoder
        return replace(
            self.config,
            encoder=replace(encoder, layers=min(encoder.layers, self.layers)),
            decoder=replace(decoder, layers=min(decoder.layers, self.layers)),
        )

    @property
    def contexts(self) -> tuple[int, ...]:
        """Keys that a decoder step sees, its own included: the prompt's, and the full window."""
        prompt = self.config.left_pad_tokens + 1 + self.config.delay_tokens
        window = self.config.decoder.window
        return tuple(sorted({min(prompt, window), window}))


def _usable_cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # absent on macOS
    return len(affinity(0)) if affinity else os.cpu_count() or 1
