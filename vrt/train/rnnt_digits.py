"""Training of `digits-rnnt`: a small transducer that spells strings of digits.

B utterances, n samples (16 kHz), T mel frames (10 ms), S encoder frames (40 ms), E encoder
width, U characters.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from vrt.rnnt.acoustic import FLUSH_SAMPLES, FRAME_SAMPLES, AcousticConfig, AcousticTransducer
from vrt.rnnt.encoder import SUBSAMPLING, EncoderConfig
from vrt.rnnt.front import MEL_BINS
from vrt.rnnt.model import TransducerConfig
from vrt.train.corpus import WORDS, Corpus
from vrt.train.loss import transducer_loss
from vrt.train.progress import Progress
from vrt.train.schedule import learning_rate
from vrt.train.strings import LONGEST, NOTHING, Drawer, Example, Recipe, varied_mel

UNKNOWN = -100  # the class of frames in the first half of a clip
LABELS = tuple(sorted({*" ".join(WORDS)}))  # 15 letters and the space


@dataclass(frozen=True)
class Plan:
    """Everything that decides the weights; the same plan on one machine gives the same bytes."""

    steps: int = 4000
    seed: int = 1
    width: int = 160
    layers: int = 3
    predictor_width: int = 128
    joint_width: int = 128
    dropout: float = 0.1
    batch: int = 32  # utterances at most
    batch_digits: int = 80  # digits at most
    peak: float = 2e-3  # learning rate
    warm_up: int = 100  # steps
    easy: float = 0.12  # share of the steps with 1 to 3 digits
    helper: float = 5.0  # weight of the helper loss at the first step
    helped: float = 0.6  # share of the steps over which it falls to 0
    clip: float = 5.0  # of the gradient's norm
    weight_decay: float = 0.01
    recipe: Recipe = field(default_factory=Recipe)

    def config(self) -> AcousticConfig:
        return AcousticConfig(
            EncoderConfig(MEL_BINS, (16, 32), self.width, self.layers, self.dropout),
            TransducerConfig(
                vocab=len(LABELS) + 1,
                encoder_width=self.width,
                predictor_width=self.predictor_width,
                predictor_layers=1,
                joint_width=self.joint_width,
                predictor_dropout=self.dropout,
            ),
            LABELS,
        )


@dataclass(frozen=True)
class Batch:
    """Padded examples; frames and lengths say what is real."""

    mel: Float[Tensor, "B T M"]
    frames: Int64[Tensor, "B"]  # encoder frames
    labels: Int64[Tensor, "B U"]
    lengths: Int64[Tensor, "B"]
    classes: Int64[Tensor, "B S"]  # digit of each encoder frame, NOTHING, or UNKNOWN


def train(corpus: Corpus, plan: Plan, tell: Callable[[str], None]) -> AcousticTransducer:
    """The trained model, in evaluation mode; `tell` gets a line of progress now and then.

    One thread and torch's deterministic algorithms while it runs.
    """
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    try:
        return _train(corpus, plan, tell)
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(strict)


def _train(corpus: Corpus, plan: Plan, tell: Callable[[str], None]) -> AcousticTransducer:
    torch.manual_seed(plan.seed)  # weights and dropout
    model = AcousticTransducer(plan.config()).train()
    helper = nn.Linear(plan.width, NOTHING + 1)  # thrown away in the end
    weights = [*model.parameters(), *helper.parameters()]
    other = [*corpus.train_sentences(), *corpus.misc_sentences()]
    drawer = Drawer.of(corpus.train(), other, plan.recipe)
    optimizer = torch.optim.AdamW(
        weights, lr=plan.peak, betas=(0.9, 0.98), weight_decay=plan.weight_decay
    )
    progress = Progress(plan.steps, tell)
    for step in range(plan.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, plan.steps, plan.peak, plan.warm_up)
        batch = draw_batch(model, drawer, plan, step)
        frames = encoded(model, batch)
        loss = batch_loss(model, frames, batch)
        share = plan.helper * max(0.0, 1 - step / (plan.helped * plan.steps))
        optimizer.zero_grad(set_to_none=True)
        (loss + share * helper_loss(helper, frames, batch)).backward()
        torch.nn.utils.clip_grad_norm_(weights, plan.clip)
        optimizer.step()
        progress.step(loss.item())
    return model.eval()


def draw_batch(model: AcousticTransducer, drawer: Drawer, plan: Plan, step: int) -> Batch:
    """The examples of one step; all strings of a batch have the same number of digits."""
    rng = np.random.default_rng([plan.seed, step])
    longest = 3 if step < plan.easy * plan.steps else LONGEST
    count = int(rng.integers(1, longest + 1))
    size = min(plan.batch, plan.batch_digits // count)
    return collate(model, [drawer.draw(rng, count) for _ in range(size)], rng, plan.recipe)


@torch.no_grad()
def collate(
    model: AcousticTransducer, examples: list[Example], rng: np.random.Generator, recipe: Recipe
) -> Batch:
    """Log-mels of each example and the silence that `encode` puts behind it, varied, padded."""
    silence = model.front.silence
    mels = []
    for example in examples:
        samples = np.pad(example.samples, (0, FLUSH_SAMPLES))
        mels.append(varied_mel(model.front(torch.from_numpy(samples)), rng, recipe, silence))
    spell = model.transducer.vocabulary.tokens
    texts = [torch.tensor(spell(example.text), dtype=torch.int64) for example in examples]
    counts = [len(mel) // SUBSAMPLING for mel in mels]
    classes = [frame_classes(e, count) for e, count in zip(examples, counts, strict=True)]
    pad = torch.nn.utils.rnn.pad_sequence
    return Batch(
        pad(mels, batch_first=True, padding_value=silence),
        torch.tensor(counts),
        pad(texts, batch_first=True),
        torch.tensor([len(text) for text in texts]),
        pad(classes, batch_first=True, padding_value=UNKNOWN),
    )


def frame_classes(example: Example, count: int) -> Int64[Tensor, "S"]:
    """What is being said at the middle of each of `count` encoder frames."""
    classes = torch.full((count,), NOTHING)
    middles = (torch.arange(count) + 0.5) * FRAME_SAMPLES
    for first, end, value in example.spans:
        classes[(middles >= first) & (middles < end)] = UNKNOWN
        classes[(middles >= (first + end) / 2) & (middles < end)] = value
    return classes


def encoded(model: AcousticTransducer, batch: Batch) -> Float[Tensor, "B S E"]:
    state = model.encoder.initial(len(batch.mel), model.front.silence)
    return model.encoder(batch.mel, state)[0]


def helper_loss(
    helper: nn.Linear, frames: Float[Tensor, "B S E"], batch: Batch
) -> Float[Tensor, ""]:
    """Mean over encoder frames of the cross-entropy of their classes, in nats.

    Without it the predictor learns to spell first, and the encoder is not asked for a long time.
    """
    logits = helper(frames).flatten(0, 1)
    return nn.functional.cross_entropy(logits, batch.classes.flatten(), ignore_index=UNKNOWN)


def batch_loss(
    model: AcousticTransducer, frames: Float[Tensor, "B S E"], batch: Batch
) -> Float[Tensor, ""]:
    """Mean over utterances of the transducer loss, in nats."""
    start = torch.full((len(frames), 1), model.transducer.config.blank)
    said, _ = model.transducer.decoder(torch.cat([start, batch.labels], 1))
    joint = model.transducer.joint
    logits = joint.joint(
        joint.project_encoder(frames).unsqueeze(2), joint.project_predictor(said).unsqueeze(1)
    )
    return transducer_loss(logits, batch.labels, batch.frames, batch.lengths).mean()
