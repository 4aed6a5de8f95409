"""The README's pictures are the figures of the committed notebooks."""

import re

import nbformat
import pytest

from vrt.lab import gallery


def test_pictures_are_the_notebooks_figures(repo_root):
    for name, content in gallery.pictures(repo_root / "notebooks").items():
        stored = (repo_root / "data/pictures" / name).read_bytes()
        assert stored == content, f"{name} is stale: make notebooks"


def test_the_readme_shows_them_all(repo_root):
    text = (repo_root / "README.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\]\(data/pictures/([\w-]+\.png)\)", text))
    assert shown >= set(gallery.FIGURES)


def test_a_figure_that_is_not_there_is_refused(repo_root, monkeypatch):
    monkeypatch.setitem(gallery.FIGURES, "none.png", ("11-one-iteration", 99))
    with pytest.raises(ValueError, match=r"11-one-iteration has . figures, .* number 99"):
        gallery.pictures(repo_root / "notebooks")


def test_the_readme_lists_every_notebook_by_its_question(repo_root):
    text = (repo_root / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"\| \[\d\d\]\((notebooks/[\w-]+\.ipynb)\) \| (.+) \|", text)
    found = {}
    for path in sorted((repo_root / "notebooks").glob("*.ipynb")):
        first = nbformat.read(path, as_version=4)["cells"][0]["source"].splitlines()[0]
        found[f"notebooks/{path.name}"] = first.removeprefix("# ")
    assert dict(listed) == found
