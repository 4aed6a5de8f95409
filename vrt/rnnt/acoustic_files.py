"""The folder of a small transducer: `config.json` and `model.safetensors`, written and read.

Weights are stored in fp16 and computed in fp32. Predictor and joint have NeMo's names.
"""

import json
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vrt.audio import SAMPLE_RATE
from vrt.rnnt import front
from vrt.rnnt.acoustic import FLUSH_SAMPLES, AcousticConfig, AcousticTransducer
from vrt.rnnt.encoder import SUBSAMPLING, EncoderConfig
from vrt.rnnt.model import TransducerConfig
from vrt.rnnt.weights.members import WeightsError
from vrt.rnnt.weights.tensors import read_safetensors

CONFIG, WEIGHTS = "config.json", "model.safetensors"
KIND = "vrt-acoustic-transducer"
FORMAT = 1
LARGEST, MOST_LAYERS = 65_536, 64  # of what a small transducer's file may ask for


def front_facts() -> dict[str, Any]:
    """The front end in numbers, for whoever writes it anew; a reader refuses others."""
    return {
        "sample_rate_hz": SAMPLE_RATE,
        "hop_samples": front.HOP,
        "window_samples": front.WINDOW,
        "window": "hann, symmetric, divided by the root of its energy",
        "fft": front.N_FFT,
        "mel_bins": front.MEL_BINS,
        "mel_scale": "2595 log10(1 + f / 700)",
        "band_hz": list(front.BAND),
        "filters": "triangles, each summing to 1 over the bins of the spectrum",
        "floor": front.FLOOR,
        "feature": f"(ln(power + floor) + {front.CENTRE:g}) / {front.SPREAD:g}",
        "mel_frames_per_encoder_frame": SUBSAMPLING,
        "flush_samples": FLUSH_SAMPLES,
    }


def stored(model: AcousticTransducer) -> dict[str, Tensor]:
    """All weights in fp16 under the names of the file."""
    parts = {f"encoder.{name}": value for name, value in model.encoder.state_dict().items()}
    tensors = parts | model.transducer.state_dict()
    return {name: value.to(torch.float16).contiguous() for name, value in tensors.items()}


def save_acoustic(model: AcousticTransducer, folder: str | PathLike[str]) -> Path:
    """Write both files; the same weights give the same bytes."""
    from safetensors.torch import save

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = model.config
    content = {
        "format": FORMAT,
        "model": KIND,
        "front": front_facts(),
        "encoder": asdict(config.encoder),
        "transducer": asdict(config.transducer),
        "labels": list(config.labels),
    }
    text = json.dumps(content, indent=2, ensure_ascii=False)
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")
    (folder / WEIGHTS).write_bytes(save(stored(model), metadata={"format": "pt"}))
    return folder


def load_acoustic(folder: str | PathLike[str]) -> AcousticTransducer:
    """A model in fp32 and evaluation mode.

    Raises:
        WeightsError: a file is missing or damaged, is for another kind of model or front end, or
            weights do not fit the sizes.
    """
    folder = Path(folder)
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise WeightsError(f"{folder} holds no {name}; it takes {CONFIG} and {WEIGHTS}")
    model = AcousticTransducer(_config(folder / CONFIG))
    held = read_safetensors(folder / WEIGHTS)
    tensors = {name: value.to(torch.float32) for name, value in held.items()}
    wanted = stored(model)
    missing, unknown = sorted(wanted.keys() - tensors), sorted(tensors.keys() - wanted)
    wrong = [n for n in wanted.keys() & tensors if wanted[n].shape != tensors[n].shape]
    if missing or unknown or wrong:
        raise WeightsError(
            f"{folder / WEIGHTS} does not fit {CONFIG}: missing {missing}, unknown {unknown}, of"
            f" another shape {sorted(wrong)}"
        )
    prefix = "encoder."
    encoder = {n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)}
    model.encoder.load_state_dict(encoder)
    rest = {name: value for name, value in tensors.items() if not name.startswith(prefix)}
    model.transducer.load_state_dict(rest)
    return model.eval()


def _refuse_sizes(path: Path, encoder: dict[str, Any], sizes: dict[str, Any]) -> None:
    """Before a module is built: a size of a billion would take the machine with it."""
    given = {f"encoder.{name}": encoder[name] for name in ("mel_bins", "width", "layers")}
    given |= {f"encoder.channels[{at}]": value for at, value in enumerate(encoder["channels"])}
    given |= {
        f"transducer.{name}": sizes[name]
        for name in ("vocab", "encoder_width", "predictor_width", "predictor_layers", "joint_width")
    }
    if len(encoder["channels"]) != 2:
        raise WeightsError(f"{path}: encoder.channels are {encoder['channels']}; two of them")
    for name, value in given.items():
        most = MOST_LAYERS if name.endswith("layers") else LARGEST
        if type(value) is not int or not 1 <= value <= most:
            raise WeightsError(f"{path}: {name} is {value!r}; a whole number of 1 to {most}")


def _config(path: Path) -> AcousticConfig:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise WeightsError(f"{path} is truncated or no JSON: {error}") from error
    kind = (content.get("model"), content.get("format")) if isinstance(content, dict) else None
    if kind != (KIND, FORMAT) or kind[1] is True:
        raise WeightsError(f"{path} is of kind {kind}; this reads {(KIND, FORMAT)}")
    if content.get("front") != front_facts():
        raise WeightsError(f"{path} was made for another front end than this version's")
    try:
        encoder = content["encoder"] | {"channels": tuple(content["encoder"]["channels"])}
        sizes = content["transducer"] | {"durations": tuple(content["transducer"]["durations"])}
        _refuse_sizes(path, encoder, sizes)
        return AcousticConfig(
            EncoderConfig(**encoder), TransducerConfig(**sizes), tuple(content["labels"])
        )
    except WeightsError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise WeightsError(f"{path}: {error!r} in its sizes") from error
