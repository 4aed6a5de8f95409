"""The golden files: this engine passes them at every feed, and they are what their recipes say."""

import json
import os
from pathlib import Path

import pytest
import torch

from vrt.golden import GoldenError, check, compare, make_voxtral
from vrt.golden.format import read_problem
from vrt.golden.shipped import recipes

RECIPES = {recipe.name: recipe for recipe in recipes()}
FILES = sorted(RECIPES)


@pytest.fixture(scope="module")
def folder(repo_root) -> Path:
    return repo_root / "data" / "golden"


def path_of(folder: Path, name: str) -> Path:
    return folder / f"voxtral-{name}.safetensors"


@pytest.fixture(scope="module")
def examples(repo_root) -> Path:
    """Files made elsewhere: `design/examples` in the folder that VRT_SHARED names."""
    named = os.environ.get("VRT_SHARED")
    place = (Path(named) if named else repo_root.parent / "shared") / "design" / "examples"
    if place.is_dir():
        return place
    if named:
        pytest.fail(f"VRT_SHARED names a folder without {place}")
    pytest.skip(f"no examples in {place}; set VRT_SHARED to a folder that has them")


@pytest.mark.parametrize("name", FILES)
def test_shipped_file_passes_at_every_feed(folder, name):
    for feed in (1280, 160, 333, "random:1"):
        report = check(path_of(folder, name), feed)
        # Measured: at most 0.20 of a tolerance, from fp32 sums in another order; the reference's
        # own two arms part by as much.
        assert report.ok, f"feed {feed}: {report.line()}\n{report.table()}"


def test_example_made_elsewhere_passes(examples, tmp_path):
    path = examples / "voxtral-nowrap.safetensors"
    report = check(path, "random:2", dump=tmp_path)
    assert report.line() == "ok voxtral-nowrap.safetensors"
    assert compare(path, tmp_path / path.name).ok


def test_files_are_those_of_the_recipes_and_stay_small(folder):
    paths = list(folder.glob("voxtral-*"))
    files = {path.name for path in paths}
    assert files == {path_of(folder, name).name for name in FILES}
    assert len(files) >= 12 and sum(path.stat().st_size for path in paths) < 6.5e6


@pytest.mark.parametrize("name", FILES)
def test_file_holds_its_recipe_and_names_its_oracle(folder, name):
    golden, problem = read_problem(path_of(folder, name)), RECIPES[name].problem()
    assert golden.unknown == ()
    assert golden.audio.tolist() == problem.audio.tolist()
    assert golden.weights.keys() == problem.weights.keys()
    for key, weight in problem.weights.items():
        # another machine's math library may round the last bit of a normal number otherwise
        torch.testing.assert_close(golden.weights[key], weight, atol=1e-7, rtol=1e-6)
    assert golden.about.config == problem.config
    about = golden.about.more
    assert about["covers"] == RECIPES[name].covers
    assert about["oracle"]["name"] == "hf" and about["oracle"].keys() >= {"transformers", "torch"}


def test_table_says_what_the_files_say(folder):
    lines = (folder / "README.md").read_text(encoding="utf-8").splitlines()
    rows = {
        cells[0].strip("`"): cells[1:]
        for line in lines
        if line.startswith("| `")
        for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
    }
    assert {row for row in rows if row.startswith("voxtral-")} == {f"voxtral-{n}" for n in FILES}
    for name, recipe in RECIPES.items():
        about = read_problem(path_of(folder, name)).about
        config = about.config
        assert rows[f"voxtral-{name}"] == [
            recipe.covers,
            str(len(recipe.audio)),
            str(recipe.delay),
            str(config.left_pad_tokens),
            str(about.n_audio_tokens),
            f"{config.encoder.window} / {config.decoder.window}",
        ]


def test_eos_file_ends_in_the_middle(folder):
    golden = read_problem(path_of(folder, "eos"))
    eos, rows = golden.about.config.eos, golden.about.rows
    for arm in ("offline", "stream"):
        ids = golden.expect[f"tokens.hf_generate_{arm}"].tolist()
        assert ids[-1] == eos and 5 < len(ids) < rows - 5 and eos not in ids[:-1]


def test_loud_file_is_above_the_ceiling_and_tiny_file_near_eps(folder):
    assert read_problem(path_of(folder, "loud")).expect["mel.offline"].max() > (1.5 + 4) / 4
    tiny = read_problem(path_of(folder, "tiny-norms"))
    mean_square = tiny.expect["projector.offline"].square().mean(dim=1)
    assert mean_square.median() < 10 * tiny.about.config.decoder.eps


@pytest.mark.parametrize("name", ["length-39", "odd-heads"])
def test_oracle_gives_the_shipped_answer_again(folder, name, tmp_path):
    pytest.importorskip("transformers", reason="the oracle is transformers: pip install 'vrt[hf]'")
    again = tmp_path / "again.safetensors"
    make_voxtral(again, RECIPES[name].problem())
    report = compare(path_of(folder, name), again)
    assert report.ok and not report.absent, report.table()


def test_metadata_is_that_of_the_format(folder):
    from safetensors import safe_open

    with safe_open(path_of(folder, "length-1"), framework="pt") as file:
        about = json.loads(file.metadata()["json"])
        assert set(file.metadata()) == {"json"}
        names = set(file.keys())
    assert about["format"] == 1 and about["name"] == "voxtral-length-1"
    schedule = {"left_pad_tokens": 4, "num_delay_tokens": 2, "prompt_len": 7}
    schedule |= {"right_pad_tokens": 13, "n_audio_tokens": 18, "bos": 1, "streaming_pad": 32}
    assert about.items() >= (schedule | {"eos": None, "vocab": 40}).items()
    assert about["decoder"].keys() == {"W", "L", "d", "h", "hd", "kv", "ff", "th", "eps"}
    assert about["encoder"].items() >= {"W": 24, "L": 2, "d": 12, "h": 2, "hd": 8}.items()
    assert "weight.lm_head.weight" not in names and "audio_i16" in names
    assert "weight.model.language_model.layers.1.ada_rms_norm.linear2.weight" in names


def test_malsd_files_are_checked_as_such_and_not_compared_with_voxtral_files(folder):
    search = folder / "malsd-merge-sums.json"
    assert check(search).ok and compare(search, search).ok
    with pytest.raises(GoldenError, match=r"merge-sums\.json: a malsd golden file"):
        compare(path_of(folder, "length-1"), search)
