"""What a checkpoint is and will cost, from its configuration and headers alone: no weights read."""

from dataclasses import dataclass

import torch

from vrt.cli.options import Dtype
from vrt.cli.output import bytes_text
from vrt.loading import is_transducer
from vrt.voxtral.measure.cost import Cost, Estimate, cost
from vrt.voxtral.measure.speed import Speed, measure_speed
from vrt.voxtral.weights import skeleton
from vrt.voxtral.weights.checkpoint import WEIGHTS_STEM, Checkpoint, open_checkpoint
from vrt.voxtral.weights.config_files import CheckpointError
from vrt.voxtral.weights.fit import fit
from vrt.voxtral.weights.tensor_files import shards

IN_CACHE = 256 << 20  # bytes of weights: below it a step is not bound by reading memory


@dataclass(frozen=True)
class Look:
    """A checkpoint that fits its configuration. `dtype` is that of the weights once loaded."""

    name: str
    checkpoint: Checkpoint
    dtype: torch.dtype
    cost: Cost
    disk_bytes: int

    @property
    def weight_bytes(self) -> int:
        return sum(self.cost.weight_bytes.values())

    @property
    def is_bound_by_memory(self) -> bool:
        """Whether an estimate from bytes and their speed means anything."""
        return self.weight_bytes > IN_CACHE

    def estimate(
        self, speed: Speed, context: int | None = None, tokens_per_feed: int = 1
    ) -> Estimate:
        return self.cost.estimate(speed, context, tokens_per_feed)


def look_at(name: str, dtype: Dtype | None) -> Look:
    """Read configuration, vocabulary and headers. Raises `CheckpointError` as loading would."""
    if is_transducer(name):
        raise CheckpointError(
            f"{name} is a small transducer and no Voxtral checkpoint; say: vrt decode FILE --model"
            f" {name}"
        )
    found = open_checkpoint(name)
    where = str(found.directory)
    shapes = {key: tuple(t.shape) for key, t in skeleton(found.config).state_dict().items()}
    used = fit(found.tensors.headers, found.config, found.layout, shapes, where)
    chosen = found.dtype(used) if dtype is None else getattr(torch, dtype.value)
    files = shards(found.directory, WEIGHTS_STEM[found.layout])
    disk_bytes = sum(file.stat().st_size for file in files)
    return Look(name, found, chosen, cost(found.config, chosen), disk_bytes)


def forecast(look: Look, tokens_per_feed: int) -> str:
    """What a run on this CPU will cost, in one line, from speeds measured now (half a second)."""
    speed = measure_speed(look.dtype, torch.get_num_threads())
    estimate = look.estimate(speed, None, tokens_per_feed)
    factor, best = estimate.real_time_factor, estimate.best_real_time_factor
    verdict = "it cannot keep up with speech" if factor > 1 else "it keeps up with speech"
    return (
        f"{look.name}: {bytes_text(look.weight_bytes)} of weights; expected real-time factor "
        f"{factor:.2g} on {speed.threads} thread{'s' * (speed.threads > 1)}, at best {best:.2g} "
        f"({verdict})"
    )
