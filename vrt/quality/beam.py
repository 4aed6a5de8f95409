"""Greedy against beams of several widths, and what each setting of a beam does, on real speech.

Experiments 0 and 1: quality by width, and the work of each width counted. Then one change at a time
to the beam of 8: ranking, the cap on labels a frame, an n-gram over the characters, the ten words
as hotwords. Weights of fusion are fixed here and were not chosen on any of the sets.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vrt.quality.clips import SETS, Clip, encode, strings_of
from vrt.quality.counts import mean_work
from vrt.quality.runs import Request, recorded
from vrt.quality.scoring import difference, equal_share, errors_of, oracle_of, right_share
from vrt.quality.searches import Answer, Search, beam_search, greedy_search, run_over
from vrt.quality.spelling import TOKEN_OFFSET, WittenBell, digit_texts
from vrt.receipt import Receipt
from vrt.rnnt.acoustic import AcousticTransducer
from vrt.rnnt.acoustic_files import load_acoustic
from vrt.rnnt.boosting import BoostingTree, tokenized
from vrt.rnnt.config import BeamConfig, Fusion
from vrt.rnnt.model import ModelScorer
from vrt.rnnt.ngram import Ngram
from vrt.train.corpus import WORDS, Corpus
from vrt.train.evaluation import Errors

GREEDY = "greedy"
WIDTHS = (2, 3, 4, 8, 16)
BASE = BeamConfig(beam_size=8)
MAX_SYMBOLS = (1, 2, 3, 5)
LM_WEIGHTS = (0.2, 0.4)
BOOSTS = (0.25, 0.5, 1.0)  # what BoostingTree names as a place to start
LM_TEXTS, LM_SEED = 5000, 1


def run(request: Request, output: Path, tell: Callable[[str], None]) -> Receipt:
    """The receipt of `vrt quality beam`."""
    return recorded(request, lambda f, c: measure(load_acoustic(f), c, request, tell), output)


def measure(
    model: AcousticTransducer, corpus: Corpus, request: Request, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Numbers by set and arm."""
    numbers = {}
    for name in SETS:
        clips = encode(model, strings_of(corpus, name, request.strings))
        numbers[name] = compare(model, clips, lambda line, name=name: tell(f"{name}: {line}"))
    return numbers


def compare(
    model: AcousticTransducer, clips: Sequence[Clip], tell: Callable[[str], None]
) -> dict[str, Any]:
    """All arms on one set."""
    found: dict[str, list[Answer]] = {}
    errors: dict[str, Errors] = {}
    for name, search in arms(model):
        found[name] = run_over(search, clips)
        errors[name] = errors_of(model, clips, found[name])
        tell(f"{name} {errors[name].rate:.2f}%")
    frames = sum(len(clip.frames) for clip in clips) / len(clips)  # of 40 ms, flush included
    base, widest = (f"beam_{width}" for width in (BASE.beam_size, WIDTHS[-1]))
    return {
        name: errors[name].describe()
        | {
            "less_greedy": difference(errors[name], errors[GREEDY]),
            "less_beam_8": difference(errors[name], errors[base]),
            "strings_right": right_share(errors[name]),
            "equal_to_greedy": equal_share(answers, found[GREEDY]),
            "equal_to_widest": equal_share(answers, found[widest]),
            "oracle_wer_percent": oracle_of(model, clips, answers).rate,
            "empty": sum(not answer.tokens for answer in answers),
            "work_a_clip": mean_work([answer.work for answer in answers]) | {"frames": frames},
        }
        for name, answers in found.items()
    }


def arms(model: AcousticTransducer) -> Iterator[tuple[str, Search]]:
    """Greedy, the widths, then the variants of the beam of 8."""
    scorer = ModelScorer(model.transducer)
    yield GREEDY, greedy_search(scorer)
    for width in WIDTHS:
        yield f"beam_{width}", beam_search(scorer, replace(BASE, beam_size=width))
    for name, config in variants(model):
        yield name, beam_search(scorer, config)


def variants(model: AcousticTransducer) -> Iterator[tuple[str, BeamConfig]]:
    """One change each."""
    yield "beam_8_no_score_norm", replace(BASE, score_norm=False)
    for most in MAX_SYMBOLS:
        yield f"beam_8_max_symbols_{most}", replace(BASE, max_symbols=most)
    ngram = digit_ngram(model)
    for weight in LM_WEIGHTS:
        yield f"beam_8_ngram_{weight:g}", replace(BASE, fusion=(Fusion(ngram, weight),))
    tree = hotwords(model)
    for weight in BOOSTS:
        fusion = (Fusion(tree, weight),)
        yield (
            f"beam_8_hotwords_{weight:g}",
            replace(BASE, fusion=fusion, blank_lm_score_mode="no_score"),
        )


def digit_ngram(model: AcousticTransducer) -> Ngram:
    """Over characters; it knows how the words are spelled and how long strings are."""
    spell = model.transducer.vocabulary.tokens
    labels = model.transducer.config.blank
    sentences = [spell(text) for text in digit_texts(LM_TEXTS, LM_SEED)]
    with tempfile.TemporaryDirectory() as folder:
        file = WittenBell(sentences, labels).write(Path(folder) / "digits.arpa")
        return Ngram.from_nemo_arpa(file, labels, token_offset=TOKEN_OFFSET)


def hotwords(model: AcousticTransducer) -> BoostingTree:
    """The ten words, alike."""
    phrases = tokenized(WORDS, model.transducer.vocabulary.tokens)
    return BoostingTree.from_phrases(phrases, model.transducer.config.blank)
