"""What a package says of itself: the JSON under one key of its user-defined metadata.

K rows (beam slots), N candidates a row, V classes with blank, L LSTM layers, H predictor width,
J joint width, E encoder width, T encoder frames. A host finds here all that the shapes of a model
do not say: which class is blank, which axis is which, from which weights it was made.

Ports of the transducer kinds (int32 where said, else float32):

| kind | inputs | outputs |
|---|---|---|
| predictor | labels [K] int32, h_in, c_in [L, K, H] | predicted [K, J], h_out, c_out |
| joint | frames [K, J], predicted [K, J] | scores [K, N], ids [K, N] int32, blank_score [K] |
| fused | labels [K] int32, h_in, c_in, predicted_in [K, J], preserve [K] int32, frames [K, J] |
  scores, ids, blank_score, predicted_out, h_out, c_out |
| encoder-projection | encoded [1, E, 1, T] | projected [1, J, 1, T] |

`scores` are log-probabilities in falling order, `ids` their classes. `preserve` is 1 where a row
keeps its parent's state and output (blank, or a final hypothesis) and 0 where it is fed its label.
With tail `logits` the outputs scores, ids, blank_score are one: logits [K, V]. The kinds that
begin with `voxtral-` name their ports and axes in `functions`.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from vrt.coreml.errors import CoreMLError

METADATA_KEY = "vrt"
FORMAT = 1

Kind = Literal[
    "predictor",
    "joint",
    "fused",
    "encoder-projection",
    "voxtral-conv-stem",
    "voxtral-encoder-chunk",
    "voxtral-projector",
    "voxtral-decoder-step",
]
Precision = Literal["fp32", "fp16-body"]
LSTM = Literal["op", "unrolled"]
Tail = Literal["topk", "logits"]
Cache = Literal["explicit", "mlstate"]
DType = Literal["float32", "float16", "int32"]

WITH_BLANK = {"predictor", "joint", "fused"}  # kinds whose contract must name the blank class


@dataclass(frozen=True)
class Port:
    """One input, output or state: `axes` has a letter (or a number) an axis, as `L K H`."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    axes: str


@dataclass(frozen=True)
class FunctionContract:
    """One function of the package; a plain package has one, `main`."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    states: tuple[Port, ...] = ()


@dataclass(frozen=True)
class Contract:
    """`sizes` gives the letters of all axes that are the same in every function, as V, H, J.

    `source` names the model as `vrt coreml check --source` takes it; `source_digest` is
    `vrt.receipt.digest` of its state dict. What a kind has not is None: a predictor has no tail.
    """

    kind: Kind
    source: str
    source_digest: str
    vrt: str  # version that exported
    target: str  # minimum deployment target, as iOS17
    precision: Precision
    sizes: dict[str, int]
    functions: tuple[FunctionContract, ...]
    blank: int | None = None
    lstm: LSTM | None = None
    tail: Tail | None = None
    cache: Cache | None = None
    palettize_bits: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)  # delays, strides: what a host must know
    format: int = FORMAT

    @property
    def exact(self) -> bool:
        """float32 throughout: no weight, state or result is rounded to less."""
        return self.precision == "fp32" and self.cache != "mlstate" and self.palettize_bits is None

    def function(self, name: str) -> FunctionContract:
        for function in self.functions:
            if function.name == name:
                return function
        known = ", ".join(function.name for function in self.functions)
        raise CoreMLError(f"the contract has no function {name!r}; it has {known}")


def to_json(contract: Contract) -> str:
    """The text that goes under `METADATA_KEY`, the same for equal contracts."""
    return json.dumps(asdict(contract), sort_keys=True)


def from_json(text: str) -> Contract:
    """Raises `CoreMLError` for anything but a contract of this format."""
    try:
        values = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise CoreMLError(f"the metadata {METADATA_KEY!r} is no JSON: {error}") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        found = values.get("format") if isinstance(values, dict) else None
        raise CoreMLError(
            f"the metadata {METADATA_KEY!r} has format {found!r}, this vrt reads {FORMAT};"
            " export the package again"
        )
    _refuse_choices(values)
    try:
        functions = tuple(_function(f) for f in values.pop("functions"))
        contract = Contract(functions=functions, **values)
    except (TypeError, KeyError, AttributeError) as error:
        raise CoreMLError(
            f"the metadata {METADATA_KEY!r} is incomplete ({error}); export the package again"
        ) from None
    _refuse(contract)
    return contract


def _function(values: dict[str, Any]) -> FunctionContract:
    ports = {kind: tuple(map(_port, values[kind])) for kind in ("inputs", "outputs", "states")}
    return FunctionContract(values["name"], **ports)


def _port(values: dict[str, Any]) -> Port:
    return Port(values["name"], values["dtype"], tuple(values["shape"]), values["axes"])


CHOICES = {"kind": Kind, "precision": Precision, "lstm": LSTM, "tail": Tail, "cache": Cache}
NEEDED = {"kind", "precision"}


def _refuse_choices(values: dict[str, Any]) -> None:
    for name, choices in CHOICES.items():
        said, known = values.get(name), get_args(choices)
        if said not in known and (said is not None or name in NEEDED):
            raise CoreMLError(
                f"the metadata name the {name} {said!r}; known are {', '.join(known)}"
            )
    sizes = values.get("sizes")
    if not isinstance(sizes, dict) or not all(isinstance(n, int) for n in sizes.values()):
        raise CoreMLError(f"the metadata give no sizes, but {sizes!r}; export the package again")


def _refuse(contract: Contract) -> None:
    if not contract.functions:
        raise CoreMLError("the metadata lists no function; export the package again")
    if contract.kind in WITH_BLANK and not _is_class(contract.blank, contract.sizes.get("V")):
        raise CoreMLError(
            f"the metadata of a {contract.kind} names blank {contract.blank!r} of"
            f" V {contract.sizes.get('V')!r}; both must be there, 0 <= blank < V"
        )


def _is_class(blank: Any, vocab: Any) -> bool:
    return isinstance(blank, int) and isinstance(vocab, int) and 0 <= blank < vocab
