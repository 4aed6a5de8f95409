"""Writing a small checkpoint in the Hugging Face layout, so that transformers loads it too."""

import json
import os
import shutil
from dataclasses import fields
from os import PathLike
from pathlib import Path

from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.weights.checkpoint import CONFIG_FILE, VOCABULARY, WEIGHTS_STEM, with_vocabulary
from vrt.voxtral.weights.hf_config import config_from_hf, config_to_hf
from vrt.voxtral.weights.names import Layout, names


def save(model: VoxtralRealtime, directory: str | PathLike[str]) -> None:
    """config.json, model.safetensors and, where the model has a vocabulary, tekken.json.

    The weights are written beside their place and then moved there, so that a model may be saved
    over the file that it is mapped from.

    Raises ValueError where the folder would be read back as another model: weights of several
    dtypes, or prompt ids and paddings that only a vocabulary can say and this one says otherwise.
    """
    dtypes = {str(parameter.dtype) for parameter in model.parameters()}
    if len(dtypes) > 1:
        raise ValueError(f"weights are of several dtypes: {', '.join(sorted(dtypes))}; use one")
    content = config_to_hf(model.config, dtypes.pop().removeprefix("torch."))
    _check_read_back(model, content)
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    _write_weights(model, target / f"{WEIGHTS_STEM[Layout.HF]}.safetensors")
    text = json.dumps(content, indent=2, sort_keys=True) + "\n"
    (target / CONFIG_FILE[Layout.HF]).write_text(text, encoding="utf-8")
    vocabulary = target / VOCABULARY
    if model.tokenizer and not (vocabulary.exists() and vocabulary.samefile(model.tokenizer.path)):
        shutil.copyfile(model.tokenizer.path, vocabulary)


def _check_read_back(model: VoxtralRealtime, content: dict) -> None:
    read = config_from_hf(content)
    if model.tokenizer:
        read = with_vocabulary(read, model.tokenizer, Layout.HF)
    different = [
        f"{field.name} {getattr(model.config, field.name)!r} (read back:"
        f" {getattr(read, field.name)!r})"
        for field in fields(read)
        if getattr(read, field.name) != getattr(model.config, field.name)
    ]
    if different:
        raise ValueError(
            f"this model would not be read back as it is: {'; '.join(different)};"
            " give it a vocabulary that says so"
        )


def _write_weights(model: VoxtralRealtime, path: Path) -> None:
    from safetensors.torch import save_file

    ours = model.state_dict()
    tensors = {name.hf_file: ours[name.ours].contiguous() for name in names(model.config)}
    beside = path.with_suffix(".tmp")
    save_file(tensors, beside, metadata={"format": "pt"})
    beside.chmod(0o644)  # save_file leaves it readable by its owner only
    os.replace(beside, path)
