"""`vrt.load`: a model of either wing, by folder or by the name of one that vrt comes with."""

import json
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from vrt.paths import data_dir

if TYPE_CHECKING:
    import torch

    from vrt.rnnt.acoustic import AcousticTransducer
    from vrt.voxtral.model import VoxtralRealtime


def load(
    path_or_name: str | PathLike[str],
    *,
    device: "str | torch.device" = "cpu",
    dtype: "torch.dtype | None" = None,
) -> "VoxtralRealtime | AcousticTransducer":
    """A Voxtral Realtime checkpoint, in either of its layouts, or a small transducer of vrt.

    `dtype` None keeps the file's; a small transducer is computed in fp32 whatever is asked.

    Raises:
        CheckpointError, TokenizerError, WeightsError: naming the file and the way out.
    """
    if is_transducer(path_or_name):
        from vrt.rnnt.acoustic_files import load_acoustic

        return load_acoustic(folder_of(path_or_name)).to(device)
    from vrt.voxtral.weights import load as load_voxtral

    return load_voxtral(path_or_name, device=device, dtype=dtype)


def folder_of(path_or_name: str | PathLike[str]) -> Path:
    """A folder as it is given, else the one of that name among the package's models."""
    path = Path(path_or_name).expanduser()
    shipped = data_dir() / "models" / path
    return shipped if not path.exists() and len(path.parts) == 1 else path


def is_transducer(path_or_name: str | PathLike[str]) -> bool:
    """Whether the folder's `config.json` is that of a small transducer of vrt."""
    from vrt.rnnt.acoustic_files import CONFIG, KIND

    try:
        text = (folder_of(path_or_name) / CONFIG).read_text(encoding="utf-8")
        content = json.loads(text)
    except (OSError, ValueError, RuntimeError, RecursionError):
        return False  # whoever loads it says what is wrong
    return isinstance(content, dict) and content.get("model") == KIND
