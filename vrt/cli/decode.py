"""`vrt decode`: encoder frames or recordings through a transducer's beam search."""

from pathlib import Path
from typing import Annotated

import typer

from vrt.cli.failures import complain, explain

EXAMPLES = """\b
Examples:
  vrt decode five_five.flac
  vrt decode frames.npy --model parakeet.nemo --beam 8 --n-best 4
  vrt decode talk.flac --phrases names.txt --lm words.arpa --json
  vrt decode frames.npy --model parakeet.nemo --trace

FILE is a recording, for a model of this package that takes audio, or encoder frames: [T, E] or
[B, T, E] in .npy, or `frames` (and `lengths` [B]) in .safetensors.
"""
DIGITS = "digits-rnnt"
BEAM = 8


def decode(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="See below.")],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            metavar="PATH|NAME",
            help="A NeMo archive, its folder or state dict, or a model of this package.",
        ),
    ] = DIGITS,
    beam: Annotated[
        int | None,
        typer.Option("--beam", min=1, help="Slots of the beam.  [default: 8, or all classes]"),
    ] = None,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="The best class at each step in place of a beam.")
    ] = False,
    n_best: Annotated[int, typer.Option("--n-best", min=1, help="Hypotheses to print.")] = 1,
    max_symbols: Annotated[
        int, typer.Option("--max-symbols", min=1, help="Labels at one encoder frame, at most.")
    ] = 10,
    score_norm: Annotated[
        bool,
        typer.Option(
            "--score-norm/--no-score-norm", help="Rank by score / (labels + 1), or by score."
        ),
    ] = True,
    phrases: Annotated[
        Path | None,
        typer.Option("--phrases", metavar="FILE", help="Phrases to favour, one a line."),
    ] = None,
    boost: Annotated[float, typer.Option("--boost", help="Weight of the phrases.")] = 0.5,
    lm: Annotated[
        Path | None,
        typer.Option("--lm", metavar="ARPA", help="An n-gram over the model's pieces."),
    ] = None,
    lm_weight: Annotated[float, typer.Option("--lm-weight", help="Weight of the n-gram.")] = 0.3,
    nemo_arpa: Annotated[
        bool, typer.Option("--nemo-arpa", help="The n-gram spells tokens as NeMo's training does.")
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Every iteration's living hypotheses, as a table.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="One line of JSON an utterance, work counts included.")
    ] = False,
) -> None:
    """Search encoder frames or recordings with a transducer.

    The search is NeMo's malsd_batch, exactly: the n-best list with scores and token times.
    """
    if greedy and (trace or n_best > 1 or phrases or lm):
        raise typer.BadParameter(
            "a greedy search has one hypothesis, no fusion and no beam to trace",
            param_hint="'--greedy'",
        )
    from vrt.cli.decode_inputs import open_transducer, read_utterances
    from vrt.cli.decode_output import show
    from vrt.cli.decode_search import Search, fusion

    opened = open_transducer(model)
    search = Search(
        opened,
        None if greedy else beam or min(BEAM, opened.transducer.config.vocab),
        max_symbols,
        score_norm,
        fusion(opened, phrases, boost, lm, lm_weight, nemo_arpa),
        trace,
    )
    failed = 0
    for file in files:
        try:
            utterances = read_utterances(file, opened)
            show(search(utterances), n_best, json, several=len(files) > 1)
        except BrokenPipeError:
            raise
        except Exception as error:
            reason = explain(error)
            if reason is None:
                raise
            complain(reason if str(file) in reason else f"{file}: {reason}")
            failed += 1
    raise typer.Exit(1 if failed else 0)
