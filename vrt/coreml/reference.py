"""What torch answers to a package's inputs.

K rows, N candidates, V classes, T encoder frames. For a transducer by vrt's own predictor and
joint, not by the modules that were traced, so that a fault of those shows; for Voxtral by the
module that was traced, whose own test holds it to the engine.
"""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy import ndarray

from vrt.coreml.contract import Contract
from vrt.coreml.errors import CoreMLError
from vrt.coreml.golden_vectors import Arrays, Step
from vrt.coreml.graphs import Graph
from vrt.coreml.graphs_rnnt import rnnt_graph
from vrt.coreml.graphs_voxtral import voxtral_graph
from vrt.rnnt.model import Transducer
from vrt.rnnt.predictor import LSTMState
from vrt.rnnt.ties import top_k
from vrt.voxtral.model import VoxtralRealtime

Model = Transducer | VoxtralRealtime
Reference = Callable[[Mapping[str, ndarray]], Step]


def graph_of(contract: Contract, function: str, model: Model) -> Graph:
    """The graph that the package was made of.

    Raises `CoreMLError` for a model of the other family.
    """
    of_voxtral = contract.kind.startswith("voxtral-")
    if of_voxtral != isinstance(model, VoxtralRealtime):
        raise CoreMLError(f"the package is a {contract.kind}, the model a {type(model).__name__}")
    if isinstance(model, VoxtralRealtime):
        delay = contract.facts.get("delay_tokens")
        return voxtral_graph(contract.kind, model, delay=delay, cache=contract.cache or "explicit")
    rows, frames = (_length(contract, function, axis) for axis in ("K", "T"))
    return rnnt_graph(
        contract.kind,
        model,
        rows or 1,
        lstm=contract.lstm or "op",
        tail=contract.tail or "topk",
        frames=frames or 1,
    )


def reference(contract: Contract, function: str, model: Model) -> Reference:
    """One call: inputs to outputs and gaps. Of a graph with states it goes on from call to call."""
    if isinstance(model, Transducer):
        return lambda inputs: _rnnt(contract, function, model, inputs)
    graph = graph_of(contract, function, model)
    graph.reset()
    return lambda inputs: Step(dict(inputs), graph.run(inputs))


@torch.no_grad()
def _rnnt(
    contract: Contract, function: str, model: Transducer, inputs: Mapping[str, ndarray]
) -> Step:
    given = {name: torch.from_numpy(np.array(array)) for name, array in inputs.items()}
    answers: dict[str, torch.Tensor] = {}
    gaps: Arrays = {}
    joint = model.joint
    if contract.kind == "encoder-projection":
        rows = joint.project_encoder(given["encoded"][0, :, 0].T)
        answers["projected"] = rows.T[None, :, None]
    predicted = given.get("predicted")
    if "labels" in given:
        old = LSTMState(given["h_in"], given["c_in"])
        out, new = model.decoder.step(given["labels"].long(), old)
        predicted = joint.project_predictor(out)
        if contract.kind == "fused":
            keep = given["preserve"].bool().unsqueeze(-1)
            predicted = given["predicted_in"].where(keep, predicted)
            new = LSTMState(*(a.where(keep, b) for a, b in zip(old, new, strict=True)))
        name = "predicted_out" if contract.kind == "fused" else "predicted"
        answers |= {name: predicted, "h_out": new.h, "c_out": new.c}
    if "frames" in given:
        logits = joint.joint(given["frames"], predicted)
        if contract.tail == "logits":
            answers["logits"] = logits
        else:
            tail, gaps = _tail(logits, model.config.blank, _length(contract, function, "N") or 1)
            answers |= tail
    outputs = {port.name: answers[port.name].numpy() for port in _outputs(contract, function)}
    return Step(dict(inputs), outputs, gaps)


def _tail(logits: torch.Tensor, blank: int, count: int) -> tuple[dict[str, torch.Tensor], Arrays]:
    """The best, blank, and how far each of the best is from its nearest other class."""
    log_probs = logits.log_softmax(-1)
    scores, ids = top_k(log_probs, count, "lowest")
    ordered = log_probs.double().sort(dim=-1, descending=True).values
    ends = torch.full((len(ordered), 1), torch.inf)
    steps = torch.cat([ends, ordered[:, :-1] - ordered[:, 1:], ends], dim=-1)
    nearest = torch.minimum(steps[:, :-1], steps[:, 1:])[:, :count]
    answers = {"scores": scores, "ids": ids.int(), "blank_score": log_probs[:, blank]}
    return answers, {"ids": nearest.numpy()}


def _outputs(contract: Contract, function: str) -> tuple:
    return contract.function(function).outputs


def _length(contract: Contract, function: str, axis: str) -> int | None:
    """Of the first port that has this axis."""
    said = contract.function(function)
    for port in said.inputs + said.outputs:
        letters = port.axes.split()
        if axis in letters:
            return port.shape[letters.index(axis)]
    return None
