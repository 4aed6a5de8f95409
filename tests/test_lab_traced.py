"""Numbers traced to receipts: what is right, stale, or leads nowhere; and the receipts' table."""

import json
from dataclasses import replace

import pytest
from chart_values import drawn, rows_of

from vrt.lab.citation_map import HOLDS, STALE, citation_map
from vrt.lab.traced import documents, receipt_rows, traced
from vrt.receipt import Receipt, citations, digest


@pytest.fixture
def root(tmp_path):
    receipts = tmp_path / "data" / "receipts"
    for name in ("run", "other"):
        Receipt.begin({}, command="vrt x").end({"wer": 15.93, "words": 653}).write(
            receipts / f"{name}.json"
        )
    (tmp_path / "papers").mkdir()
    (tmp_path / "data" / "models" / "small").mkdir(parents=True)
    (tmp_path / "data" / "models" / "small" / "README.md").write_text("# A card\n")
    (tmp_path / "README.md").write_text(
        '# One\n\n[15.9](data/receipts/run.json "wer .1f")'
        ' of [653](data/receipts/run.json "words d")\n'
    )
    (tmp_path / "papers" / "note.md").write_text('[650](../data/receipts/run.json "words d")\n')
    return tmp_path


def all_of(root):
    return [number for file in documents(root) for number in traced(file, root)]


def test_documents_are_readme_papers_receipts_page_and_cards(root):
    names = [file.relative_to(root).as_posix() for file in documents(root)]
    assert names == ["README.md", "papers/note.md", "data/models/small/README.md"]


def test_right_and_stale_numbers(root):
    first, second, third = all_of(root)
    assert (first.now, second.now) == ("15.9", "653") and first.ok and second.ok
    assert (first.document, first.line, first.receipt, first.key) == (
        "README.md",
        3,
        "run",
        "wer .1f",
    )
    assert not third.ok and str(third) == "papers/note.md:1: '650' is '653' in run"


@pytest.mark.parametrize(
    ("target", "title", "why"),
    [
        ("run.json", "cer .1f", "no key 'cer'"),
        ("gone.json", "wer .1f", "cannot be read"),
        ("run.json", "wer", "no key and format"),
    ],
)
def test_what_leads_nowhere_says_why(root, target, title, why):
    (root / "README.md").write_text(f'[1.0](data/receipts/{target} "{title}")\n')
    (found,) = traced(root / "README.md", root)
    assert not found.ok and found.now is None and why in found.why and why in str(found)


def test_an_edited_receipt_is_told_in_the_table_and_at_its_numbers(root):
    file = root / "data" / "receipts" / "run.json"
    content = json.loads(file.read_text())
    content["numbers"]["words"] = 650
    file.write_text(json.dumps(content))
    assert all("was changed after" in number.why for number in all_of(root))
    other, run = receipt_rows(all_of(root), root)
    assert "was changed after" in run["seal"] and run["commit"] == "" and run["cited"] == 3
    assert other["seal"] == "holds" and other["cited"] == 0
    assert other.keys() == run.keys()


@pytest.mark.parametrize(
    ("dirty", "package"), [(True, "changed"), (False, "as committed"), (None, "no checkout")]
)
def test_the_table_tells_uncommitted_changes(root, dirty, package):
    begun = replace(Receipt.begin({}, command="vrt x"), dirty=dirty, commit="0123456789")
    begun.end({"a": 1}).write(root / "data" / "receipts" / "run.json")
    row = receipt_rows((), root)[1]
    assert row["package"] == package and row["commit"] == "0123456"
    assert len(row["date"]) == 10 and row["device"].endswith(" cores")


@pytest.mark.parametrize(
    ("model", "measured", "weights"),
    [
        ("small", b"now", "shipped"),
        ("small", b"before", "others"),
        ("absent", b"now", ""),
        ({"width": 8}, b"now", ""),
    ],
)
def test_the_table_tells_whether_the_shipped_weights_were_measured(root, model, measured, weights):
    (root / "data" / "models" / "small" / "model.safetensors").write_bytes(b"now")
    begun = Receipt.begin({"model": model}, command="vrt x")
    done = begun.end({"a": 1}, {"model.safetensors": digest(measured)})
    done.write(root / "data" / "receipts" / "run.json")
    other, run = receipt_rows((), root)
    assert (other["weights"], run["weights"]) == ("", weights)


def test_it_agrees_with_render_on_the_documents_of_this_repository(repo_root):
    for file in documents():
        _, stale = citations.render(file)
        assert len(stale) == sum(not number.ok for number in traced(file)), file.name
    assert len(documents()) > 10 and repo_root / "README.md" in documents()


def test_the_map_counts_and_marks_what_differs(root, tmp_path):
    numbers = all_of(root)
    chart = citation_map(numbers, ["other", "run"])
    drawn(chart, tmp_path)
    spec = chart.to_dict()
    rows = {row["document"]: row for row in rows_of(spec, "point")}
    assert (rows["README.md"]["count"], rows["README.md"]["state"]) == (2, HOLDS)
    assert (rows["papers/note.md"]["count"], rows["papers/note.md"]["state"]) == (1, STALE)
    assert spec["title"]["text"] == "3 cited numbers, 1 not as in its receipt"
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == ["other", "run"]
    with pytest.raises(ValueError, match="no number is cited"):
        citation_map([], ["run"])
