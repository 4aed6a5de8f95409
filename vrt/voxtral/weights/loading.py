"""Weights into a model and out of it: by name, all complaints at once, no second copy.

The model is built without memory and takes the tensors of its files as they lie there, mapped. Only
what must change is copied: another dtype, another device, and the q and k rows of Mistral files.
"""

from collections.abc import Mapping
from os import PathLike

import torch
from jaxtyping import Float
from torch import Tensor

from vrt.voxtral.config import VoxtralConfig
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.weights.checkpoint import Checkpoint, open_checkpoint
from vrt.voxtral.weights.config_files import CheckpointError
from vrt.voxtral.weights.fit import DTYPES, common_dtype, fit
from vrt.voxtral.weights.names import OUTPUT_MATRIX, Layout, Name, names
from vrt.voxtral.weights.tensor_files import Header, Tensors


def load(
    path_or_name: str | PathLike[str],
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = None,
) -> VoxtralRealtime:
    """The model of a checkpoint folder, or one of this package's small models by name.

    `dtype` None keeps the files' (float16 files whose config.json says float32 are computed in
    that). On a CPU in the files' dtype the weights stay mapped: do not rewrite the files in place
    while the model is in use.

    Raises `CheckpointError` for a folder that is no usable checkpoint; tensors that are missing,
    unexpected or wrongly shaped are listed together. ValueError for a dtype or a device that is
    not there.
    """
    return load_checkpoint(open_checkpoint(path_or_name), device=device, dtype=dtype)


def load_checkpoint(
    found: Checkpoint,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = None,
) -> VoxtralRealtime:
    """`load`, of a folder that is already read."""
    if dtype is not None and dtype not in DTYPES.values():
        raise ValueError(
            f"dtype {dtype}: weights are one of {', '.join(map(str, DTYPES.values()))}"
        )
    device = _usable(device)
    where = str(found.directory)
    model = skeleton(found.config)
    used = _fit(model, found.tensors, found.layout, where)
    _check_output_matrix(found.tensors, used, found.layout, found.tied, where)
    dtype = dtype or found.dtype(used)
    weights = {}
    for given, name in used.items():
        tensor = found.tensors.get(given)
        if found.layout is Layout.MISTRAL and name.rotary_heads:
            tensor = half_split(tensor, name.rotary_heads)
        weights[name.ours] = tensor.to(device=device, dtype=dtype)
    model.tokenizer = found.tokenizer
    return _assign(model, weights)


def from_tensors(config: VoxtralConfig, tensors: Mapping[str, Tensor]) -> VoxtralRealtime:
    """A model of tensors under the names that transformers has in memory; it shares their memory.

    Raises `CheckpointError` as `load` does.
    """
    words = {dtype: word for word, dtype in DTYPES.items()}
    headers = {
        name: Header(tuple(t.shape), words.get(t.dtype, str(t.dtype)))
        for name, t in tensors.items()
    }
    source = Tensors(headers, tensors.__getitem__)
    model = skeleton(config)
    used = _fit(model, source, Layout.HF, "from_tensors")
    _check_output_matrix(source, used, Layout.HF, True, "from_tensors")
    common_dtype(headers, used, "from_tensors")
    return _assign(model, {name.ours: tensors[given] for given, name in used.items()})


def state_dict_hf(model: VoxtralRealtime) -> dict[str, Tensor]:
    """The weights under the names that transformers has in memory; memory is shared."""
    ours = model.state_dict()
    return {name.hf: ours[name.ours] for name in names(model.config)}


def skeleton(config: VoxtralConfig) -> VoxtralRealtime:
    """A model whose parameters have shapes and no memory."""
    with torch.device("meta"):
        return VoxtralRealtime(config)


def half_split(rows: Float[Tensor, "rows *inputs"], heads: int) -> Float[Tensor, "rows *inputs"]:
    """Rows of q or k, or q's bias, from interleaved rotary pairs to half-split ones; a copy."""
    pairs = rows.unflatten(0, (heads, -1, 2))  # [heads, K / 2, 2, ...]
    return pairs.transpose(1, 2).reshape(rows.shape)


def _usable(device: str | torch.device) -> torch.device:
    """Raises ValueError for a device that torch does not know or this machine does not have."""
    usable = ["cpu"]
    if torch.accelerator.is_available():
        kind = torch.accelerator.current_accelerator().type
        usable += [f"{kind}:{n}" for n in range(torch.accelerator.device_count())]
    try:
        found = torch.device(device)
    except RuntimeError:
        found = None
    if found is None or not {str(found), f"{found}:0"} & {*usable, "cpu:0"}:
        raise ValueError(f"device {device!r}: this machine has {', '.join(usable)}")
    return found


def _fit(model: VoxtralRealtime, source: Tensors, layout: Layout, where: str) -> dict[str, Name]:
    shapes = {name: tuple(t.shape) for name, t in model.state_dict().items()}
    return fit(source.headers, model.config, layout, shapes, where)


def _assign(model: VoxtralRealtime, weights: dict[str, Tensor]) -> VoxtralRealtime:
    model.load_state_dict(weights, strict=True, assign=True)
    return model.requires_grad_(False).eval()


def _check_output_matrix(
    source: Tensors, used: Mapping[str, Name], layout: Layout, tied: bool, where: str
) -> None:
    """The engine's logits use the embeddings: a file may hold a copy of them, not another matrix.

    transformers, too, uses an output matrix that differs from the embeddings whatever the
    configuration says.
    """
    embed = next(given for given, name in used.items() if name.ours == "decoder.embed.weight")
    copies = [given for given in OUTPUT_MATRIX[layout] if given in source.headers]
    if not tied and not copies:
        raise CheckpointError(
            f"{where}: the configuration asks for an output matrix of its own (embeddings not"
            " tied), which this engine does not have, and the file holds none"
        )
    for given in copies:
        same = source.headers[given] == source.headers[embed]
        if not same or not torch.equal(source.get(given), source.get(embed)):
            raise CheckpointError(
                f"{where}: {given} differs from {embed}; this engine computes logits with the"
                " embeddings (tied), and would put out other tokens"
            )
