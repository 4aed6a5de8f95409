"""The house stays easy to walk: who may know whom, what an import costs, how long a file may be."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import vrt.paths

# What each room may know. A room is a file or a folder of vrt/; `vrt` is its __init__.
WINGS = {"voxtral", "rnnt"}
GROUND = {"audio", "receipt", "paths"}
ARROWS = {
    "paths": set(),
    "audio": set(),
    "receipt": set(),
    "captions": set(),
    "voxtral": {"audio", "paths"},
    "rnnt": {"audio", "paths"},
    "loading": {"paths"} | WINGS,
    "vrt": GROUND | WINGS | {"loading"},
    "oracle": GROUND | WINGS,
    "golden": GROUND | WINGS | {"oracle"},
    "coreml": GROUND | WINGS | {"bench"},
    "train": GROUND | WINGS,
    "quality": GROUND | WINGS | {"train", "oracle"},
    "bench": GROUND | WINGS | {"oracle"},
    "lab": GROUND | WINGS | {"loading", "golden"},
    "demo": GROUND | WINGS | {"lab", "loading"},
}
# `cli` knows everybody.
ARROWS["cli"] = {*ARROWS}
ROOMS = ARROWS.keys()
# Libraries with one door.
DOORS = {
    "transformers": {"oracle"},
    "nemo": {"oracle"},
    "coremltools": {"coreml"},
    "soundfile": {"audio"},
    "soxr": {"audio"},
    "typer": {"cli"},
}
WING_LIBRARIES = {
    *("numpy", "torch", "jaxtyping", "safetensors", "mistral_common", "numba"),
    *("sentencepiece", "yaml"),
}


def imported(tree: ast.AST, package: list[str]) -> Iterator[str]:
    """Dotted names that a module inside `package` imports anywhere, relative ones made absolute."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (n.name for n in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = package[: len(package) - level + 1] if level else []
                base = base + (module.split(".") if module else [])
                yield from (".".join([*base, n.name]) for n in names)
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name


def complaint(room: str, name: str) -> str | None:
    """Why `room` may not import `name`, or None."""
    top, *rest = name.split(".")
    if top == "vrt":
        other = rest[0] if rest and rest[0] in ROOMS else "vrt"  # else one of its public names
        if other in ARROWS[room] | {room} or name == "vrt.__version__":
            return None
        return f"{room} may not know {other}"
    if room not in DOORS.get(top, {room}):
        return f"only {'/'.join(DOORS[top])} may import {top}"
    if room in WINGS and top not in WING_LIBRARIES | sys.stdlib_module_names:
        return f"{room} may not import {top}"
    return None


def violations(root: Path) -> list[str]:
    """Every import under the package folder `root` that breaks an arrow, as `file: why`."""
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        room = {"__init__.py": "vrt", "__main__.py": "cli"}.get(parts[0], parts[0])
        room = room.removesuffix(".py")
        where = "/".join(parts)
        if room not in ROOMS:
            found.append(f"{where}: room {room} is not in ARROWS; say there what it may know")
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = imported(tree, ["vrt", *parts[:-1]])
        found += [f"{where}: {why}" for n in names if (why := complaint(room, n))]
    return found


def test_imports_follow_the_arrows(repo_root):
    assert list((repo_root / "vrt").rglob("*.py"))
    assert violations(repo_root / "vrt") == []


def plant(root: Path, file: str, text: str) -> Path:
    for path, content in (
        ("__init__.py", "from vrt.audio import read"),
        ("audio.py", "import soundfile"),
        ("receipt.py", "from vrt import __version__"),
        ("voxtral/mel.py", "import math\nfrom ..audio import read\nfrom . import stem"),
        ("rnnt/malsd.py", "import numpy as np"),
        ("oracle/hf.py", "def f():\n    import transformers\n    from vrt.voxtral import mel"),
        ("cli.py", "import typer\nimport vrt\nfrom vrt import oracle"),
        (file, text),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text if path == file else content, encoding="utf-8")
    return root


