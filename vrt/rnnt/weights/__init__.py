"""Weights of a transducer and their files: NeMo's archives and state dicts, both ways."""

from vrt.rnnt.weights.checkpoint import Checkpoint, from_tensors, load, open_checkpoint
from vrt.rnnt.weights.members import WeightsError
from vrt.rnnt.weights.saving import save_nemo, settings_nemo, state_dict_nemo

__all__ = [
    "Checkpoint",
    "WeightsError",
    "from_tensors",
    "load",
    "open_checkpoint",
    "save_nemo",
    "settings_nemo",
    "state_dict_nemo",
]
