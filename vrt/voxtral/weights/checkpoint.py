"""A checkpoint folder, read but not loaded: its layout, sizes, tensors and vocabulary.

Two layouts are known: config.json with model.safetensors (Hugging Face), and params.json with
consolidated.safetensors (Mistral). Either may lie in shards, and either may have a tekken.json.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path

import torch

from vrt.paths import data_dir
from vrt.voxtral.config import VoxtralConfig
from vrt.voxtral.tokenizer import BOS, EOS, STREAMING_PAD, STREAMING_WORD, Tokenizer
from vrt.voxtral.weights.config_files import CheckpointError, read_json
from vrt.voxtral.weights.fit import common_dtype
from vrt.voxtral.weights.hf_config import config_from_hf
from vrt.voxtral.weights.mistral_config import config_from_params
from vrt.voxtral.weights.names import Layout, Name
from vrt.voxtral.weights.tensor_files import Tensors, open_tensors

CONFIG_FILE = {Layout.HF: "config.json", Layout.MISTRAL: "params.json"}
WEIGHTS_STEM = {Layout.HF: "model", Layout.MISTRAL: "consolidated"}
TIED = {Layout.HF: "tie_word_embeddings", Layout.MISTRAL: "tied_embeddings"}
VOCABULARY = "tekken.json"


@dataclass(frozen=True)
class Checkpoint:
    """What a folder holds.

    `tied`: logits are computed with the embeddings, as the config says. `computed_in`: the dtype
    that config.json names, if it names one.
    """

    directory: Path
    layout: Layout
    config: VoxtralConfig
    tied: bool
    tokenizer: Tokenizer | None  # None: the folder has no tekken.json, transcripts are ids only
    computed_in: str | None

    @cached_property
    def tensors(self) -> Tensors:
        return open_tensors(self.directory, WEIGHTS_STEM[self.layout])

    def dtype(self, used: Mapping[str, Name]) -> torch.dtype:
        """What the weights are computed in where nobody says otherwise: the files' one dtype.

        float16 files whose config.json says float32 are a small model stored in half the room:
        they are computed in float32, as transformers does.
        """
        stored = common_dtype(self.tensors.headers, used, str(self.directory))
        widened = stored == torch.float16 and self.computed_in == "float32"
        return torch.float32 if widened else stored


def open_checkpoint(path_or_name: str | PathLike[str]) -> Checkpoint:
    """Read a folder's configuration and vocabulary; no weights yet.

    A name without a folder of that name means a small model that comes with this package.
    Raises `CheckpointError` (or `TokenizerError`) naming the file and the way out.
    """
    directory = _directory(path_or_name)
    layout = _layout(directory)
    file = directory / CONFIG_FILE[layout]
    content = read_json(file)
    read = {Layout.HF: config_from_hf, Layout.MISTRAL: config_from_params}[layout]
    config = read(content, str(file))
    vocabulary = directory / VOCABULARY
    tokenizer = Tokenizer(vocabulary) if vocabulary.is_file() else None
    if tokenizer:
        config = with_vocabulary(config, tokenizer, layout)
    tied = bool(content.get(TIED[layout], True))
    computed_in = content.get("dtype", content.get("torch_dtype"))
    return Checkpoint(directory, layout, config, tied, tokenizer, computed_in)


def shipped_models() -> list[str]:
    """Names of the small models that come with this package."""
    folder = data_dir() / "models"
    return sorted(path.parent.name for path in folder.glob("*/config.json"))


def with_vocabulary(config: VoxtralConfig, tokenizer: Tokenizer, layout: Layout) -> VoxtralConfig:
    """Prompt ids and paddings as the vocabulary has them: the reference builds its prompt from it.

    params.json says neither delay nor EOS, config.json says both.
    """
    if len(tokenizer) < config.decoder.vocab:
        raise CheckpointError(
            f"{tokenizer.path} has {len(tokenizer):,} ids and the model puts out"
            f" {config.decoder.vocab:,}; this vocabulary belongs to another model"
        )
    found = {
        "bos": tokenizer.special_id(BOS),
        "streaming_pad": tokenizer.special_id(STREAMING_PAD),
        "streaming_word": tokenizer.special_id(STREAMING_WORD),
        "left_pad_tokens": tokenizer.left_pad_tokens,
    }
    if layout is Layout.MISTRAL:
        found |= {"eos": tokenizer.special_id(EOS), "delay_tokens": tokenizer.delay_tokens}
    said = {key: value for key, value in found.items() if value is not None}
    try:
        return replace(config, **said)
    except ValueError as error:
        raise CheckpointError(f"{tokenizer.path}: {error}") from error


def _directory(path_or_name: str | PathLike[str]) -> Path:
    try:
        path = Path(path_or_name).expanduser()
    except RuntimeError as error:
        raise CheckpointError(f"{path_or_name}: there is no such user; give the folder") from error
    if path.is_dir():
        return path
    if path.is_file():
        raise CheckpointError(f"{path} is a file; give the folder that it lies in")
    if str(path_or_name) in shipped_models():
        return data_dir() / "models" / path
    raise CheckpointError(
        f"{path} is no folder and no model of this package ({', '.join(shipped_models())});"
        " give the folder that holds config.json or params.json (nothing is downloaded)"
    )


def _layout(directory: Path) -> Layout:
    """The released folder has both layouts: then the one whose weights are there."""
    described = [la for la in Layout if (directory / CONFIG_FILE[la]).is_file()]
    if not described:
        raise CheckpointError(
            f"{directory} is no checkpoint: it holds neither config.json (Hugging Face) nor"
            " params.json (Mistral)"
        )
    complete = [la for la in described if any(directory.glob(f"{WEIGHTS_STEM[la]}*.safetensors*"))]
    return (complete or described)[0]
