"""Do these tensors make this model? All that is wrong with them, in one error."""

from collections import Counter
from collections.abc import Mapping

import torch

from vrt.voxtral.config import VoxtralConfig
from vrt.voxtral.weights.config_files import CheckpointError
from vrt.voxtral.weights.names import OUTPUT_MATRIX, Layout, Name, spellings
from vrt.voxtral.weights.tensor_files import Header

SHOWN = 4  # names of each kind that an error lists
DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


def fit(
    headers: Mapping[str, Header],
    config: VoxtralConfig,
    layout: Layout,
    shapes: Mapping[str, tuple[int, ...]],
    where: str,
) -> dict[str, Name]:
    """The given name of every tensor of the model, once each. `shapes` are by our names.

    Raises `CheckpointError` that lists the missing, the unexpected, those given under two names,
    those of another shape, and those of a dtype that weights cannot have.
    """
    known = spellings(config, layout)
    used = {given: known[given] for given in headers if given in known}
    times = Counter(name.ours for name in used.values())
    extra = [given for given in headers if given not in known]
    complaints = {
        "missing": [
            _spelling(name, layout)
            for name in dict.fromkeys(known.values())
            if not times[name.ours]
        ],
        "unexpected": [given for given in extra if given not in OUTPUT_MATRIX[layout]],
        "given twice": [given for given, name in used.items() if times[name.ours] > 1],
        "of another shape": [
            f"{given} {list(headers[given].shape)} for {list(shapes[name.ours])}"
            for given, name in used.items()
            if headers[given].shape != shapes[name.ours]
        ],
        f"of a dtype other than {', '.join(DTYPES)}": [
            f"{given} {headers[given].dtype}"
            for given in used
            if headers[given].dtype not in DTYPES
        ],
    }
    lines = [f"  {len(of)} {kind}: {_some(of)}" for kind, of in complaints.items() if of]
    if lines:
        raise CheckpointError(
            f"{where}: not the tensors of the model that its configuration describes"
            f" ({layout.value} names)\n" + "\n".join(lines)
        )
    return used


def common_dtype(
    headers: Mapping[str, Header], used: Mapping[str, Name], where: str
) -> torch.dtype:
    """The one dtype of all tensors.

    A file of several is refused: any choice rounds some weights or widens the others, and both
    change what the model says and costs.
    """
    counts = Counter(headers[given].dtype for given in used)
    if len(counts) > 1:
        raise CheckpointError(
            f"{where}: tensors of {len(counts)} dtypes ({dict(counts.most_common())}); choose one:"
            f" load(..., dtype={DTYPES[counts.most_common(1)[0][0]]})"
        )
    return DTYPES[next(iter(counts))]


def _spelling(name: Name, layout: Layout) -> str:
    return name.hf_file if layout is Layout.HF else name.mistral


def _some(items: list[str]) -> str:
    more = len(items) - SHOWN
    return ", ".join(items[:SHOWN]) + (f" and {more} more" if more > 0 else "")
