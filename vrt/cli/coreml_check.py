"""`vrt coreml check`: saved packages against torch, on any machine."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from vrt.cli.failures import explain
from vrt.cli.output import as_line, finite, shown

EXAMPLES = """\b
Examples:
  vrt coreml check packages/*.mlpackage
  vrt coreml check packages/fused-k8.mlpackage --source parakeet.nemo

Without --source a package is held to the golden vectors beside it. With it torch answers random
and hard inputs anew, and searches with a whole beam, each answer fed back.
No Mac is needed; on one, Core ML's own answers on the CPU are compared too.
"""


def check(
    packages: Annotated[
        list[Path], typer.Argument(metavar="PACKAGE...", help="Folders NAME.mlpackage.")
    ],
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="MODEL", help="The model that they were made of."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the inputs drawn.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON a package.")] = False,
) -> None:
    """Check saved Core ML packages.

    Runs each as it lies on the disk, in an interpreter of the documented operations, and compares
    with torch: exit code 1 if any failed. Says what that proves and what it does not.
    """
    from vrt.coreml.check import check as check_package
    from vrt.coreml.errors import CoreMLError
    from vrt.coreml.sources import open_source

    model = None if source is None else open_source(source)
    failed = 0
    for path in packages:
        try:
            report = check_package(path, model, seed)
        except (CoreMLError, OSError) as error:
            failed += 1
            reason = explain(error)
            values = {"package": path.name, "ok": False, "error": reason}
            print(as_line(values) if json else shown(f"FAIL {path.name}: {reason}"), flush=True)
            continue
        failed += not report.ok
        print(as_line(_plain(report)) if json else shown(report.text()), flush=True)
    raise typer.Exit(1 if failed else 0)


def _plain(report: Any) -> dict[str, Any]:
    """Without the calls themselves, whose arrays are in the golden vectors."""
    functions = [
        {
            "name": function.name,
            "operations": function.operations,
            "replays": [
                {
                    "against": replay.against,
                    "calls": replay.calls,
                    "ok": replay.ok,
                    "outputs": [asdict(diff) for diff in replay.diffs],
                }
                for replay in function.replays
            ],
            "left_out": list(function.left_out),
            "divergence": None if function.divergence is None else str(function.divergence),
            "beam": None if function.beam is None else asdict(function.beam),
            "fp16": None if function.fp16 is None else asdict(function.fp16),
        }
        for function in report.functions
    ]
    values = {
        "package": report.package,
        "ok": report.ok,
        "kind": report.kind,
        "digest": report.digest,
        "failures": report.failures,
        "findings": [asdict(finding) for finding in report.findings],
        "functions": functions,
        "proven": report.proven(),
    }
    return finite(values)
