"""A transducer's search side as graphs of fixed shape: K hypotheses in one call, never one by one.

K rows (hypotheses), V classes with blank last, H predictor width, J joint width, L LSTM layers,
E encoder width, T encoder frames. Both projections stand outside the joint: the encoder's is done
once an utterance, the predictor's once a label.
"""

from typing import Literal

import torch
from jaxtyping import Float, Int32
from torch import Tensor, nn

from vrt.coreml.errors import ExportError
from vrt.coreml.graphs import Graph, Port
from vrt.rnnt.joint import Joint
from vrt.rnnt.model import Transducer
from vrt.rnnt.predictor import Predictor

RNNT_GRAPHS = ("predictor", "joint", "fused", "encoder-projection")
Lstm = Literal["op", "unrolled"]
Tail = Literal["topk", "logits"]

# The tail's operations: none of these types occurs before the logits.
TAIL = frozenset(
    {"reduce_max", "sub", "exp", "reduce_sum", "log", "topk", "slice_by_index", "squeeze"}
)


class UnrolledLSTM(nn.Module):
    """One step of a torch LSTM as products and gates, for runtimes that place those better."""

    def __init__(self, lstm: nn.LSTM):
        super().__init__()
        self.lstm = lstm

    def forward(
        self, x: Float[Tensor, "one K H"], state: tuple[Tensor, Tensor]
    ) -> tuple[Float[Tensor, "one K H"], tuple[Tensor, Tensor]]:
        after_h, after_c, x = [], [], x[0]
        for layer in range(self.lstm.num_layers):
            w_in, w_rec, b_in, b_rec = self.lstm.all_weights[layer]
            gates = nn.functional.linear(x, w_in, b_in)
            gates = gates + nn.functional.linear(state[0][layer], w_rec, b_rec)
            i, f, g, o = gates.chunk(4, dim=-1)  # torch's order
            c = torch.sigmoid(f) * state[1][layer] + torch.sigmoid(i) * torch.tanh(g)
            x = torch.sigmoid(o) * torch.tanh(c)
            after_h.append(x)
            after_c.append(c)
        return x.unsqueeze(0), (torch.stack(after_h), torch.stack(after_c))


class PredictorGraph(nn.Module):
    """One label a row -> the predictor's output as the joint reads it, and its states."""

    def __init__(self, predictor: Predictor, joint: Joint, lstm: Lstm):
        super().__init__()
        self.embed, self.pred = predictor.prediction["embed"], joint.pred
        self.lstm = predictor.lstm if lstm == "op" else UnrolledLSTM(predictor.lstm)

    def forward(
        self, labels: Int32[Tensor, "K"], h: Float[Tensor, "L K H"], c: Float[Tensor, "L K H"]
    ) -> tuple[Float[Tensor, "K J"], Float[Tensor, "L K H"], Float[Tensor, "L K H"]]:
        out, (h, c) = self.lstm(self.embed(labels).unsqueeze(0), (h, c))
        return self.pred(out[0]), h, c


class JointGraph(nn.Module):
    """Projected frame and projected predictor -> logits, or the K best classes and blank."""

    def __init__(self, joint: Joint, blank: int, beam: int, tail: Tail):
        super().__init__()
        self.activation, self.output = joint.joint_net[0], joint.output
        self.tail = TopK(blank, beam) if tail == "topk" else nn.Identity()

    def forward(
        self, frames: Float[Tensor, "K J"], predicted: Float[Tensor, "K J"]
    ) -> tuple[Tensor, ...]:
        answer = self.tail(self.output(self.activation(frames + predicted)))
        return answer if isinstance(answer, tuple) else (answer,)


class TopK(nn.Module):
    """Log-softmax with the maximum taken off first, spelt out.

    torch's own becomes softmax and then log, where FP16 rounds every probability below 6e-8 to 0.
    The logarithm is taken before the K best are: scores stay log-probabilities.
    """

    def __init__(self, blank: int, beam: int):
        super().__init__()
        self.blank, self.beam = blank, beam

    def forward(
        self, logits: Float[Tensor, "K V"]
    ) -> tuple[Float[Tensor, "K k"], Int32[Tensor, "K k"], Float[Tensor, "K"]]:
        shifted = logits - logits.amax(dim=-1, keepdim=True)
        log_probs = shifted - torch.log(torch.exp(shifted).sum(dim=-1, keepdim=True))
        scores, ids = torch.topk(log_probs, self.beam, dim=-1)
        return scores, ids.to(torch.int32), log_probs[:, self.blank]


class FusedGraph(nn.Module):
    """Predictor, restore and joint in one call: one dispatch an iteration of the search.

    Rows with `preserve` 1 (blank, or a final hypothesis) keep the parent's state and output; their
    label is not read, but must be one: feed blank.
    """

    def __init__(self, predictor: PredictorGraph, joint: JointGraph):
        super().__init__()
        self.predictor, self.joint = predictor, joint

    def forward(
        self,
        labels: Int32[Tensor, "K"],
        h: Float[Tensor, "L K H"],
        c: Float[Tensor, "L K H"],
        predicted: Float[Tensor, "K J"],
        preserve: Int32[Tensor, "K"],
        frames: Float[Tensor, "K J"],
    ) -> tuple[Tensor, ...]:
        new, new_h, new_c = self.predictor(labels, h, c)
        keep = (preserve != 0).unsqueeze(-1)
        predicted = torch.where(keep, predicted, new)
        h, c = torch.where(keep, h, new_h), torch.where(keep, c, new_c)
        return *self.joint(frames, predicted), predicted, h, c


