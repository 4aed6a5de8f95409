"""Training of `digits-voxtral`: a small Voxtral Realtime that writes the digits it hears.

B streams, N positions (80 ms), F encoder frames (20 ms), D encoder width, V vocabulary.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from vrt.train.corpus import Digit, Sentence
from vrt.train.progress import Progress
from vrt.train.schedule import learning_rate
from vrt.train.voxtral_batches import NO_DIGIT, Batch, batch_of
from vrt.train.voxtral_forward import decode_stream, encode_streams, project
from vrt.train.voxtral_spelling import VOCAB
from vrt.train.voxtral_streams import Recipe, StreamMaker
from vrt.train.voxtral_targets import IGNORED
from vrt.voxtral.config import DecoderConfig, EncoderConfig, VoxtralConfig
from vrt.voxtral.decoder import DecoderAttention
from vrt.voxtral.encoder import EncoderAttention
from vrt.voxtral.layers import SwiGLU
from vrt.voxtral.model import VoxtralRealtime

LOOKS = 6  # at the averaged model in a stage
CONFIG = VoxtralConfig(
    encoder=EncoderConfig(width=128, layers=4, heads=4, head_dim=32, ff=384, window=64),
    # 96 tokens are 7.7 s: the longest prompt is 63.
    decoder=DecoderConfig(
        width=128, layers=2, heads=4, kv_heads=2, head_dim=32, ff=384, window=96, vocab=VOCAB
    ),
)


@dataclass(frozen=True)
class Stage:
    """So many steps on streams of one recipe, the learning rate up and down once."""

    steps: int
    recipe: Recipe
    peak: float = 2e-3  # learning rate
    warm_up: int = 80  # steps
    easy: float = 0.06  # share of the steps with digits only
    helped: float = 0.6  # share of the steps over which the helper loss fades


STAGES = (
    Stage(1800, Recipe()),
    Stage(
        *(1000, Recipe(digits=0.74, noise_db=(2.0, 28.0), flat=4, between=0.5)),
        *(1e-3, 40, 0.0, 0.3),
    ),
    Stage(
        *(1200, Recipe(digits=0.74, noise_db=(2.0, 28.0), flat=4, between=0.7)),
        *(1e-3, 40, 0.0, 0.0),
    ),
)


@dataclass(frozen=True)
class Plan:
    """Everything that decides the weights; the same plan on one machine gives the same bytes."""

    stages: tuple[Stage, ...] = STAGES
    seed: int = 1
    streams: int = 10  # in a step
    slots: int = 112  # of 80 ms in a stream: with the left pad longer than the decoder's window
    pad_weight: float = 0.4  # of a pad in the loss; words and EOS weigh 1
    dropout: float = 0.12  # of what a layer adds
    clip: float = 1.0  # of the gradient's norm
    weight_decay: float = 0.03
    average: float = 0.99  # of the weights that are kept, a step
    last: float = 0.25  # share of the last stage's weights in the end; the rest are the former's
    config: VoxtralConfig = field(default=CONFIG)


Look = Callable[[int, VoxtralRealtime], None]


def train(
    digits: list[Digit],
    sentences: list[Sentence],
    plan: Plan,
    tell: Callable[[str], None],
    look: Look | None = None,
) -> VoxtralRealtime:
    """The model of `ended` after all stages, on one thread and by deterministic algorithms.

    Each stage begins with the averaged weights of the one before it, rounded to float16 as they
    are stored. `look` is shown the averaged model some times on the way, and may not change it.
    """

    def stage(before: VoxtralRealtime | None, number: int) -> VoxtralRealtime:
        return train_stage(before, digits, sentences, plan, number, tell, look)

    return in_stages(plan, stage)


def in_stages(
    plan: Plan, stage: Callable[[VoxtralRealtime | None, int], VoxtralRealtime]
) -> VoxtralRealtime:
    """The model of `ended`, from `stage`, which is given what the stage before it gave."""
    models: list[VoxtralRealtime] = []
    for number in range(len(plan.stages)):
        models.append(stage(models[-1] if models else None, number))
    return ended(models, plan.last)


@torch.no_grad()
def ended(models: list[VoxtralRealtime], last: float) -> VoxtralRealtime:
    """Between the ends of the last two stages, rounded to float16 as they are stored.

    A later stage hears more voices right and other speech worse; on the line between both the
    losses need not add up (Wortsman and others, "Robust fine-tuning of zero-shot models", 2022).
    """
    model = deepcopy(models[-1])
    if len(models) > 1:
        for weight, before in zip(model.parameters(), models[-2].parameters(), strict=True):
            weight.copy_(torch.lerp(before, weight, last))
    return model.half().float()


def train_stage(
    model: VoxtralRealtime | None,
    digits: list[Digit],
    sentences: list[Sentence],
    plan: Plan,
    number: int,
    tell: Callable[[str], None],
    look: Look | None,
) -> VoxtralRealtime:
    """Stage `number` of the plan, from what the stage before gave; the first begins with None."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.manual_seed(plan.seed + number)
    stage = plan.stages[number]
    model = initial(plan.config) if model is None else deepcopy(model)
    helper = nn.Linear(plan.config.encoder.width, NO_DIGIT + 1)
    average = deepcopy(model).requires_grad_(False)
    drops = dropped(model.requires_grad_(True), plan.dropout)
    optimizer = _optimizer(model, helper, plan)
    chance = np.random.default_rng([plan.seed, 2 * number])
    maker = StreamMaker(digits, sentences, plan.slots, stage.recipe, chance)
    progress = Progress(stage.steps, tell)
    for step in range(stage.steps):
        rng = np.random.default_rng([plan.seed, 2 * number + 1, step])
        easy = step < stage.easy * stage.steps
        streams = [maker.make(rng, digits_only=easy) for _ in range(plan.streams)]
        batch = batch_of(streams, model.log_mel, plan.config, rng)
        helped = stage.helped * stage.steps
        help_weight = 0.5 * (1 - step / helped) if step < helped else 0.0
        loss = losses(model, helper, batch, plan, help_weight)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), plan.clip)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, stage.steps, stage.peak, stage.warm_up)
        optimizer.step()
        _follow(average, model, min(plan.average, (1 + step) / (10 + step)))
        progress.step(loss.item())
        if look and (step + 1) % max(1, stage.steps // LOOKS) == 0:
            look(step + 1, average)
    for drop in drops:
        drop.remove()
    return average.half().float().eval()


def initial(config: VoxtralConfig) -> VoxtralRealtime:
    """Random weights: what a layer adds is small, norms are 1, biases 0, all tokens quiet."""
    model = VoxtralRealtime(config)
    for name, weight in model.named_parameters():
        if "norm" in name:
            continue
        if name.endswith("bias"):
            nn.init.zeros_(weight)
            continue
        std = 0.1 if "embed" in name else weight[0].numel() ** -0.5
        adds = any(part in name for part in ("attention.o.", "mlp.down.", "ada.linear2."))
        nn.init.normal_(weight, std=std * (0.4 if adds else 1))
    return model


def dropped(model: VoxtralRealtime, share: float) -> list[torch.utils.hooks.RemovableHandle]:
    """Dropout on what attention and MLP add; the engine's modules have none of their own."""
    kinds = (EncoderAttention, DecoderAttention, SwiGLU)
    return [
        module.register_forward_hook(lambda _module, _inputs, out: F.dropout(out, share))
        for module in model.modules()
        if isinstance(module, kinds)
    ]


def losses(
    model: VoxtralRealtime, helper: nn.Linear, batch: Batch, plan: Plan, help_weight: float
) -> Float[Tensor, ""]:
    """Cross entropy of the tokens, and of each frame's digit as long as that helps."""
    # On a CPU the fused attention's gradient in bf16 is five times as slow as the plain one.
    with torch.autocast("cpu", torch.bfloat16), sdpa_kernel(SDPBackend.MATH):
        frames = encode_streams(model, batch.mels)
        audio = project(model, frames)
        rows = zip(batch.inputs, audio.repeat_interleave(2, 0), batch.delays, strict=True)
        logits = torch.stack([decode_stream(model.decoder, *row) for row in rows])
        heard = helper(frames) if help_weight else None
    loss = token_loss(logits.float(), batch.labels, plan)
    if heard is not None:
        classes = batch.classes.flatten()
        loss = loss + help_weight * F.cross_entropy(heard.float().flatten(0, 1), classes)
    return loss


def token_loss(
    logits: Float[Tensor, "twoB N V"], labels: Int[Tensor, "twoB N"], plan: Plan
) -> Float[Tensor, ""]:
    """Weighted mean over all positions with a label."""
    each = F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="none"
    )
    pads = labels.flatten() == plan.config.streaming_pad
    weights = torch.where(pads, plan.pad_weight, 1.0) * (labels.flatten() != IGNORED)
    return (each * weights).sum() / weights.sum()


def _optimizer(model: VoxtralRealtime, helper: nn.Linear, plan: Plan) -> torch.optim.AdamW:
    """Weight decay on matrices only."""
    weights = [*model.parameters(), *helper.parameters()]
    groups = [
        {"params": [w for w in weights if w.dim() > 1], "weight_decay": plan.weight_decay},
        {"params": [w for w in weights if w.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, betas=(0.9, 0.98))


@torch.no_grad()
def _follow(average: VoxtralRealtime, model: VoxtralRealtime, keep: float) -> None:
    """Let the averaged weights come nearer to the model's."""
    kept, new = list(average.parameters()), list(model.parameters())
    torch._foreach_lerp_(kept, new, 1 - keep)
