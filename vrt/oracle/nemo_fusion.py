"""NeMo's own boosting tree and n-gram, in the shape in which vrt's search takes fusion models.

R rows, V classes with blank last. `vrt.oracle.nemo.reference` runs them in NeMo's own search.
"""

from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import torch
from jaxtyping import Float, Int64
from nemo.collections.asr.parts.context_biasing.boosting_graph_batched import GPUBoostingTreeModel
from nemo.collections.asr.parts.context_biasing.context_graph_universal import ContextGraph
from nemo.collections.asr.parts.submodules.ngram_lm import NGramGPULanguageModel
from torch import Tensor


@dataclass(frozen=True)
class NemoFusion:
    """A fusion model whose states and scores are NeMo's; its PyTorch path, which runs on CPUs."""

    model: NGramGPULanguageModel

    @property
    def labels(self) -> int:
        return self.model.vocab_size

    def start(self, rows: int) -> Int64[Tensor, "R"]:
        return self.model.get_init_states(batch_size=rows, bos=True)

    @torch.no_grad()
    def advance(
        self, states: Int64[Tensor, "R"]
    ) -> tuple[Float[Tensor, "R labels"], Int64[Tensor, "R labels"]]:
        return self.model.advance(states=states)


def nemo_boosting_tree(
    phrases: Sequence[Sequence[int]],
    labels: int,
    *,
    context_score: float = 1.0,
    depth_scaling: float = 2.0,
    unk_score: float = 0.0,
    uniform_weights: bool = False,
    scores: Sequence[float] | None = None,
) -> NemoFusion:
    """Parameters as `BoostingTree.from_phrases` has them; phrases are added in the order given."""
    context = ContextGraph(context_score=context_score, depth_scaling=depth_scaling)
    context.build(
        token_ids=[list(phrase) for phrase in phrases],
        scores=None if scores is None else list(scores),
        uniform_weights=uniform_weights,
    )
    tree = GPUBoostingTreeModel.from_context_graph(
        context_graph=context,
        vocab_size=labels,
        unk_score=unk_score,
        final_eos_score=0.0,
        use_triton=False,
        uniform_weights=uniform_weights,
    )
    return NemoFusion(tree)


def nemo_ngram(
    path: str | Path, labels: int, *, token_offset: int = 100, normalize_unk: bool = True
) -> NemoFusion:
    """Parameters as `Ngram.from_nemo_arpa` has them."""
    with redirect_stderr(StringIO()):  # progress bars
        model = NGramGPULanguageModel.from_arpa(
            path,
            vocab_size=labels,
            normalize_unk=normalize_unk,
            use_triton=False,
            token_offset=token_offset,
        )
    return NemoFusion(model)
