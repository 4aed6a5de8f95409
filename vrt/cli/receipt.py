"""`vrt receipt ...`: read a recorded run, and keep documents at its numbers."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from vrt.cli.output import remark, shown

SHOW_EXAMPLES = """\b
Examples:
  vrt receipt show data/receipts/quality-parity.json
  vrt receipt show data/receipts/quality-parity.json unheard_15_db/beam_8
  vrt receipt show data/receipts/bench-beam.json "comparisons/case=beam 8, B=1/better"
"""

RENDER_EXAMPLES = """\b
Examples:
  vrt receipt render README.md papers/*.md
  vrt receipt render --check README.md papers/*.md

A number of a document is a link whose text is rendered from the receipt:
  [5.0](data/receipts/bench-beam.json "comparisons/case=beam 8, B=1/better .1f")
Before the format there may be one change: 1/x, *100 or /1e6.
"""

app = typer.Typer(help="Recorded runs, and the documents that cite them.", no_args_is_help=True)


@app.command(epilog=SHOW_EXAMPLES)
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A receipt.")],
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="A number or a part, as part/name.")
    ] = None,
) -> None:
    """Print what was run, on what, and every number with its key.

    A receipt that was changed after it was written is refused.
    """
    from vrt.receipt import Receipt
    from vrt.receipt.keys import leaves, value_at

    receipt = Receipt.load(file)
    found = receipt.numbers if key is None else value_at(receipt.numbers, key)
    if key is None:
        print(shown("\n".join(_head(receipt))))
    if not isinstance(found, dict | list):
        print(shown(_plain(found)))
        return
    rows = list(leaves(found))
    width = min(60, max((len(name) for name, _ in rows), default=0))
    for name, value in rows:
        print(shown(f"{name:{width}}  {_plain(value)}"))


@app.command(epilog=RENDER_EXAMPLES)
def render(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Markdown documents.")],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 if a number is stale.")
    ] = False,
) -> None:
    """Bring the numbers of documents to what their receipts say."""
    from vrt.receipt import citations

    rendered = [(file, *citations.render(file)) for file in files]  # all, before any is written
    for file, text, stale in rendered:
        for line in stale:
            print(shown(line))
        if stale and not check:
            file.write_bytes(text.encode())
    count = sum(len(stale) for _, _, stale in rendered)
    if check and count:
        remark(f"{count} stale; vrt receipt render brings them up to date")
        raise typer.Exit(1)


def _head(receipt: Any) -> list[str]:
    device, changed = receipt.device, " (changed)" if receipt.dirty else ""
    versions = ", ".join(f"{name} {version}" for name, version in receipt.versions.items())
    return [
        f"command   {receipt.command}",
        f"commit    {receipt.commit or 'none'}{changed}",
        f"ran       {receipt.started} to {receipt.ended}",
        f"device    {device.get('cpu')}, {device.get('cores_usable')} cores,"
        f" {device.get('threads')} threads, {device.get('system')} {device.get('architecture')}",
        f"versions  {versions}",
        "",
    ]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
