"""The trained predictor and joint inside NeMo's own searches, against ours (Experiment 5).

Both read the same encoder output and project it themselves. Tokens must be equal on every clip.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jaxtyping import Float, Int64
from torch import Tensor

from vrt.quality.clips import SETS, Clip, batches, encode, strings_of
from vrt.quality.errors import QualityError
from vrt.quality.runs import Request, recorded
from vrt.receipt import Receipt
from vrt.rnnt.acoustic import AcousticTransducer
from vrt.rnnt.acoustic_files import load_acoustic
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.greedy import greedy
from vrt.rnnt.malsd import malsd
from vrt.rnnt.model import ModelScorer
from vrt.rnnt.nbest import NBest
from vrt.train.corpus import Corpus

WIDTHS = (4, 8)
MAX_SYMBOLS = 10

# Encoder output and lengths to n-best lists.
Decoder = Callable[[Float[Tensor, "B T E"], Int64[Tensor, "B"]], list[NBest]]


def run(request: Request, output: Path, tell: Callable[[str], None]) -> Receipt:
    """The receipt of `vrt quality parity`.

    Raises:
        QualityError: NeMo is not installed.
    """
    need_nemo()
    return recorded(request, lambda f, c: measure(load_acoustic(f), c, request, tell), output)


def need_nemo() -> None:
    try:
        import vrt.oracle.nemo_model  # noqa: F401
    except ImportError as error:
        raise QualityError(
            f"parity with NeMo needs NeMo: pip install 'vrt[nemo]' ({error})"
        ) from error


def measure(
    model: AcousticTransducer, corpus: Corpus, request: Request, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Numbers by set and search."""
    from vrt.oracle.nemo_model import NemoBeam, NemoGreedy

    transducer = model.transducer
    numbers: dict[str, Any] = {}
    theirs_greedy = NemoGreedy(transducer, MAX_SYMBOLS)
    pairs: dict[str, tuple[Decoder, Decoder]] = {
        "greedy": (our_greedy(model), lambda e, n: [NBest([h]) for h in theirs_greedy(e, n)])
    }
    for width in WIDTHS:
        config = BeamConfig(beam_size=width, max_symbols=MAX_SYMBOLS)
        pairs[f"beam_{width}"] = (our_beam(model, config), NemoBeam(transducer, config))
    for name in SETS:
        clips = encode(model, strings_of(corpus, name, request.strings))
        numbers[name] = {}
        for search, (ours, theirs) in pairs.items():
            compared = compare(model, clips, decode(ours, clips), decode(theirs, clips))
            numbers[name][search] = compared
            tell(f"{name}, {search}: {compared['tokens_equal']} of {len(clips)} equal")
    return numbers


def our_greedy(model: AcousticTransducer) -> Decoder:
    scorer = ModelScorer(model.transducer)

    def decode_batch(encoded: Float[Tensor, "B T E"], lengths: Int64[Tensor, "B"]) -> list[NBest]:
        found = greedy(scorer, scorer.project(encoded), lengths, MAX_SYMBOLS)
        return [NBest([one]) for one in found]

    return decode_batch


def our_beam(model: AcousticTransducer, config: BeamConfig) -> Decoder:
    """With our own order of ties and verified merges: NeMo must agree where no scores are equal."""
    scorer = ModelScorer(model.transducer)
    return lambda encoded, lengths: malsd(scorer, scorer.project(encoded), lengths, config)


def decode(decoder: Decoder, clips: Sequence[Clip]) -> list[NBest]:
    """In the order of the clips; both sides see the same batches."""
    found: dict[int, NBest] = {}
    for batch in batches([clip.encoded for clip in clips]):
        found |= zip(batch.places, decoder(batch.values, batch.lengths), strict=True)
    return [found[place] for place in range(len(clips))]


def compare(
    model: AcousticTransducer,
    clips: Sequence[Clip],
    ours: Sequence[NBest],
    theirs: Sequence[NBest],
) -> dict[str, Any]:
    """Best hypotheses, whole lists, times and scores."""
    pairs = list(zip(ours, theirs, strict=True))
    best = [(one[0], two[0]) for one, two in pairs if one and two]
    different = [place for place, (one, two) in enumerate(pairs) if _best(one) != _best(two)]
    numbers: dict[str, Any] = {
        "clips": len(pairs),
        "tokens_equal": len(pairs) - len(different),
        "timestamps_equal": sum(one.timestamps == two.timestamps for one, two in best),
        "nbest_equal": sum(_lists(one) == _lists(two) for one, two in pairs),
        "score_difference_max": max((abs(a.score - b.score) for a, b in best), default=0.0),
        "first_mismatch": None,
    }
    if different:
        place = different[0]
        one, two = (model.text(_best(side[place])) for side in (ours, theirs))
        said = clips[place].text
        numbers["first_mismatch"] = {"clip": place, "said": said, "ours": one, "nemo": two}
    return numbers


def _best(nbest: NBest) -> tuple[int, ...]:
    return nbest[0].tokens if nbest else ()


def _lists(nbest: NBest) -> list[tuple[int, ...]]:
    return [hypothesis.tokens for hypothesis in nbest]
