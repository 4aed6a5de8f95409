"""The transducer loss: minus the log of the summed probability of all alignments, exactly.

B utterances, T encoder frames, U labels, N = U + 1 nodes a frame, V classes with blank last,
D = T + U anti-diagonals t + u = d. Source: Graves, Sequence Transduction with Recurrent Neural
Networks (2012), section 2.4; the derivative is by logits, through the softmax.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.autograd.function import once_differentiable


def transducer_loss(
    logits: Float[Tensor, "B T N V"],
    labels: Int64[Tensor, "B U"],
    frames: Int64[Tensor, "B"],
    lengths: Int64[Tensor, "B"],
) -> Float[Tensor, "B"]:
    """Per utterance -ln P(labels | frames), in nats. What lies past `frames` and `lengths` is not
    read and gets no gradient. The gradient has no second derivative.

    Raises:
        ValueError: shapes that do not fit, counts outside 1..T and 0..U, or a blank label.
    """
    _refuse(logits, labels, frames, lengths)
    return _Lattice.apply(logits, labels, frames, lengths)


def _refuse(logits: Tensor, labels: Tensor, frames: Tensor, lengths: Tensor) -> None:
    _, time, nodes, classes = logits.shape
    if nodes != labels.shape[1] + 1:
        raise ValueError(
            f"{nodes} nodes a frame do not fit {labels.shape[1]} labels: want one more"
        )
    if int(frames.min()) < 1 or int(frames.max()) > time:
        raise ValueError(f"frames {frames.tolist()} lie outside 1..{time}")
    if int(lengths.min()) < 0 or int(lengths.max()) >= nodes:
        raise ValueError(f"lengths {lengths.tolist()} lie outside 0..{nodes - 1}")
    real = torch.arange(nodes - 1, device=labels.device) < lengths.unsqueeze(1)
    wrong = labels[real & ((labels < 0) | (labels >= classes - 1))]
    if len(wrong):
        raise ValueError(f"label {int(wrong[0])} lies outside 0..{classes - 2} (blank is last)")


class _Lattice(torch.autograd.Function):
    """Forward and backward variables in one pass each, the gradient in closed form."""

    @staticmethod
    def forward(ctx, logits, labels, frames, lengths):  # noqa: ANN001, ANN205
        log_probs = logits.log_softmax(-1)
        blank, label = _moves(log_probs, labels, frames, lengths)
        alpha = _alphas(blank, label)
        beta = _betas(blank, label, frames, lengths)
        total = beta[:, 0, 0]
        ctx.save_for_backward(log_probs, labels, blank, label, alpha, beta)
        return -total

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):  # noqa: ANN001, ANN205
        log_probs, labels, blank, label, alpha, beta = ctx.saved_tensors
        return _gradient(log_probs, labels, blank, label, alpha, beta, upstream), None, None, None


NEVER = -1e30  # a log-probability of a move that does not exist; finite, so differences are too


def _moves(
    log_probs: Float[Tensor, "B T N V"],
    labels: Int64[Tensor, "B U"],
    frames: Int64[Tensor, "B"],
    lengths: Int64[Tensor, "B"],
) -> tuple[Float[Tensor, "B T N"], Float[Tensor, "B T N"]]:
    """Log-probability of blank and of the next label at each node; none outside the lattice."""
    _, time, nodes, _ = log_probs.shape
    t = torch.arange(time, device=labels.device).view(1, -1, 1)
    u = torch.arange(nodes, device=labels.device).view(1, 1, -1)
    inside = (t < frames.view(-1, 1, 1)) & (u <= lengths.view(-1, 1, 1))
    index = torch.nn.functional.pad(labels, (0, 1)).clamp(0, log_probs.shape[3] - 1)
    index = index.view(len(labels), 1, nodes, 1).expand(-1, time, -1, 1)
    label = log_probs.gather(3, index).squeeze(3)
    goes_on = inside & (u < lengths.view(-1, 1, 1))
    return log_probs[..., -1].where(inside, NEVER), label.where(goes_on, NEVER)


def _skewed(x: Float[Tensor, "B T N"]) -> Float[Tensor, "D B N"]:
    """Row d holds the nodes with t + u = d, at their u."""
    batch, time, nodes = x.shape
    skewed = x.new_full((batch, nodes, time + nodes), NEVER)
    skewed[:, :, :time] = x.transpose(1, 2)
    # Rows one shorter than stored: each row then begins one place later than the one before it.
    flat = skewed.flatten(1)[:, : nodes * (time + nodes - 1)]
    return flat.view(batch, nodes, time + nodes - 1).permute(2, 0, 1).contiguous()


def _straight(x: Float[Tensor, "D B N"], time: int) -> Float[Tensor, "B T N"]:
    """The inverse of `_skewed`."""
    _, batch, nodes = x.shape
    padded = torch.nn.functional.pad(x.permute(1, 2, 0).flatten(1), (0, nodes))
    return padded.view(batch, nodes, time + nodes)[:, :, :time].transpose(1, 2)


def _alphas(blank: Float[Tensor, "B T N"], label: Float[Tensor, "B T N"]) -> Float[Tensor, "B T N"]:
    """Log-probability of all paths from the start to each node."""
    skew_blank, skew_label = _skewed(blank), _skewed(label)
    rows = torch.full_like(skew_blank, NEVER)
    rows[0, :, 0] = 0.0
    for d in range(1, len(rows)):
        stay = rows[d - 1] + skew_blank[d - 1]
        up = rows[d - 1, :, :-1] + skew_label[d - 1, :, :-1]
        rows[d, :, 0] = stay[:, 0]
        rows[d, :, 1:] = torch.logaddexp(stay[:, 1:], up)
    return _straight(rows, blank.shape[1])


def _betas(
    blank: Float[Tensor, "B T N"],
    label: Float[Tensor, "B T N"],
    frames: Int64[Tensor, "B"],
    lengths: Int64[Tensor, "B"],
) -> Float[Tensor, "B T N"]:
    """Log-probability of all paths from each node to the end: the last blank included."""
    skew_blank, skew_label = _skewed(blank), _skewed(label)
    rows = torch.full_like(skew_blank, NEVER)
    batch = torch.arange(len(frames), device=blank.device)
    last = frames + lengths - 1  # anti-diagonal of each utterance's last node
    ends = torch.full_like(skew_blank, NEVER)
    ends[last, batch, lengths] = blank[batch, frames - 1, lengths]
    rows[-1] = ends[-1]
    for d in range(len(rows) - 2, -1, -1):
        stay = rows[d + 1] + skew_blank[d]
        up = rows[d + 1, :, 1:] + skew_label[d, :, :-1]
        row = torch.cat([torch.logaddexp(stay[:, :-1], up), stay[:, -1:]], 1)
        rows[d] = torch.logaddexp(row, ends[d])
    return _straight(rows, blank.shape[1])


def _gradient(
    log_probs: Float[Tensor, "B T N V"],
    labels: Int64[Tensor, "B U"],
    blank: Float[Tensor, "B T N"],
    label: Float[Tensor, "B T N"],
    alpha: Float[Tensor, "B T N"],
    beta: Float[Tensor, "B T N"],
    upstream: Float[Tensor, "B"],
) -> Float[Tensor, "B T N V"]:
    """d loss / d logits: softmax times the node's share of all paths, less each move's share."""
    time = blank.shape[1]
    total = beta[:, :1, :1]
    up = torch.nn.functional.pad(beta[:, :, 1:], (0, 1), value=NEVER)
    labelled = (alpha + label + up - total).exp()
    node = (alpha + beta - total).exp()
    # A path leaves a node by blank or by the label: so the blank's share is what is left.
    blanked = (node - labelled).clamp(min=0)
    scale = upstream.view(-1, 1, 1)
    gradient = log_probs.exp() * (node * scale).unsqueeze(3)
    gradient[..., -1] -= blanked * scale
    index = labels.clamp(0, log_probs.shape[3] - 1).unsqueeze(1).expand(-1, time, -1).unsqueeze(3)
    share = -(labelled[:, :, :-1] * scale).unsqueeze(3)
    gradient[:, :, :-1].scatter_add_(3, index, share)
    return gradient
