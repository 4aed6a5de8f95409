"""Which of two equal scores comes first: the one place where that is decided.

n candidates, k chosen.
"""

from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor


def top_k(
    values: Float[Tensor, "*rows n"], k: int, ties: Literal["lowest", "torch"]
) -> tuple[Float[Tensor, "*rows k"], Int64[Tensor, "*rows k"]]:
    """The k largest of each row in descending order, and where they stood.

    "torch" is `torch.topk`: not stable, and not the same on a CPU and a GPU.
    """
    if ties == "torch":
        values, index = torch.topk(values, k, dim=-1, largest=True, sorted=True)
        return values, index
    values, index = torch.sort(values, dim=-1, descending=True, stable=True)
    return values[..., :k], index[..., :k]


def descending(
    keys: Float[Tensor, "*rows n"], ties: Literal["lowest", "torch"]
) -> Int64[Tensor, "*rows n"]:
    """The order of each row from the largest key down."""
    return torch.sort(keys, dim=-1, descending=True, stable=ties == "lowest").indices
