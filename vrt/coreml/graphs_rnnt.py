"""A transducer's search side as graphs of fixed shape: K hypotheses in one call, never one by one.

K rows (hypotheses), V classes with blank last, H predictor width, J joint width, L LSTM layers,
E encoder width, T encoder frames. Both projections stand outside the joint: the encoder's is done
once an utterance, the predictor's once a label.
"""

import torch
from jaxtyping import Float, Int32
from torch import Tensor, nn

from vrt.coreml.contract import LSTM, Port, Tail
from vrt.coreml.errors import CoreMLError
from vrt.coreml.graphs import Draw, Graph
from vrt.rnnt.joint import Joint
from vrt.rnnt.model import Transducer, TransducerConfig
from vrt.rnnt.predictor import Predictor

RNNT_KINDS = ("predictor", "joint", "fused", "encoder-projection")
UTTERANCE = 188  # encoder frames of 80 ms: 15 s

# The scores' tail begins with the maximum of the logits: from there on all stays FP32.
TAIL = frozenset({"reduce_max"})


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

    def __init__(self, predictor: Predictor, joint: Joint, lstm: LSTM):
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
    kind: str,
    transducer: Transducer,
    beam: int,
    *,
    lstm: LSTM = "op",
    tail: Tail = "topk",
    frames: int = UTTERANCE,
) -> Graph:
    """One of `RNNT_KINDS` for K = `beam` hypotheses; `frames` is T of the encoder projection.

    Raises:
        CoreMLError: unknown graph, beam outside 1..V, T below 1, or a TDT model where its
            durations would be read as classes.
    """
    config = transducer.config
    if kind not in RNNT_KINDS:
        raise CoreMLError(f"no graph {kind!r} of an RNN-T; there are {', '.join(RNNT_KINDS)}")
    if not 1 <= beam <= config.vocab:
        raise CoreMLError(
            f"beam {beam} is outside 1..{config.vocab}, the classes of this model with blank"
        )
    if frames < 1:
        raise CoreMLError(f"the encoder projection takes 1 frame or more, got {frames}")
    if config.durations and kind in ("joint", "fused"):
        raise CoreMLError(
            f"graph {kind!r} of a TDT model with durations {config.durations}: its outputs are"
            " classes and durations, normalized apart, and no search here skips frames; export"
            " 'predictor' or 'encoder-projection', or an RNN-T"
        )
    module = _module(kind, transducer.eval(), beam, lstm, tail)
    ports = _ports(config, beam, frames)
    sizes = {"K": beam, "L": config.predictor_layers, "H": config.predictor_width}
    sizes |= {"V": config.vocab, "J": config.joint_width, "E": config.encoder_width}
    carried = ["h_out", "c_out"]
    scored = ["logits"] if tail == "logits" else ["scores", "ids", "blank_score"]
    sides = {
        "predictor": (["labels", "h_in", "c_in"], ["predicted", *carried]),
        "joint": (["frames", "predicted"], scored),
        "fused": (
            ["labels", "h_in", "c_in", "predicted_in", "preserve", "frames"],
            [*scored, "predicted_out", *carried],
        ),
        "encoder-projection": (["encoded"], ["projected"]),
    }
    inputs, outputs = (tuple(ports[name] for name in side) for side in sides[kind])
    draws = {"labels": Draw(high=config.vocab), "h_in": Draw(0.5), "c_in": Draw(0.5)}
    return Graph(
        kind,
        module,
        inputs,
        outputs,
        sizes,
        draws,
        wide_from=TAIL,
        encoder_side=kind == "encoder-projection",
    )


def _module(kind: str, transducer: Transducer, beam: int, lstm: LSTM, tail: Tail) -> nn.Module:
    joint = transducer.joint
    if kind == "encoder-projection":
        return EncoderProjection(joint)
    predictor = PredictorGraph(transducer.decoder, joint, lstm)
    scores = JointGraph(joint, transducer.config.blank, beam, tail)
    return {"predictor": predictor, "joint": scores}.get(kind) or FusedGraph(predictor, scores)


def _ports(config: TransducerConfig, beam: int, frames: int) -> dict[str, Port]:
    """Every port of every kind, by name."""
    state = (config.predictor_layers, beam, config.predictor_width)
    row = (beam, config.joint_width)
    ports = [Port(name, "float32", state, "L K H") for name in ("h_in", "c_in", "h_out", "c_out")]
    ports += [
        Port(name, "float32", row, "K J")
        for name in ("frames", "predicted", "predicted_in", "predicted_out")
    ]
    ports += [Port(name, "int32", (beam,), "K") for name in ("labels", "preserve")]
    ports += [
        Port("scores", "float32", (beam, beam), "K N"),
        Port("ids", "int32", (beam, beam), "K N"),
        Port("blank_score", "float32", (beam,), "K"),
        Port("logits", "float32", (beam, config.vocab), "K V"),
        Port("encoded", "float32", (1, config.encoder_width, 1, frames), "1 E 1 T"),
        Port("projected", "float32", (1, config.joint_width, 1, frames), "1 J 1 T"),
    ]
    return {port.name: port for port in ports}
