"""Weights and their files: names in both layouts, loading, saving, small models."""

from vrt.voxtral.weights.loading import (
    from_tensors,
    half_split,
    load,
    load_checkpoint,
    skeleton,
    state_dict_hf,
)

__all__ = ["from_tensors", "half_split", "load", "load_checkpoint", "skeleton", "state_dict_hf"]
