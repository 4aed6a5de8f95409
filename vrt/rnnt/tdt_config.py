"""What a TDT beam search is asked to do: what a beam search is, and two choices of its own."""

from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from vrt.rnnt.config import BeamConfig, BeamError

Jumps = Literal["durations", "nemo"]
Finals = Literal["merged", "nemo"]


@dataclass(frozen=True)
class TdtConfig:
    """Defaults are for the user; `as_nemo()` gives what NeMo 3.0.0 does on a CPU.

    `jumps`: a step moves on by the duration that its column stands for ("durations"), or by the
    number of the column itself ("nemo": its beam never looks the duration up, though its greedy
    search does). They differ for a model whose durations are not 0, 1, 2 ... in order.
    `finals`: a step may go beyond the last encoder frame, and how far then no longer matters, so
    finished hypotheses of one transcript are merged ("merged"); or they stay apart if they ended
    at different frames, and the n-best list holds the transcript several times ("nemo").

    Of `beam`, `zero_length` does nothing here: also in NeMo's TDT search an utterance without
    frames stays empty.
    """

    beam: BeamConfig = field(default_factory=BeamConfig)
    jumps: Jumps = "durations"
    finals: Finals = "merged"

    def __post_init__(self) -> None:
        for name, choices in (("jumps", Jumps), ("finals", Finals)):
            value = getattr(self, name)
            if value not in get_args(choices):
                raise BeamError(
                    f"{name} must be one of {', '.join(get_args(choices))}, got {value!r}"
                )

    def as_nemo(self) -> "TdtConfig":
        """The same search with NeMo's jumps, finals, order of ties and unverified merges."""
        return replace(self, beam=self.beam.as_nemo(), jumps="nemo", finals="nemo")
