"""The joint network: one encoder frame and one predictor output, in; scores of all classes, out.

E encoder width, H predictor width, J joint width, V classes with blank last and, in a TDT model,
its durations after them. Both projections stand apart, so that each is computed once. Parameters
have the names that NeMo gives them below `joint.`.
"""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

Activation = Literal["relu", "tanh", "sigmoid"]
ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}


class Joint(nn.Module):
    """output(activation(enc(x) + pred(g))); `dropout` acts before the output, in training only."""

    def __init__(
        self,
        encoder_width: int,
        predictor_width: int,
        width: int,
        outputs: int,
        dropout: float = 0.0,
        activation: Activation = "relu",
    ):
        super().__init__()
        self.enc = nn.Linear(encoder_width, width)
        self.pred = nn.Linear(predictor_width, width)
        # The output's name is joint_net.2, as in NeMo where there is dropout.
        self.joint_net = nn.Sequential(
            ACTIVATIONS[activation](), nn.Dropout(dropout), nn.Linear(width, outputs)
        )

    @property
    def output(self) -> nn.Linear:
        """The last layer, [V, J] and a bias."""
        return self.joint_net[2]

    def project_encoder(self, x: Float[Tensor, "*rows E"]) -> Float[Tensor, "*rows J"]:
        return self.enc(x)

    def project_predictor(self, g: Float[Tensor, "*rows H"]) -> Float[Tensor, "*rows J"]:
        return self.pred(g)

    def joint(
        self, f: Float[Tensor, "*frames J"], g: Float[Tensor, "*rows J"]
    ) -> Float[Tensor, "*both V"]:
        """Logits of projected vectors. Leading axes broadcast: [B, T, 1, J] with [B, 1, U, J]
        gives [B, T, U, V]."""
        return self.joint_net(f + g)
