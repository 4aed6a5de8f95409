"""The search that `vrt decode` was asked for, over the utterances of one file."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from vrt.cli.decode_inputs import DecodeModel, InputError, Utterances
from vrt.rnnt.boosting import BoostingTree, tokenized
from vrt.rnnt.config import BeamConfig, BeamError, BlankScoreMode, Fusion
from vrt.rnnt.greedy import greedy
from vrt.rnnt.malsd import malsd
from vrt.rnnt.model import ModelScorer
from vrt.rnnt.nbest import Hypothesis, NBest
from vrt.rnnt.ngram import Ngram
from vrt.rnnt.trace import Trace
from vrt.rnnt.vocabulary import VocabularyError

# Encoder frames of a file from which the fast searches pay: they give equal results, and compile
# for some seconds once a process.
LONG = 600


@dataclass(frozen=True)
class Decoded:
    """The n-best list of each utterance of a file; `trace` holds the iterations of all of them."""

    source: str
    model: DecodeModel
    nbests: list[NBest]
    trace: Trace | None = None


@dataclass(frozen=True)
class Search:
    """`beam` None is greedy."""

    model: DecodeModel
    beam: int | None
    max_symbols: int
    score_norm: bool
    fusion: tuple[Fusion, ...]
    trace: bool

    def __post_init__(self) -> None:
        classes = self.model.transducer.config.vocab
        if self.beam is not None and self.beam > classes:
            raise InputError(
                f"--beam {self.beam}: {self.model.name} has {classes} classes, blank included; say"
                f" at most {classes}"
            )

    @property
    def blank_mode(self) -> BlankScoreMode:
        """Phrases that nobody says cost fewest words if blank is left alone; an n-gram deletes
        words unless blank is weighted too (see `BoostingTree`)."""
        ngram = any(isinstance(part.model, Ngram) for part in self.fusion)
        return "lm_weighted_full" if ngram else "no_score"

    def __call__(self, given: Utterances) -> Decoded:
        scorer = ModelScorer(self.model.transducer)
        frames = scorer.project(given.frames)
        line, beam = _searches(frames)
        if self.beam is None:
            found = line(scorer, frames, given.lengths, self.max_symbols)
            return Decoded(given.name, self.model, [NBest([one]) for one in found])
        config = BeamConfig(
            self.beam,
            self.max_symbols,
            self.score_norm,
            fusion=self.fusion,
            blank_lm_score_mode=self.blank_mode,
        )
        if self.trace:  # the clear search has every array of every iteration
            trace = Trace()
            nbests = malsd(scorer, frames, given.lengths, config, trace)
            return Decoded(given.name, self.model, nbests, trace)
        nbests = beam(scorer, frames, given.lengths, config)
        return Decoded(given.name, self.model, nbests)


def _searches(
    frames: Float[Tensor, "B T J"],
) -> tuple[Callable[..., list[Hypothesis]], Callable[..., list[NBest]]]:
    """Greedy and beam: the clear ones, or where there is enough to search the compiled ones."""
    if frames.shape[0] * frames.shape[1] < LONG:
        return greedy, malsd
    from vrt.rnnt.fast import fast_greedy, fast_malsd

    return fast_greedy, fast_malsd


def fusion(
    model: DecodeModel,
    phrases: Path | None,
    boost: float,
    lm: Path | None,
    lm_weight: float,
    nemo_arpa: bool,
) -> tuple[Fusion, ...]:
    """The models that join the transducer's scores."""
    for option, weight in (("--boost", boost), ("--lm-weight", lm_weight)):
        if not isfinite(weight):
            raise InputError(f"{option} {weight}: give a finite number")
    found = []
    if phrases is not None:
        found.append(Fusion(_boosting(model, phrases), boost))
    if lm is not None:
        found.append(Fusion(_ngram(model, lm, nemo_arpa), lm_weight))
    return tuple(found)


def _boosting(model: DecodeModel, file: Path) -> BoostingTree:
    vocabulary = model.transducer.vocabulary
    if vocabulary is None:
        raise InputError(f"{model.name} has no vocabulary, so {file} cannot be turned into labels")
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
        phrases = [line for line in lines if line]
        if not phrases:
            raise InputError(f"{file} holds no phrase; give one a line, or leave --phrases out")
        tokens = tokenized(phrases, vocabulary.tokens)
        return BoostingTree.from_phrases(tokens, model.transducer.config.blank)
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text: {error}") from error
    except (BeamError, VocabularyError) as error:
        raise InputError(f"{file}: {error}") from error


def _ngram(model: DecodeModel, file: Path, nemo: bool) -> Ngram:
    if nemo:
        return Ngram.from_nemo_arpa(file, model.transducer.config.blank)
    vocabulary = model.transducer.vocabulary
    if vocabulary is None:
        raise InputError(f"{model.name} has no vocabulary; an n-gram of ids needs --nemo-arpa")
    return Ngram.from_arpa(file, vocabulary.pieces)