class EncoderProjection(nn.Module):
    """The joint's encoder side as a 1x1 convolution over [1, E, 1, T], the layout of the ANE."""

    def __init__(self, joint: Joint):
        super().__init__()
        self.weight, self.bias = joint.enc.weight, joint.enc.bias

    def forward(self, encoded: Float[Tensor, "1 E 1 T"]) -> tuple[Float[Tensor, "1 J 1 T"]]:
        return (nn.functional.conv2d(encoded, self.weight[:, :, None, None], self.bias),)


def rnnt_graph(
    name: str,
    transducer: Transducer,
    beam: int,
    *,
    lstm: Lstm = "op",
    tail: Tail = "topk",
    frames: int = 188,
) -> Graph:
    """One of `RNNT_GRAPHS` for K = `beam` hypotheses; `frames` is T of the encoder projection.

    Raises:
        ExportError: unknown graph, beam outside 1..V, T below 1, or a TDT model where its
            durations would be read as classes.
    """
    config = transducer.config
    if name not in RNNT_GRAPHS:
        raise ExportError(f"no graph {name!r} of an RNN-T; there are {', '.join(RNNT_GRAPHS)}")
    if not 1 <= beam <= config.vocab:
        raise ExportError(
            f"beam {beam} is outside 1..{config.vocab}, the classes of this model with blank"
        )
    if config.durations and name in ("joint", "fused"):
        raise ExportError(
            f"graph {name!r} of a TDT model with durations {config.durations}: its outputs are"
            " classes and durations, normalized apart, and no search here skips frames; export"
            " 'predictor' or 'encoder-projection', or an RNN-T"
        )
    if name == "encoder-projection":
        return _projection(transducer, frames)
    build = {"predictor": _predictor, "joint": _joint, "fused": _fused}[name]
    return build(transducer.eval(), beam, lstm, tail)


def _predictor(transducer: Transducer, beam: int, lstm: Lstm, tail: Tail) -> Graph:
    module = PredictorGraph(transducer.decoder, transducer.joint, lstm)
    labels, h, c, _, _, _ = _fed(transducer, beam)
    return Graph("predictor", module, (labels, h, c), _carried(transducer, beam), beam)


def _joint(transducer: Transducer, beam: int, lstm: Lstm, tail: Tail) -> Graph:
    module = JointGraph(transducer.joint, transducer.config.blank, beam, tail)
    _, _, _, predicted, _, frames = _fed(transducer, beam)
    answers = _scored(transducer, beam, tail)
    return Graph("joint", module, (frames, predicted), answers, beam, TAIL)


def _fused(transducer: Transducer, beam: int, lstm: Lstm, tail: Tail) -> Graph:
    module = FusedGraph(
        PredictorGraph(transducer.decoder, transducer.joint, lstm),
        JointGraph(transducer.joint, transducer.config.blank, beam, tail),
    )
    answers = _scored(transducer, beam, tail) + _carried(transducer, beam)
    return Graph("fused", module, _fed(transducer, beam), answers, beam, TAIL)


def _projection(transducer: Transducer, frames: int) -> Graph:
    config = transducer.config
    if frames < 1:
        raise ExportError(f"the encoder projection needs 1 frame or more, got {frames}")
    encoded = Port("encoded", (1, config.encoder_width, 1, frames), "1 E 1 T")
    projected = Port("frames", (1, config.joint_width, 1, frames), "1 J 1 T")
    module = EncoderProjection(transducer.joint)
    return Graph(
        "encoder-projection", module, (encoded,), (projected,), None, encoder_side=True
    )


def _fed(transducer: Transducer, beam: int) -> tuple[Port, ...]:
    config = transducer.config
    state = (config.predictor_layers, beam, config.predictor_width)
    row = (beam, config.joint_width)
    return (
        Port("labels", (beam,), "K", "int32", high=config.vocab),
        Port("h_in", state, "L K H", spread=0.5),
        Port("c_in", state, "L K H", spread=0.5),
        Port("predicted_in", row, "K J"),
        Port("preserve", (beam,), "K", "int32", high=2),
        Port("frames", row, "K J"),
    )


def _carried(transducer: Transducer, beam: int) -> tuple[Port, ...]:
    config = transducer.config
    state = (config.predictor_layers, beam, config.predictor_width)
    return (
        Port("predicted", (beam, config.joint_width), "K J"),
        Port("h_out", state, "L K H"),
        Port("c_out", state, "L K H"),
    )


def _scored(transducer: Transducer, beam: int, tail: Tail) -> tuple[Port, ...]:
    if tail == "logits":
        return (Port("logits", (beam, transducer.config.vocab), "K V"),)
    return (
        Port("scores", (beam, beam), "K k"),
        Port("ids", (beam, beam), "K k", "int32"),
        Port("blank_score", (beam,), "K"),
    )
