"""A model for a command: opened by name, with what a user should know about it said first."""

from dataclasses import dataclass

from vrt.cli.checkpoints import forecast, look_at
from vrt.cli.options import Dtype, Format
from vrt.cli.output import remark
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.packed import pack
from vrt.voxtral.weights import load_checkpoint
from vrt.voxtral.weights.checkpoint import shipped_models
from vrt.voxtral.weights.config_files import CheckpointError

RANDOM = "random-"  # how the package's models without training are called


@dataclass(frozen=True)
class OpenModel:
    """Weights and the name that they were asked for by."""

    name: str
    weights: VoxtralRealtime

    @property
    def has_text(self) -> bool:
        return self.weights.tokenizer is not None

    def check_format(self, format: Format) -> None:
        """Say what a model without a vocabulary gives; refuse what it cannot give."""
        if self.has_text:
            return
        missing = f"{self.name} has no tekken.json: its tokens cannot be turned into text"
        if format in (Format.SRT, Format.VTT):
            raise CheckpointError(
                f"{missing}, so there are no words for {format}; put the file beside the weights,"
                " or say --format text for token ids"
            )
        remark(f"{missing}; the output is token ids")


def open_model(
    name: str, device: str, dtype: Dtype | None, tokens_per_feed: int = 1, packed: bool = False
) -> OpenModel:
    """Load a checkpoint folder or a model of this package. Raises `CheckpointError`.

    Of a large model on a CPU the expected cost is said first, for feeds of `tokens_per_feed`.
    """
    look = look_at(name, dtype)
    if name.startswith(RANDOM) and name in shipped_models():
        remark(f"{name}: random weights, its words mean nothing; --model takes a real checkpoint")
    if look.is_bound_by_memory and device == "cpu":
        remark(forecast(look, tokens_per_feed))
    weights = load_checkpoint(look.checkpoint, device=device, dtype=look.dtype)
    return OpenModel(name, pack(weights) if packed else weights)
