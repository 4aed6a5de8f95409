"""`vrt coreml ...`: Core ML packages, made and proven on any machine, measured on a Mac."""

import typer

from vrt.cli import coreml_bench, coreml_check, coreml_export

app = typer.Typer(help="Core ML packages: export, check, measure.", no_args_is_help=True)


app.command("export", epilog=coreml_export.EXAMPLES)(coreml_export.export)
app.command("check", epilog=coreml_check.EXAMPLES)(coreml_check.check)
app.command("bench", epilog=coreml_bench.EXAMPLES)(coreml_bench.bench)
