"""`vrt coreml bench`: packages on compute units, with a receipt."""

from pathlib import Path
from typing import Annotated

import typer

from vrt.cli.failures import NOT_HERE, complain
from vrt.cli.options import AsJson, ReceiptFile
from vrt.cli.output import remark

EXAMPLES = """\b
Examples:
  vrt coreml bench packages/*.mlpackage
  vrt coreml bench packages/fused-k8.mlpackage --device CPU_ONLY,CPU_AND_NE --rounds 3
  vrt coreml bench packages/*.mlpackage --device cpu --output receipts/cpu.json

Core ML's units (CPU_ONLY, CPU_AND_NE, CPU_AND_GPU, ALL) need a Mac; cpu, cuda and mps are torch's,
which runs the graph that a package was made of. A process a measurement: one that crashes or hangs
is a row of the receipt. Exit code 3: this machine lacks a device, nothing was measured.
"""


def bench(
    packages: Annotated[
        list[Path], typer.Argument(metavar="PACKAGE...", help="Folders NAME.mlpackage.")
    ],
    device: Annotated[
        str, typer.Option("--device", metavar="NAME,...", help="They take turns.")
    ] = "CPU_ONLY,CPU_AND_NE,CPU_AND_GPU,ALL",
    calls: Annotated[int, typer.Option("--calls", min=1, help="Predictions a process.")] = 1000,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Processes an arm.")] = 2,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", help="Seconds that a process may take.")
    ] = 900.0,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Of torch.")] = 1,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="MODEL", help="For torch; else as the package says."),
    ] = None,
    output: ReceiptFile = Path("vrt-coreml-bench.json"),
    json: AsJson = False,
) -> None:
    """Time packages on each compute unit.

    Cold and warm load, first prediction, p50 and p95, growth of memory, where Core ML plans to run
    each operation, and how far the answers are from the interpreter's.
    """
    from vrt.coreml.bench import NotHere, SweepSettings, latency_table, sweep
    from vrt.coreml.bench.devices import INTERPRETER, refuse_absent
    from vrt.coreml.errors import CoreMLError
    from vrt.coreml.package import open_package

    try:
        settings = SweepSettings(tuple(device.split(",")), calls, rounds, timeout, threads, source)
    except CoreMLError as error:
        raise typer.BadParameter(str(error)) from error
    try:
        refuse_absent(settings.devices)
    except NotHere as error:
        complain(str(error))
        raise typer.Exit(NOT_HERE) from None
    receipt = sweep([open_package(path) for path in packages], settings, tell=remark)
    receipt.write(output)
    if json:
        print(output.read_text(encoding="utf-8"))
    elif INTERPRETER in settings.devices:
        remark("a rehearsal: times of the interpreter are no latencies, so there is no table")
    else:
        print(latency_table(receipt))
    remark(f"receipt: {output}")
    if not any(row["measured"] for row in receipt.numbers["rows"]):
        complain("no process ended well; the receipt says how each ended")
        raise typer.Exit(1)
