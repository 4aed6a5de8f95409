"""Greedy text at once, the beam's at the end: how soon, and how much of what was shown changes.

Latency is audio time: seconds of audio that must have come before a text can be there, the machine
taken as fast enough. The flush behind a recording is silence that nobody waits for.

T encoder frames (40 ms).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vrt.quality.clips import Clip, encode
from vrt.quality.errors import QualityError
from vrt.quality.runs import Request, recorded
from vrt.quality.scoring import difference, errors_of, texts_of
from vrt.quality.searches import Answer, beam_search, greedy_search, run_over
from vrt.quality.timed import Timed, latencies, spread_ms, timed_strings
from vrt.receipt import Receipt
from vrt.rnnt.acoustic import FRAME_SAMPLES, AcousticTransducer
from vrt.rnnt.acoustic_files import load_acoustic
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.encoder import SUBSAMPLING
from vrt.rnnt.front import HOP, WINDOW
from vrt.rnnt.model import ModelScorer
from vrt.rnnt.session import BeamSession
from vrt.train.corpus import Corpus
from vrt.train.evaluation import word_errors

SETS = ("unheard_15_db", "unheard_5_db")
BEAM = BeamConfig(beam_size=8)
# Frame f reads mel frames up to 4 f + 3, and the last of those the 400 samples from its own place.
FIRST_FRAME = (SUBSAMPLING - 1) * HOP + WINDOW  # samples before frame 0 is there
STREAMED = 50  # strings through a session, frame by frame


def run(request: Request, output: Path, tell: Callable[[str], None]) -> Receipt:
    """The receipt of `vrt quality two-pass`."""
    return recorded(request, lambda f, c: measure(load_acoustic(f), c, request, tell), output)


def measure(
    model: AcousticTransducer, corpus: Corpus, request: Request, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Numbers by set."""
    numbers: dict[str, Any] = {}
    for name in SETS:
        strings = timed_strings(corpus, name, request.strings)
        clips = encode(model, [string.example for string in strings])
        numbers[name] = compare(model, strings, clips)
        tell(f"{name}: {line(numbers[name])}")
    return numbers


def compare(
    model: AcousticTransducer, strings: Sequence[Timed], clips: Sequence[Clip]
) -> dict[str, Any]:
    """First pass, second pass, and a beam that commits as it goes."""
    scorer = ModelScorer(model.transducer)
    first = run_over(greedy_search(scorer), clips)
    second = run_over(beam_search(scorer, BEAM), clips)
    errors = [errors_of(model, clips, side) for side in (first, second)]
    texts = [texts_of(model, side) for side in (first, second)]
    ends = [len(string.example.samples) / 16_000 for string in strings]
    at_end = [[end] * len(text.split()) for end, text in zip(ends, texts[1], strict=True)]
    at_once = [
        [min(time, end) for time in word_times(model, answer)]
        for answer, end in zip(first, ends, strict=True)
    ]
    return {
        "greedy": errors[0].describe() | {"text_after_word_end": _late(strings, texts[0], at_once)},
        "beam_at_end": errors[1].describe()
        | {
            "text_after_word_end": _late(strings, texts[1], at_end),
            "less_greedy": difference(errors[1], errors[0]),
        },
        "changes": changes(*texts),
        "committing_beam": committing(model, clips[:STREAMED], second[:STREAMED]),
    }


def _late(
    strings: Sequence[Timed], texts: Sequence[str], times: Sequence[Sequence[float]]
) -> dict[str, Any]:
    return spread_ms(latencies(strings, texts, times))


def word_times(model: AcousticTransducer, answer: Answer) -> list[float]:
    """Seconds of audio after which each word of the best hypothesis had its last character."""
    times: list[float] = []
    inside = False
    best = answer.nbest[0]
    for token, frame in zip(best.tokens, best.timestamps, strict=True):
        if model.text([token]).isspace():
            inside = False
            continue
        if not inside:
            times.append(0.0)
        times[-1], inside = frame_seconds(frame), True
    return times


def frame_seconds(frame: int) -> float:
    """Audio before encoder frame `frame` is there."""
    return (frame * FRAME_SAMPLES + FIRST_FRAME) / 16_000


def changes(shown: Sequence[str], final: Sequence[str]) -> dict[str, Any]:
    """Words that the end replaces, takes away or adds in what was shown."""
    words = sum(len(text.split()) for text in shown)
    edits = sum(_edits(one, two) for one, two in zip(shown, final, strict=True))
    changed = sum(one != two for one, two in zip(shown, final, strict=True))
    return {
        "strings": len(shown),
        "strings_changed": changed,
        "words_shown": words,
        "word_edits": edits,
        "word_edits_percent": 100 * edits / max(words, 1),
    }


def _edits(one: str, two: str) -> int:
    """jiwer takes no empty reference."""
    if not one.split() or not two.split():
        return len(one.split()) + len(two.split())
    return int(word_errors([one], [two]).edits[0])


def committing(
    model: AcousticTransducer, clips: Sequence[Clip], finals: Sequence[Answer]
) -> dict[str, Any]:
    """A session fed frame by frame: what all hypotheses agree on is committed at once, the rest of
    the best one is tentative.

    Raises:
        QualityError: the end differs from the whole utterance's search, or what was committed
            changed.
    """
    totals = {"strings": len(clips), "feeds": 0, "committed_changes": 0}
    totals |= {"tentative_changes": 0, "characters_taken_back": 0, "characters": 0}
    waits: list[int] = []
    for place, (clip, final) in enumerate(zip(clips, finals, strict=True)):
        committed, shown = _streamed(model, clip, totals, waits)
        if shown != final.tokens:
            raise QualityError(f"string {place}: the session's end is not the whole search's")
        if shown[: len(committed)] != committed:
            raise QualityError(f"string {place}: committed {committed}, in the end {shown}")
        totals["characters"] += len(shown)
    frame_ms = 1000 * FRAME_SAMPLES / 16_000
    late = [frames * frame_ms / 1000 for frames in waits]
    return totals | {"commit_after_emission": spread_ms(late)}


def _streamed(
    model: AcousticTransducer, clip: Clip, totals: dict[str, int], waits: list[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What was committed before the end, and the best hypothesis at the end."""
    session = BeamSession(ModelScorer(model.transducer), BEAM)
    session.begin()
    committed: tuple[int, ...] = ()
    shown: tuple[int, ...] = ()
    for number, frame in enumerate(clip.frames):
        update = session.feed(frame.unsqueeze(0))
        committed += update.committed
        waits += [number - stamp for stamp in update.timestamps]
        before, shown = shown, committed + update.tentative
        _count_taken_back(before, shown, totals)
        totals["feeds"] += 1
    found = session.finalize()
    end = found[0].tokens if found else ()
    _count_taken_back(shown, end, totals)
    return committed, end


def _count_taken_back(
    before: tuple[int, ...], now: tuple[int, ...], totals: dict[str, int]
) -> None:
    same = next(
        (n for n, (a, b) in enumerate(zip(before, now, strict=False)) if a != b),
        min(len(before), len(now)),
    )
    if same < len(before):
        totals["tentative_changes"] += 1
        totals["characters_taken_back"] += len(before) - same


def line(numbers: dict[str, Any]) -> str:
    """One line for a person."""
    parts = [
        f"{name} {numbers[name]['wer_percent']:.2f}%,"
        f" {numbers[name]['text_after_word_end']['p50_ms']} ms"
        for name in ("greedy", "beam_at_end")
    ]
    return "; ".join([*parts, f"{numbers['changes']['word_edits']} words changed"])
