"""Predictor and joint back into NeMo's files: a state dict, or a `.nemo` archive.

An archive of these two alone serves `RNNTDecoder` and `RNNTJoint`; one on the `base` of a whole
model's archive keeps that one's encoder and settings, and NeMo restores it as a whole.
"""

import hashlib
import io
import json
import os
import re
import tarfile
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vrt.rnnt.model import Transducer, TransducerConfig
from vrt.rnnt.weights.checkpoint import CONFIG, WEIGHTS
from vrt.rnnt.weights.fit import JOINT_OUT
from vrt.rnnt.weights.members import Members, WeightsError
from vrt.rnnt.weights.tensors import read_torch

# Characters that JSON may have as they are and YAML may not, or takes for the end of a line.
NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
MODULES = "nemo.collections.asr.modules."
MODELS = "nemo.collections.asr.models."


def state_dict_nemo(model: Transducer) -> dict[str, Tensor]:
    """The weights under NeMo's names; memory is shared. NeMo counts its layers, so the joint's
    output is `joint_net.2` where its dropout is not 0, else `joint_net.1`."""
    layer = 2 if model.config.joint_dropout else 1
    named = model.state_dict().items()
    return {JOINT_OUT.sub(rf"\g<1>{layer}\2", name): tensor.detach() for name, tensor in named}


def settings_nemo(config: TransducerConfig) -> dict[str, Any]:
    """The part of a `model_config.yaml` from which NeMo builds `RNNTDecoder` and `RNNTJoint`."""
    widths = {"encoder_hidden": config.encoder_width, "pred_hidden": config.predictor_width}
    settings = {
        "model_defaults": {
            "enc_hidden": config.encoder_width,
            "pred_hidden": config.predictor_width,
            "joint_hidden": config.joint_width,
        },
        "decoder": {
            "_target_": f"{MODULES}RNNTDecoder",
            "normalization_mode": None,
            "random_state_sampling": False,
            "blank_as_pad": True,
            "vocab_size": config.blank,
            "prednet": {
                "pred_hidden": config.predictor_width,
                "pred_rnn_layers": config.predictor_layers,
                "dropout": config.predictor_dropout,
            },
        },
        "joint": {
            "_target_": f"{MODULES}RNNTJoint",
            "log_softmax": None,
            "num_classes": config.blank,
            "num_extra_outputs": len(config.durations),
            "jointnet": widths
            | {
                "joint_hidden": config.joint_width,
                "activation": config.activation,
                "dropout": config.joint_dropout,
            },
        },
    }
    if config.durations:
        frames = list(config.durations)
        settings["model_defaults"] |= {"tdt_durations": frames, "num_tdt_durations": len(frames)}
        settings["loss"] = {"loss_name": "tdt", "tdt_kwargs": {"durations": frames}}
        settings["decoding"] = {"model_type": "tdt", "durations": frames}
    return settings


def save_nemo(
    model: Transducer,
    path: str | PathLike[str],
    base: str | PathLike[str] | None = None,
) -> None:
    """Write a `.nemo` archive: beside its place first, then moved there.

    With `base`, an archive or folder of a whole model, all of that one but the weights of predictor
    and joint is kept.

    Raises:
        WeightsError: the base is damaged, or has a predictor or joint of other names or shapes.
    """
    members = _on_base(model, Members.of(Path(base))) if base is not None else _alone(model)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f"{target.name}.tmp")
    with tarfile.open(beside, "w:") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    os.replace(beside, target)


def _alone(model: Transducer) -> dict[str, bytes]:
    settings, members = settings_nemo(model.config), {}
    words = model.vocabulary
    kind = "rnnt_models.EncDecRNNTModel"
    if words is not None:
        settings["labels"] = list(words.pieces)
        settings["joint"]["vocabulary"] = list(words.pieces)
        if words.model is not None:
            kind = "rnnt_bpe_models.EncDecRNNTBPEModel"
            name = f"{hashlib.sha256(words.model).hexdigest()[:32]}_tokenizer.model"
            members[name] = words.model
            settings["tokenizer"] = {"type": "bpe", "dir": "", "model_path": f"nemo:{name}"}
    settings["target"] = f"{MODELS}{kind}"
    # JSON is YAML in which every string stands in quotes: none can be taken for a number.
    text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    text = NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    weights = {name: tensor.cpu() for name, tensor in state_dict_nemo(model).items()}
    return {CONFIG: text.encode(), WEIGHTS: _torch_bytes(weights)} | members


def _on_base(model: Transducer, base: Members) -> dict[str, bytes]:
    with base.open(WEIGHTS) as file:
        weights = read_torch(file, f"{base.path}, {WEIGHTS}")
    ours = model.state_dict()
    theirs = {
        name: JOINT_OUT.sub(r"\g<1>2\2", name)
        for name in weights
        if name.startswith(("decoder.", "joint."))
    }
    shapes = {name: tuple(weights[name].shape) for name in theirs}
    wrong = sorted(set(ours) ^ set(theirs.values())) or [
        name for name, our in theirs.items() if shapes[name] != tuple(ours[our].shape)
    ]
    if wrong:
        raise WeightsError(
            f"{base.path} has another predictor or joint ({', '.join(wrong[:4])}); give the base"
            " that this model was loaded from, or none"
        )
    for name, our in theirs.items():
        weights[name] = ours[our].detach().to(device="cpu", dtype=weights[name].dtype)
    return {name: base.read(name) for name in base.names if name != WEIGHTS} | {
        WEIGHTS: _torch_bytes(weights)
    }


def _torch_bytes(weights: dict[str, Tensor]) -> bytes:
    buffer = io.BytesIO()
    torch.save(weights, buffer)
    return buffer.getvalue()
