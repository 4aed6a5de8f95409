"""One arm of an export: the settings that make a package, and the name that tells them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vrt.coreml.contract import LSTM, Cache, Precision, Tail
from vrt.coreml.convert import Target, refuse_other
from vrt.coreml.errors import CoreMLError
from vrt.coreml.graphs_rnnt import UTTERANCE

WITH_BEAM = ("predictor", "joint", "fused")
WITH_LSTM = ("predictor", "fused")
WITH_TAIL = ("joint", "fused")
WITH_CACHE = ("voxtral-encoder-chunk", "voxtral-decoder-step")
ENCODER_SIDE = (
    "encoder-projection",
    "voxtral-conv-stem",
    "voxtral-encoder-chunk",
    "voxtral-projector",
)


@dataclass(frozen=True)
class Arm:
    """Settings that a graph does not have are left alone: a joint has no LSTM.

    `frames` is T of the encoder projection. `delay_tokens` None is the model's own. With `beams`
    the package has a function `beam_K` for each K, and `beam` is not read.

    Raises:
        CoreMLError: a choice that is not there, iOS17 with several beams, one beam as a list, or
            a beam given twice.
    """

    beam: int = 8
    precision: Precision = "fp32"
    lstm: LSTM = "op"
    tail: Tail = "topk"
    target: Target = "iOS17"
    palettize: int | None = None
    cache: Cache = "explicit"
    frames: int = UTTERANCE
    delay_tokens: int | None = None
    beams: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        refuse_other("precision", self.precision, Precision)
        refuse_other("lstm", self.lstm, LSTM)
        refuse_other("tail", self.tail, Tail)
        refuse_other("target", self.target, Target)
        refuse_other("cache", self.cache, Cache)
        if self.beams and self.target == "iOS17":
            listed = ",".join(map(str, self.beams))
            raise CoreMLError(
                f"several functions in a package ({listed}) need --target iOS18; for iOS17 export"
                " one package a beam"
            )
        if len(self.beams) == 1:
            raise CoreMLError(
                f"a package of one function needs no --multifunction: say --beam {self.beams[0]}"
            )
        if len(set(self.beams)) < len(self.beams):
            raise CoreMLError(f"beams {self.beams}: each may be there once")

    def of(self, kind: str) -> "Arm":
        """Without a palette where the graph decides on tokens."""
        return self if kind in ENCODER_SIDE else replace(self, palettize=None)

    def refuse_idle(self, kinds: Sequence[str]) -> None:
        """Raises `CoreMLError` for a setting that none of these graphs has."""
        plain = Arm()
        for name, having, what in (
            ("beams", WITH_BEAM, "several beams (--multifunction)"),
            ("lstm", WITH_LSTM, "--lstm unrolled"),
            ("tail", WITH_TAIL, "--tail logits"),
            ("cache", WITH_CACHE, "a cache that Core ML keeps (MLState)"),
            ("palettize", ENCODER_SIDE, "--palettize, which is for an encoder's weights,"),
        ):
            idle = not set(kinds) & set(having)
            if idle and getattr(self, name) != getattr(plain, name):
                raise CoreMLError(
                    f"{what} changes nothing of {', '.join(kinds)}; it is for {', '.join(having)}"
                )

    def stem(self, kind: str) -> str:
        """File name of a package of this arm, without its suffix."""
        widths = "-".join(map(str, self.beams or (self.beam,)))
        parts = [
            kind,
            f"k{widths}" if kind in WITH_BEAM else "",
            "unrolled" if kind in WITH_LSTM and self.lstm == "unrolled" else "",
            "logits" if kind in WITH_TAIL and self.tail == "logits" else "",
            "mlstate" if kind in WITH_CACHE and self.cache == "mlstate" else "",
            "fp16" if self.precision == "fp16-body" else "",
            f"palette{self.palettize}" if self.palettize is not None else "",
        ]
        return "-".join(part for part in parts if part)
