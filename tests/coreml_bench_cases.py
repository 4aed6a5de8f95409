"""A small model and package that a sweep can open by name, and children that end in every way."""

import json
import sys
from pathlib import Path

from coreml_cases import needs_coremltools, transducer

from vrt.rnnt.weights import save_nemo

# What a child that measured three calls has written; the rest of each script decides its end.
MEASURED = """
import json, os, signal, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
def phase(name, **values):
    with (folder / "report.jsonl").open("a") as file:
        file.write(json.dumps({"phase": name} | values) + "\\n")
def answers():
    import numpy
    numpy.savez(folder / "answers.npz", **{"0/x": numpy.zeros(1, numpy.float32)})
    phase("answers")
phase("started", backend="torch")
for name in ("cold load", "warm load", "first predict"):
    phase(name, wall_ms=2.0, cpu_ms=1.0)
phase("calls", until=3, wall_ms=[1.0, 2.0, 9.0], cpu_ms=[1.0, 1.0, 1.0], rss_bytes=5000)
"""
ENDS = {
    "ok": "phase('done')",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "segfault": "import ctypes; ctypes.string_at(0)",
    "abort": "os.abort()",
    "exit": "print('dying words', file=sys.stderr); os._exit(7)",
    "failed": "phase('failed', why='Core ML said no'); sys.exit(1)",
    "hang": "time.sleep(600)",
    # As a runtime that starts a helper, and ignores being asked to stop.
    "deaf": "signal.signal(signal.SIGTERM, signal.SIG_IGN); os.fork(); time.sleep(600)",
    "noise on stdout": "print('{\"phase\": \"done\"}\\n\\x00\\xff garbage ' * 9)\nphase('done')",
    "noise in the report": "(folder / 'report.jsonl').open('a').write('\\x00 {\\n'); phase('done')",
    "cut short": "(folder / 'report.jsonl').open('a').write('{\"phase\": \"ca')",
    "silent": "pass",
}


def script(end: str) -> str:
    return MEASURED + ENDS[end]


def command_of(end: str):
    """As `sweep` takes it."""
    return lambda folder: [sys.executable, "-c", script(end), str(folder)]


def model_on_disk(folder: Path) -> Path:
    path = folder / "small.nemo"
    save_nemo(transducer(), path)
    return path


def package_of(folder: Path, kind: str, arm, source: str):
    """Exported from the model of that name, so that another process finds it."""
    needs_coremltools()
    from vrt.coreml.export import export
    from vrt.coreml.package import open_package
    from vrt.coreml.sources import open_source

    return open_package(export(open_source(source), kind, folder, arm).package)


def phases_of(folder: Path) -> list[str]:
    lines = (folder / "report.jsonl").read_text().splitlines()
    return [json.loads(line)["phase"] for line in lines]
