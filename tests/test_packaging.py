"""What an install brings: the wheel's contents, the folder of data, and the locked versions."""

import importlib.util
import subprocess
import sys
import tomllib
import unicodedata
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import vrt.paths


@pytest.fixture(scope="module")
def wheel(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(build, cwd=repo_root, check=True, capture_output=True)
    (path,) = out.glob("*.whl")
    return path


def test_wheel_holds_the_package_and_the_data_without_receipts(source_files, wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    code = {str(f) for f in source_files if f.parts[0] == "vrt"}
    data = {f"vrt/{f}" for f in source_files if f.parts[0] == "data" and f.parts[1] != "receipts"}
    assert "vrt/__init__.py" in code and "vrt/data/MANIFEST.json" in data
    assert {n for n in names if ".dist-info/" not in n} == code | data
    assert any(n.endswith(".dist-info/licenses/LICENSE") for n in names)


def paths_in(package: Path):
    """`vrt.paths`, loaded from a copy in the folder `package`."""
    package.mkdir(parents=True, exist_ok=True)
    copy = package / "paths.py"
    copy.write_bytes(Path(vrt.paths.__file__).read_bytes())
    spec = importlib.util.spec_from_file_location("paths_copy", copy)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_data_lies_at_the_top_of_a_checkout(repo_root):
    assert vrt.paths.data_dir() == repo_root / "data"


def test_data_lies_in_an_installed_package(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    assert paths_in(tmp_path / "vrt").data_dir() == tmp_path / "vrt" / "data"


def test_missing_data_names_both_places(tmp_path):
    (tmp_path / "data").mkdir()  # a stranger's folder without a manifest
    with pytest.raises(FileNotFoundError, match="reinstall vrt") as error:
        paths_in(tmp_path / "vrt").data_dir()
    assert str(tmp_path / "vrt" / "data") in str(error.value)
    assert f" {tmp_path / 'data'};" in str(error.value)


def pins(repo_root: Path) -> dict[str, str]:
    lines = (repo_root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def test_every_requirement_is_locked_within_its_range(repo_root):
    project = tomllib.loads((repo_root / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"].values()
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    wanted += [line for extra in extras for line in extra]
    locked = pins(repo_root)
    for requirement in map(Requirement, wanted):
        if requirement.name != "vrt":
            version = locked[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), f"{requirement} is locked at {version}"


def test_constraints_hold_plain_versions_only(repo_root):
    assert pins(repo_root)["torch"] == "2.13.0"
    assert [v for v in pins(repo_root).values() if set(v) & set("+@/ ")] == []


@pytest.mark.slow  # a fresh environment from the package index
def test_plain_install_runs_without_extras(repo_root, wheel, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    python = tmp_path / "env" / "bin" / "python"
    lock = repo_root / "constraints.txt"
    install = [python, "-m", "pip", "install", "--quiet", "-c", lock, wheel]
    subprocess.run(install, check=True, timeout=900)
    code = (
        "import vrt\n"
        "import vrt.audio, vrt.paths, vrt.receipt, vrt.voxtral.tokenizer, vrt.voxtral.weights\n"
        "from vrt.rnnt.acoustic import transcribe\n"
        "clip = vrt.audio.read(vrt.paths.data_dir() / 'audio/five_five.flac')\n"
        "model = vrt.load('digits-rnnt')\n"
        "print(vrt.transcribe(vrt.load('digits-voxtral'), clip).text)\n"
        "print(model.text(transcribe(model, clip.samples).tokens))\n"
        "print(vrt.paths.data_dir())"
    )
    run = subprocess.run([python, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    voxtral, transducer, place = run.stdout.strip().splitlines()
    assert unicodedata.normalize("NFKC", voxtral).strip() == transducer == "five five"
    assert Path(place).is_relative_to(tmp_path / "env")
    shown = subprocess.run([python.with_name("vrt"), "--help"], cwd=tmp_path, capture_output=True)
    assert shown.returncode == 0 and b"transcribe" in shown.stdout
