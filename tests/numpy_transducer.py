"""A predictor and a joint in numpy, float64, one label at a time: what `ModelScorer` must equal.

Written from the equations of the LSTM (gates in the order input, forget, cell, output) and of the
joint, not from the code under test.
"""

import numpy as np

ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class NumpyTransducer:
    """Frames are the encoder's output, not projected."""

    def __init__(self, model):
        self.weights = {n: t.double().numpy() for n, t in model.state_dict().items()}
        self.config = model.config
        self.known = {}

    def logits(self, prefix, frame):
        """Of all outputs after these labels at this frame; the start symbol is blank."""
        w, output = self.weights, self.output((self.config.blank, *prefix))
        f = w["joint.enc.weight"] @ frame + w["joint.enc.bias"]
        g = w["joint.pred.weight"] @ output + w["joint.pred.bias"]
        hidden = ACTIVATIONS[self.config.activation](f + g)
        return w["joint.joint_net.2.weight"] @ hidden + w["joint.joint_net.2.bias"]

    def log_probs(self, prefix, frame):
        row = self.logits(prefix, frame)
        return row - np.logaddexp.reduce(row)

    def output(self, labels):
        return self.state(labels)[-1][0]

    def state(self, labels):
        """(h, c) of each layer."""
        if labels not in self.known:
            zero = np.zeros(self.config.predictor_width)
            before = [(zero, zero)] * self.config.predictor_layers
            if len(labels) > 1:
                before = self.state(labels[:-1])
            x = self.weights["decoder.prediction.embed.weight"][labels[-1]]
            after = []
            for layer, (h, c) in enumerate(before):
                h, c = self.cell(layer, x, h, c)
                after.append((h, c))
                x = h
            self.known[labels] = after
        return self.known[labels]

    def cell(self, layer, x, h, c):
        name = "decoder.prediction.dec_rnn.lstm."
        w_ih, w_hh, b_ih, b_hh = (
            self.weights[f"{name}{kind}_l{layer}"]
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        enter, forget, cell, leave = np.split(w_ih @ x + b_ih + w_hh @ h + b_hh, 4)
        c = sigmoid(forget) * c + sigmoid(enter) * np.tanh(cell)
        return sigmoid(leave) * np.tanh(c), c
