"""`vrt coreml export`: packages of a model's graphs, each with golden vectors beside it."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from vrt.cli.options import check_delay
from vrt.cli.output import as_line, remark, shown

EXAMPLES = """\b
Examples:
  vrt coreml export parakeet.nemo packages/ --beam 8
  vrt coreml export random-parakeet packages/ --graph fused --lstm unrolled
  vrt coreml export random-parakeet packages/ --graph joint --multifunction 1,4,8 --target iOS18
  vrt coreml export random-tiny packages/ --graph voxtral-encoder-chunk --palettize 6

Graphs of a transducer: predictor, joint, fused, encoder-projection. Of a Voxtral:
voxtral-conv-stem, voxtral-encoder-chunk, voxtral-projector, voxtral-decoder-step.
Converting and checking need no Mac; running on Apple's hardware does.
"""


# What the printed distances say, and what they do not.
CLAIM = (
    "programs and weights as saved compute what torch does, by the documented semantics of their"
    " operations; this says nothing of Apple's kernels, placement or speed"
)


class Precision(StrEnum):
    FP32 = "fp32"
    FP16_BODY = "fp16-body"


class Lstm(StrEnum):
    OP = "op"
    UNROLLED = "unrolled"


class Tail(StrEnum):
    TOPK = "topk"
    LOGITS = "logits"


class Cache(StrEnum):
    EXPLICIT = "explicit"
    MLSTATE = "mlstate"


class Target(StrEnum):
    IOS17 = "iOS17"
    IOS18 = "iOS18"


def export(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A NeMo archive, a checkpoint folder, or a model by name."
        ),
    ],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the packages go.")],
    graphs: Annotated[
        list[str] | None,
        typer.Option("--graph", metavar="NAME", help="One of them; repeatable.  [default: all]"),
    ] = None,
    beam: Annotated[int, typer.Option("--beam", min=1, help="Hypotheses in one call, K.")] = 8,
    precision: Annotated[
        Precision, typer.Option("--precision", help="fp16-body keeps the scores' tail in FP32.")
    ] = Precision.FP32,
    lstm: Annotated[Lstm, typer.Option("--lstm", help="Core ML's own, or spelt out.")] = Lstm.OP,
    tail: Annotated[
        Tail, typer.Option("--tail", help="K best classes and blank, or all logits.")
    ] = Tail.TOPK,
    multifunction: Annotated[
        str | None,
        typer.Option("--multifunction", metavar="K,...", help="A function a beam; iOS18."),
    ] = None,
    palettize: Annotated[
        int | None,
        typer.Option("--palettize", metavar="BITS", help="Of the encoder's weights only: 6."),
    ] = None,
    cache: Annotated[
        Cache, typer.Option("--cache", help="Voxtral's keys and values; mlstate needs iOS18.")
    ] = Cache.EXPLICIT,
    target: Annotated[
        Target, typer.Option("--target", help="The oldest system that must run it.")
    ] = Target.IOS17,
    frames: Annotated[
        int, typer.Option("--frames", min=1, help="Of the encoder projection, T.")
    ] = 188,
    delay_ms: Annotated[
        int | None,
        typer.Option(
            "--delay-ms", callback=check_delay, help="Of a Voxtral's decoder; else its own."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON a package.")] = False,
) -> None:
    """Make Core ML packages and check them.

    Each is run from disk by an interpreter and compared with torch before it is kept; the line
    says how far it is from torch, output by output.
    """
    beams = () if multifunction is None else _beams(multifunction)
    from vrt.coreml.arms import Arm
    from vrt.coreml.export import export_all, kinds_of
    from vrt.coreml.sources import open_source
    from vrt.coreml.toolbox import toolbox
    from vrt.voxtral.schedule import delay_tokens

    arm = Arm(
        beam=beam,
        precision=precision.value,
        lstm=lstm.value,
        tail=tail.value,
        target=target.value,
        palettize=palettize,
        cache=cache.value,
        frames=frames,
        delay_tokens=None if delay_ms is None else delay_tokens(delay_ms),
        beams=beams,
    )
    toolbox()  # before a model is read for nothing
    source = open_source(model)
    for exported in export_all(source, graphs or kinds_of(source), folder, arm):
        print(as_line(_plain(exported)) if json else shown(_line(exported)), flush=True)
    remark(CLAIM)


def _beams(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"{text!r} is no list as 1,4,8", param_hint="'--multifunction'")
    return tuple(int(part) for part in parts)


def _line(exported: Any) -> str:
    drift = ", ".join(f"{name} {value:.2g}" for name, value in exported.drift.items())
    return f"{exported.package}: largest distance from torch {drift}"


def _plain(exported: Any) -> dict[str, Any]:
    return {
        "package": str(exported.package),
        "golden": str(exported.golden),
        "kind": exported.contract.kind,
        "drift": exported.drift,
    }
