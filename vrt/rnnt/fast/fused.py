"""What fusion models say after each prefix, kept by the same row numbers as the predictor.

C rows kept, R rows asked for, V classes with blank last.
"""

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from vrt.rnnt.config import BeamConfig
from vrt.rnnt.fusion import fused


class FusionRows:
    """A fusion model's state depends on the labels alone, as the predictor's does."""

    def __init__(self, config: BeamConfig, rows: int, dtype: torch.dtype):
        self.config, self.dtype = config, dtype
        said = [
            part.model.advance(part.model.start(1)) for part in config.fusion
        ]  # [1, V - 1] scores, and states after each label
        self._scores = self._summed([scores for scores, _ in said]).repeat(rows, 1)
        self._following = [following.repeat(rows, 1) for _, following in said]

    def compute(
        self,
        rows: Int64[np.ndarray, "n"],
        parents: Int64[np.ndarray, "n"],
        labels: Int64[np.ndarray, "n"],
    ) -> None:
        """As `Rows.compute`."""
        index, source, label = (torch.from_numpy(part) for part in (rows, parents, labels))
        said = []
        for part, following in zip(self.config.fusion, self._following, strict=True):
            scores, after = part.model.advance(following[source, label])
            following[index] = after
            said.append(scores)
        self._scores[index] = self._summed(said)

    def joined(
        self, log_probs: Float[Tensor, "R V"], rows: Int64[np.ndarray, "R"]
    ) -> Float[Tensor, "R V"]:
        """Log-probabilities with the fusion scores of these rows in them."""
        scores, config = self._scores[torch.from_numpy(rows)], self.config
        both = fused(log_probs[None], scores[None], config.alpha_sum, config.blank_lm_score_mode)
        return both[0]

    def _summed(self, said: list[Float[Tensor, "n labels"]]) -> Float[Tensor, "n labels"]:
        parts = zip(self.config.fusion, said, strict=True)
        return sum(scores.to(self.dtype) * part.alpha for part, scores in parts)
