"""Do these tensors make a transducer, and which? All that is wrong with them, in one error.

V classes with blank last, H predictor width, L LSTM layers, J joint width, E encoder width. Sizes
are those that the tensors have; settings say only what no shape tells.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from vrt.rnnt.model import Transducer, TransducerConfig
from vrt.rnnt.weights.members import WeightsError
from vrt.rnnt.weights.settings import Settings

SHOWN = 4  # names of each kind that an error lists
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
EMBED = "decoder.prediction.embed.weight"
LSTM = "decoder.prediction.dec_rnn.lstm."
JOINT_OUT = re.compile(r"(joint\.joint_net\.)(?:1|2)(\.(?:weight|bias))")
UNSTATED_DROPOUT = 0.2  # NeMo's usual one, where only the name joint_net.2 says that there is some


@dataclass(frozen=True)
class Stated:
    """What no shape tells."""

    activation: str = "relu"
    durations: tuple[int, ...] = ()
    predictor_dropout: float = 0.0
    joint_dropout: float = 0.0

    @classmethod
    def of(cls, settings: Settings) -> "Stated":
        return cls(
            str(settings.get("joint.jointnet.activation", "relu")).lower(),
            durations(settings),
            settings.number("decoder.prednet.dropout", 0.0),
            settings.number("joint.jointnet.dropout", 0.0),
        )


def durations(settings: Settings) -> tuple[int, ...]:
    """Of a TDT model, from where NeMo takes them; none of any other."""
    if settings.get("loss.loss_name", "tdt") != "tdt":
        return ()
    places = ("loss.tdt_kwargs.durations", "model_defaults.tdt_durations", "decoding.durations")
    return next((found for place in places if (found := settings.frames(place))), ())


def refuse_unsupported(settings: Settings) -> None:
    """Kinds of models that NeMo has and this package has not, by name."""
    where, loss = settings.where, str(settings.get("loss.loss_name", ""))
    kinds = {"decoder": "RNNTDecoder", "joint": "RNNTJoint"}
    for part, wanted in kinds.items():
        if settings.get(part) is None:
            raise WeightsError(f"{where} has no {part}: this is no transducer (RNN-T or TDT)")
        kind = str(settings.get(f"{part}._target_", wanted)).split(".")[-1]
        if kind not in (wanted, f"Sampled{wanted}"):
            raise WeightsError(
                f"{where}: {part}._target_ is {kind}; only {wanted} is known here"
                " (a stateless decoder and a CTC decoder are not)"
            )
    if loss == "multiblank_rnnt" or settings.get("loss.multiblank_rnnt_kwargs"):
        raise WeightsError(
            f"{where} is of a multi-blank model ({loss}); its big blanks need a search of their"
            " own: use NeMo's, or a model trained as RNN-T or TDT"
        )
    norm = settings.get("decoder.normalization_mode")
    if norm is not None:
        raise WeightsError(
            f"{where}: decoder.normalization_mode is {norm!r}; only an LSTM without normalization"
            " is known here"
        )
    if settings.get("decoder.blank_as_pad", True) is not True:
        raise WeightsError(
            f"{where}: decoder.blank_as_pad is false, which NeMo's batched searches refuse too;"
            f" append a row of zeros to {EMBED} and set it to true"
        )


def config_of(tensors: Mapping[str, Tensor], stated: Stated, where: str) -> TransducerConfig:
    """Sizes from shapes.

    Raises:
        WeightsError: a tensor that tells a size is missing or has not two axes, or the joint has
            other outputs than classes and durations.
    """
    vocab, width = _sizes(tensors, EMBED, where)
    joint_width, encoder_width = _sizes(tensors, "joint.enc.weight", where)
    out = next((n for n in tensors if JOINT_OUT.fullmatch(n) and n.endswith("weight")), None)
    outputs, _ = _sizes(tensors, out or "joint.joint_net.2.weight", where)
    layers = sum(name.startswith(f"{LSTM}weight_ih_l") for name in tensors)
    extra = outputs - vocab
    if extra != len(stated.durations):
        raise WeightsError(
            f"{where}: the joint has {outputs} outputs for {vocab} classes (blank included) and"
            f" {len(stated.durations)} durations; "
            + (
                "a TDT model needs its durations, in model_config.yaml or by"
                " config=TransducerConfig(...); a multi-blank model is not known here"
                if extra > 0
                else "these weights are of two models"
            )
        )
    dropout = stated.joint_dropout
    if out is not None and "joint_net.2." in out and not dropout:
        dropout = UNSTATED_DROPOUT
    try:
        return TransducerConfig(
            vocab,
            encoder_width,
            width,
            max(layers, 1),
            joint_width,
            stated.activation,
            stated.durations,
            stated.predictor_dropout,
            dropout if out is None or "joint_net.2." in out else 0.0,
        )
    except ValueError as error:
        raise WeightsError(f"{where}: {error}") from error


def _sizes(tensors: Mapping[str, Tensor], name: str, where: str) -> tuple[int, int]:
    if name not in tensors:
        held = _some(list(tensors)) or "none of decoder. or joint."
        raise WeightsError(f"{where} has no {name}: this is no RNN-T of NeMo's (it has {held})")
    if tensors[name].ndim != 2:
        raise WeightsError(f"{where}: {name} is {list(tensors[name].shape)}, two axes wanted")
    return tuple(tensors[name].shape)


def fitted(
    tensors: Mapping[str, Tensor], config: TransducerConfig, where: str
) -> dict[str, Tensor]:
    """The tensors under our names, none missing and none left over.

    Raises:
        WeightsError: lists the missing, the unexpected, those of another shape or of a dtype that
            weights cannot have, and those that hold NaN or infinity.
    """
    with torch.device("meta"):
        wanted = {name: tuple(p.shape) for name, p in Transducer(config).state_dict().items()}
    ours = {JOINT_OUT.sub(r"\g<1>2\2", name): tensor for name, tensor in tensors.items()}
    both = [name for name in ours if name in wanted]
    floats = [name for name in both if ours[name].dtype in DTYPES]
    complaints = {
        "missing": [name for name in wanted if name not in ours],
        "unexpected (a projected or normalized LSTM, or adapters, are not known here)": [
            name for name in ours if name not in wanted
        ],
        "of another shape": [
            f"{name} {list(ours[name].shape)} for {list(wanted[name])}"
            for name in both
            if tuple(ours[name].shape) != wanted[name]
        ],
        "of a dtype other than fp32, fp16, bf16, fp64": [
            f"{name} {ours[name].dtype}" for name in both if name not in floats
        ],
        "with NaN or infinity": [n for n in floats if not torch.isfinite(ours[n]).all()],
    }
    lines = [f"  {len(of)} {kind}: {_some(of)}" for kind, of in complaints.items() if of]
    if lines:
        raise WeightsError(
            f"{where}: not the tensors of a transducer of {config.vocab} classes, widths"
            f" {config.predictor_width} and {config.joint_width}\n" + "\n".join(lines)
        )
    return ours


def common_dtype(tensors: Mapping[str, Tensor], where: str) -> torch.dtype:
    """The one dtype of all tensors; of several none is chosen here."""
    found = {str(tensor.dtype): tensor.dtype for tensor in tensors.values()}
    if len(found) > 1:
        raise WeightsError(
            f"{where}: weights of {len(found)} dtypes ({', '.join(sorted(found))}); choose one,"
            " such as dtype=torch.float32"
        )
    return next(iter(found.values()))


def usable_dtype(dtype: torch.dtype) -> torch.dtype:
    if dtype not in DTYPES:
        raise WeightsError(f"dtype {dtype}: weights are one of {', '.join(map(str, DTYPES))}")
    return dtype


def _some(items: list[str]) -> str:
    more = len(items) - SHOWN
    return ", ".join(items[:SHOWN]) + (f" and {more} more" if more > 0 else "")
