"""What a beam search is asked to do: sizes, the named choices, and fusion models.

K beam slots, V classes with blank, M labels at one encoder frame.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

from vrt.rnnt.fusion import FusionModel

Ties = Literal["lowest", "torch"]
Collisions = Literal["verify", "nemo"]
ZeroLength = Literal["empty", "nemo"]
PruningMode = Literal["late", "early"]
BlankScoreMode = Literal["lm_weighted_full", "no_score"]


class BeamError(ValueError):
    """A search that cannot be run as asked; says what and the way out."""


@dataclass(frozen=True)
class Fusion:
    """A language model or a boosting tree, its scores multiplied by `alpha`."""

    model: FusionModel
    alpha: float


@dataclass(frozen=True)
class BeamConfig:
    """Defaults are for the user; `as_nemo()` gives what NeMo 3.0.0 does on a CPU.

    `ties`: equal scores go by the lowest index, the same on every device and backend ("lowest"),
    or by the order of `torch.topk` and `torch.sort` on the device at hand ("torch").
    `collisions`: hypotheses of equal hash, last label and length are merged only if their tokens
    are equal too ("verify"), or without a look ("nemo").
    `zero_length`: an utterance of no frames stays empty ("empty"), or wakes up in the second
    iteration and decodes its padding ("nemo", public issue 16161).
    `score_norm` orders hypotheses by score / (labels + 1); scores themselves are never divided.
    `iteration_guard` ends a search without `max_symbols` that does not end by itself.
    """

    beam_size: int = 4
    max_symbols: int | None = 10  # labels at one encoder frame, then blank is forced; None: no cap
    score_norm: bool = True
    ties: Ties = "lowest"
    collisions: Collisions = "verify"
    zero_length: ZeroLength = "empty"
    fusion: tuple[Fusion, ...] = ()
    pruning_mode: PruningMode = "late"
    blank_lm_score_mode: BlankScoreMode = "lm_weighted_full"
    preserve_alignments: bool = False
    iteration_guard: int = 100  # iterations per encoder frame, read where max_symbols is None

    def __post_init__(self) -> None:
        _at_least(1, "beam_size", self.beam_size)
        _at_least(1, "iteration_guard", self.iteration_guard)
        if self.max_symbols is not None:
            _at_least(0, "max_symbols", self.max_symbols)
        _one_of("ties", self.ties, Ties)
        _one_of("collisions", self.collisions, Collisions)
        _one_of("zero_length", self.zero_length, ZeroLength)
        _one_of("pruning_mode", self.pruning_mode, PruningMode)
        _one_of("blank_lm_score_mode", self.blank_lm_score_mode, BlankScoreMode)

    def as_nemo(self) -> "BeamConfig":
        """The same search with NeMo's order of ties, unverified merges and zero-length rows."""
        return replace(self, ties="torch", collisions="nemo", zero_length="nemo")

    @property
    def alpha_sum(self) -> float:
        return sum(part.alpha for part in self.fusion)


def _at_least(least: int, name: str, value: int) -> None:
    if value < least:
        raise BeamError(f"{name} must be at least {least}, got {value}")


def _one_of(name: str, value: str, choices: object) -> None:
    if value not in get_args(choices):
        raise BeamError(f"{name} must be one of {', '.join(get_args(choices))}, got {value!r}")
