"""What the documents say: numbers are rendered from receipts, sources exist, commands give what
is shown."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from vrt.receipt import citations

PAPERS = "papers/*.md"
DOCUMENTS = ("README.md", PAPERS, "data/receipts/README.md")
# A decimal fraction or a number with an exponent: what a measurement looks like.
DECIMAL = re.compile(r"(?<![\w.])\d[\d,]*\.\d+(?:e-?\d+)?(?![\w.]*\d)|(?<![\w.])\d+e-?\d+")
LINK = re.compile(r"\[([^\[\]]*)\]\(([^()\s]+)(?:\s+\"([^\"]*)\")?\)")
KEY = re.compile(r"\[([a-z0-9]+(?:-[a-z0-9]+)*)\](?![\w(])")

# Decimals that nobody measured, with what stands around them; and why each is none.
CONSTANTS = {
    "transformers 5.24": "a version",
    "transformers 5.24.0": "a version",
    "torch 2.13": "a version",
    "coremltools 9.0": "a version",
    "Apache-2.0": "a licence's version",
    "1.5 million weights": "a size by the configuration",
    "2.5 ms": "40 samples at 16 kHz",
    "(3.0 MB": "a file's size",
    "(1.7 MB": "a file's size",
    "theta 1e6": "a constant of the model",
    "has 0.999": "the name of an arm: where it takes the greedy path",
    "has 0.9 ": "the name of an arm: where it takes the greedy path",
}
VERSION = re.compile(r"\b\d+\.\d+\.\d+\b")  # NeMo 3.0.0


def documents(root: Path) -> list[Path]:
    return [path for pattern in DOCUMENTS for path in sorted(root.glob(pattern))]


def uncited(text: str) -> list[str]:
    """Decimals outside code that are neither cited nor constants, each with its surroundings."""
    plain = LINK.sub(_without_citation, citations.without_code(text))
    for constant in CONSTANTS:
        plain = plain.replace(constant, " " * len(constant))
    plain = VERSION.sub("", plain)
    return [plain[max(0, n.start() - 20) : n.end() + 20].strip() for n in DECIMAL.finditer(plain)]


def _without_citation(link: re.Match) -> str:
    """Nothing of a number that a receipt or a source gives; of other links the text."""
    cited = link[2].endswith((".json", "references.bib")) and link[3]
    return " " if cited else link[1]


def test_every_number_of_a_receipt_is_up_to_date(repo_root):
    rendered = {path: citations.render(path) for path in documents(repo_root)}
    assert {"README.md", "bit-exact-streaming.md"} <= {path.name for path in rendered}
    assert [line for _, stale in rendered.values() for line in stale] == []
    assert sum(len(list(citations.find(text))) for text, _ in rendered.values()) > 100


def test_no_measured_number_is_typed(repo_root):
    found = {path.name: uncited(path.read_text("utf-8")) for path in documents(repo_root)}
    assert {name: numbers for name, numbers in found.items() if numbers} == {}


def test_every_constant_is_still_there(repo_root):
    texts = [citations.without_code(path.read_text("utf-8")) for path in documents(repo_root)]
    assert [constant for constant in CONSTANTS if not any(constant in t for t in texts)] == []


@pytest.mark.parametrize(
    "text",
    [
        "takes 0.6 of it",
        "| 4.4 |",
        "within 7e-7",
        "1/5.0",
        "1,234.5 ms",
        "[0.6] of",
        "-2.45",
        "[0.6](README.md)",
    ],
)
def test_a_typed_number_is_found(text):
    assert uncited(text)


@pytest.mark.parametrize(
    "text",
    [
        "NeMo 3.0.0 and transformers 5.24",
        "`0.6` of it",
        "```sh\nvrt 0.6\n```\n",
        '[0.6](data/receipts/a.json "b .1f") of it',
        "malsd.py, 80 ms, v2.md",
    ],
)
def test_what_is_no_measured_number_is_let_alone(text):
    assert uncited(text) == []


def keys_used(text: str) -> Counter:
    """Keys of sources: as [key], and as the title of a number that links to the references."""
    plain = citations.without_code(text)
    quoted = [title for _, target, title in LINK.findall(plain) if "references.bib" in target]
    return Counter([*KEY.findall(plain), *(title for title in quoted if title)])


def test_every_source_that_is_named_exists_and_every_one_is_named(repo_root):
    entries = (repo_root / "papers/references.bib").read_text("utf-8")
    known = Counter(re.findall(r"^@\w+\{([^,]+),$", entries, re.MULTILINE))
    assert entries.count("\n@") + 1 == sum(known.values()) and set(known.values()) == {1}
    assert entries.count("{") == entries.count("}")
    used = sum((keys_used(path.read_text("utf-8")) for path in repo_root.glob(PAPERS)), Counter())
    assert used.keys() == known.keys()


def test_every_entry_says_who_or_what_and_when_or_where(repo_root):
    entries = (repo_root / "papers/references.bib").read_text("utf-8").split("\n@")
    for entry in entries:
        names = set(re.findall(r"^\s+(\w+)\s*=", entry, re.MULTILINE))
        assert "title" in names and names & {"year", "url", "note"}, entry


def test_each_note_asks_in_its_title_and_answers_below(repo_root):
    for path in repo_root.glob(PAPERS):
        title, *rest = path.read_text("utf-8").splitlines()
        second = next(line for line in rest if line)
        assert title.startswith("# ") and "?" in title, path.name
        assert second.startswith("**Answer.** ") or path.name == "README.md", path.name


def test_links_lead_to_files(repo_root):
    lost = [
        f"{path.name}: {target}"
        for path in documents(repo_root)
        for _, target, _ in LINK.findall(citations.without_code(path.read_text("utf-8")))
        if "://" not in target and not (path.parent / target.partition("#")[0]).exists()
    ]
    assert lost == []


def test_golden_files_and_tests_that_are_named_exist(repo_root):
    text = "\n".join(path.read_text("utf-8") for path in repo_root.glob(PAPERS))
    assert all((repo_root / name).exists() for name in re.findall(r"`(tests/\w+\.py)`", text))
    note = (repo_root / "papers/nemo-malsd.md").read_text("utf-8")
    rows = re.findall(r"^\|[^|]*\|[^|]*\|([^|]*)\|$", note, re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`([a-z-]+\*?)`", row)]
    assert len(names) > 8
    assert [n for n in names if not list((repo_root / "data/golden").glob(f"malsd-{n}.json"))] == []


def test_the_index_of_notes_is_complete(repo_root):
    index = (repo_root / "papers/README.md").read_text("utf-8")
    notes = {path.name for path in repo_root.glob(PAPERS)} - {"README.md"}
    assert set(re.findall(r"^\| \[[\w-]+\]\(([\w-]+\.md)\)", index, re.MULTILINE)) == notes


def commands_of(page: str) -> list[tuple[str, str | None]]:
    """Each `sh` block with the `text` block that follows it, or None."""
    blocks = re.findall(r"^```(sh|text)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    following = [*blocks[1:], ("", "")]
    return [
        (text, after if shows == "text" else None)
        for (kind, text), (shows, after) in zip(blocks, following, strict=True)
        if kind == "sh"
    ]


@pytest.fixture
def shell(tmp_path, repo_root):
    """Runs a block of the page as a reader would, in a folder where `data` is the repository's."""
    (tmp_path / "data").symlink_to(repo_root / "data")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, module in (("python", ""), ("vrt", "-m vrt")):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        (tools / name).chmod(0o755)
    path = {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(repo_root)}

    def run(block: str) -> str:
        command = ["bash", "-c", block]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.stderr == ""
        return done.stdout

    return run


def test_the_ten_minutes_give_what_the_page_shows(shell, repo_root):
    """Two ports with a mistake each: named at its stage and index, and gone once mended.

    Numbers may differ in the last digits by another FFT or numpy.
    """
    page = (repo_root / "papers/port-in-ten-minutes.md").read_text("utf-8")
    blocks = commands_of(page)
    shown = [after for _, after in blocks if after]
    assert len(blocks) == 6 and len(shown) == 5
    assert [text.partition(" ")[0] for text in shown] == ["FAIL", "ok", "ok", "FAIL", "ok"]
    for block, expected in blocks:
        printed = shell(block)
        if expected is None:
            assert printed == ""
            continue
        number = re.compile(r"-?\d+\.\d+(?:e[+-]\d+)?")
        assert number.sub("N", printed) == number.sub("N", expected)
        got, want = (list(map(float, number.findall(text))) for text in (printed, expected))
        assert got == pytest.approx(want, rel=1e-2)
