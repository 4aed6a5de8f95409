"""What `vrt decode` prints: the text, an n-best list, a trace, or JSON."""

from typing import Any

from vrt.cli.decode_search import Decoded
from vrt.cli.output import as_line, finite, shown
from vrt.rnnt.nbest import Hypothesis, NBest


def show(decoded: Decoded, n_best: int, json: bool, several: bool) -> None:
    """One block, or line of JSON, an utterance."""
    for utterance, nbest in enumerate(decoded.nbests):
        if json:
            print(as_line(finite(document(decoded, utterance, nbest[:n_best]))), flush=True)
            continue
        if decoded.trace is not None:
            print(decoded.trace.table(utterance))
        label = _label(decoded, utterance, several)
        print(shown(label + _text(decoded, nbest, n_best)), flush=True)


def document(decoded: Decoded, utterance: int, nbest: list[Hypothesis]) -> dict[str, Any]:
    """Names as in `Hypothesis`; `text` and `seconds` where the model knows them."""
    content = {"file": decoded.source, "utterance": utterance, "model": decoded.model.name}
    hypotheses = [_hypothesis(decoded, one) for one in nbest]
    traced = {} if decoded.trace is None else {"trace": decoded.trace.table(utterance).rows}
    return content | {"nbest": hypotheses} | traced


def _hypothesis(decoded: Decoded, one: Hypothesis) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if decoded.model.transducer.vocabulary is not None:
        content["text"] = decoded.model.transducer.text(one.tokens)
    content |= {"tokens": list(one.tokens), "score": one.score, "norm_score": one.norm_score}
    content["timestamps"] = list(one.timestamps)
    if decoded.model.frame_seconds is not None:
        seconds = one.seconds(decoded.model.frame_seconds)
        content["seconds"] = [round(second, 3) for second in seconds]
    return content


def _label(decoded: Decoded, utterance: int, several: bool) -> str:
    if len(decoded.nbests) > 1:
        return f"{decoded.source}[{utterance}]: "
    return f"{decoded.source}: " if several else ""


def _text(decoded: Decoded, nbest: NBest, n_best: int) -> str:
    if not nbest:
        return "(no hypothesis survived)"
    if n_best == 1:
        return _said(decoded, nbest[0])
    lines = [
        f"{rank:3}  {one.score:10.4f}  {one.norm_score:9.4f}  {_said(decoded, one)}"
        for rank, one in enumerate(nbest[:n_best], start=1)
    ]
    return "\n".join(["", f"{'':3}  {'score':>10}  {'norm':>9}", *lines])


def _said(decoded: Decoded, one: Hypothesis) -> str:
    if decoded.model.transducer.vocabulary is None:
        return " ".join(map(str, one.tokens))
    return decoded.model.transducer.text(one.tokens)