def test_checker_accepts_what_is_allowed(tmp_path):
    assert violations(plant(tmp_path / "vrt", "paths.py", "")) == []


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("voxtral/a.py", "import vrt.rnnt.malsd", "voxtral may not know rnnt"),
        ("rnnt/a.py", "from ..voxtral import mel", "rnnt may not know voxtral"),
        ("rnnt/a.py", "from .. import voxtral", "rnnt may not know voxtral"),
        ("rnnt/deep/a.py", "from ...voxtral.mel import x", "rnnt may not know voxtral"),
        ("audio.py", "def f():\n    from vrt import receipt", "audio may not know receipt"),
        ("receipt.py", "from vrt import load", "receipt may not know vrt"),
        ("oracle/a.py", "from vrt.cli import main", "oracle may not know cli"),
        ("golden/a.py", "import transformers.models", "only oracle may import transformers"),
        ("voxtral/a.py", "if 0:\n    from nemo import x", "only oracle may import nemo"),
        ("train/a.py", "import importlib as i\ni.import_module('coremltools')", "only coreml"),
        ("golden/a.py", "import soundfile as sf", "only audio may import soundfile"),
        ("voxtral/a.py", "import pandas", "voxtral may not import pandas"),
        ("attic/a.py", "", "room attic is not in ARROWS"),
    ],
)
def test_checker_catches_a_planted_violation(tmp_path, file, text, why):
    (found,) = violations(plant(tmp_path / "vrt", file, text))
    assert found.startswith(f"{file}: ") and why in found


def child(code: str) -> tuple[float, str]:
    """CPU seconds and standard output of `python -c code`."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    assert process.returncode == 0, code
    return usage.ru_utime + usage.ru_stime, output


def test_import_vrt_loads_no_heavy_library():
    heavy = "altair coremltools nemo transformers soundfile mistral_common numba papermill dask"
    code = f"import sys, vrt; print([m for m in {heavy.split()} if m in sys.modules])"
    assert child(code)[1] == "[]\n"


def test_import_vrt_costs_at_most_half_more_than_torch():
    # CPU time, not wall; turn about and the least of four each, so that a busy machine weighs
    # on both alike.
    pairs = [(child("import torch")[0], child("import vrt")[0]) for _ in range(4)]
    torch_cost, vrt_cost = (min(costs) for costs in zip(*pairs, strict=True))
    assert vrt_cost <= 1.5 * torch_cost, pairs


def test_shapes_are_checked_in_tests_and_free_at_run_time():
    code = "import vrt.paths; print(type(vrt.paths.__loader__).__module__)"
    assert type(vrt.paths.__loader__).__module__.startswith("jaxtyping")
    assert not child(code)[1].startswith("jaxtyping")


def test_no_file_above_400_lines(repo_root):
    files = list((repo_root / "vrt").rglob("*.py"))
    lines = {f.name: len(f.read_text(encoding="utf-8").splitlines()) for f in files}
    assert {name: n for name, n in lines.items() if n > 400} == {}


# The brackets keep this file from finding itself.
FOREIGN = re.compile(
    rb"/(?:[w]ork|[t]mp|[f]arm|[r]oot|[h]ome|[U]sers)/"
    rb"|[p]ypi\.org|[p]ythonhosted|[d]ownload\.pytorch|[d]ebian\.org|[n]pmjs\.org|[a]naconda\.org"
)


@pytest.mark.parametrize("folder", ["tmp", "root", "work", "home", "Users"])
def test_pattern_knows_a_path_of_one_machine(folder):
    assert FOREIGN.search(f"open('/{folder}/x.wav')".encode())
    assert not FOREIGN.search(f"{folder}/x.wav, data/audio, tmp_path".encode())


def test_source_files_name_no_machine_and_no_package_index(repo_root, source_files):
    found = [
        f"{name}: {match.group().decode()}"
        for name in source_files
        if (match := FOREIGN.search((repo_root / name).read_bytes()))
    ]
    assert source_files and found == []
