"""Numbers of documents rendered from receipts: what is shown, what is refused, by name."""

import json

import pytest
from commands import fails, run

from vrt.receipt import Receipt, ReceiptError, citations
from vrt.receipt.keys import leaves, value_at

NUMBERS = {
    "wer_percent": 15.92649,
    "difference": 7.152557e-07,
    "words": 653,
    "frames": 23972,
    "zero": 0,
    "small": -0.0004,
    "verdict": "kept",
    "right": True,
    "nothing": None,
    "a/b~c": {"lj/1.flac": 2.5},
    "rows": [
        {"case": "greedy, B=1", "threads": 1, "ms": 84.9},
        {"case": "beam 8, B=1", "threads": 1, "ms": 308.6},
        {"case": "beam 8, B=1", "threads": 2, "ms": 200.0},
    ],
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "papers").mkdir()
    Receipt.begin({}, command="vrt test").end(NUMBERS).write(tmp_path / "receipts/run.json")
    return tmp_path


def cite(title: str, shown: str = "?", target: str = "receipts/run.json") -> str:
    return f'[{shown}]({target} "{title}")'


def written(folder, text: str, name: str = "README.md"):
    path = folder / name
    path.write_bytes(text.encode())
    return path


def rendered(folder, title: str) -> str:
    text, _ = citations.render(written(folder, cite(title)))
    (found,) = citations.find(text)
    assert found.title == title and found.target == "receipts/run.json"
    return found.shown


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("wer_percent .1f", "15.9"),
        ("wer_percent +.2f", "+15.93"),
        ("wer_percent /100 .1%", "15.9%"),
        ("wer_percent 1/x .3f", "0.063"),
        ("difference .1e", "7.2e-7"),
        ("difference *1e6 .2f", "0.72"),
        ("words d", "653"),
        ("words .1e", "6.5e2"),
        ("frames ,d", "23,972"),
        ("frames /4 ,.0f", "5,993"),
        ("zero .1f", "0.0"),
        ("small .0f", "0"),
        ("small +.1f", "+0.0"),
        ("verdict s", "kept"),
        ("a~1b~0c/lj~11.flac .1f", "2.5"),
        ("rows/1/ms .0f", "309"),
        ("rows/case=greedy, B=1/ms .1f", "84.9"),
        ("rows/case=beam 8, B=1&threads=2/ms .0f", "200"),
        ("rows/1/ms over rows/0/ms .1f", "3.6"),
        ("rows/case=greedy, B=1/ms over rows/1/ms *100 .0f", "28"),
    ],
)
def test_a_number_is_rendered(folder, title, shown):
    assert rendered(folder, title) == shown


@pytest.mark.parametrize(
    ("title", "says"),
    [
        ("wer .1f", r"no key 'wer' in the receipt; there are a~1b~0c, difference"),
        ("rows/3/ms .1f", r"no item '3' in 'rows': a list of 3"),
        ("rows/-1/ms .1f", r"no item '-1'"),
        ("rows/case=beam 8, B=1/ms .1f", r"2 items with 'case=beam 8, B=1' in 'rows', not one"),
        ("rows/case=k2/ms .1f", r"0 items"),
        ("words/more d", r"'words' is the value 653 and has no 'more' inside"),
        ("rows .1f", r"leads to a list of 3, no number"),
        ("rows/0 .1f", r"leads to a part with case, ms, threads, no number"),
        ("right d", r"leads to True, no number"),
        ("nothing .1f", r"leads to None, no number"),
        ("verdict *2 .1f", r"leads to 'kept', no number to calculate with"),
        ("words over zero .1f", r"653 would be divided by 0"),
        ("zero 1/x .1f", r"divided by 0"),
        ("wer_percent d", r"the format 'd' does not fit 15.92649"),
        ("verdict .1f", r"the format '.1f' does not fit 'kept'"),
        ("wer_percent s", r"the format 's' does not fit"),
        ("wer_percent", r"no key and format"),
        ("wer_percent .1", r"no key and format"),
        ("", r"no key and format"),
    ],
)
def test_a_mistake_is_named_with_its_line(folder, title, says):
    document = written(folder, f"# One?\n\n{cite(title)}\n")
    with pytest.raises(
        citations.CitationError, match=r"README\.md:3: receipts/run\.json: .*" + says
    ):
        citations.render(document)


def test_a_missing_and_a_damaged_receipt_are_named(folder):
    with pytest.raises(ReceiptError, match=r"README\.md:1: receipts/gone\.json: .*cannot be read"):
        citations.render(written(folder, cite("words d", target="receipts/gone.json")))
    path = folder / "receipts/run.json"
    content = json.loads(path.read_text())
    content["numbers"]["words"] = 654
    path.write_text(json.dumps(content))
    with pytest.raises(
        ReceiptError, match=r"README\.md:1: receipts/run\.json: .*was changed after"
    ):
        citations.render(written(folder, cite("words d")))


def test_targets_are_seen_from_the_document(folder):
    note = written(folder, cite("words d", target="../receipts/run.json"), "papers/note.md")
    assert citations.render(note)[0] == cite("words d", "653", "../receipts/run.json")
    with pytest.raises(ReceiptError, match="cannot be read"):
        citations.render(written(folder, cite("words d"), "papers/note.md"))


@pytest.mark.parametrize(
    "code", ["`{}`", "`` a `{}` b ``", "```sh\n{}\n```\n", "  ~~~\n  {}\n  ~~~\n", "`a\n{} b`"]
)
def test_code_holds_examples(folder, code):
    text = code.format(cite("gone .1f", "1.0")) + "\n"
    assert citations.render(written(folder, text)) == (text, [])


def test_a_lonely_backtick_hides_nothing_beyond_its_paragraph(folder):
    text = f"a ` b\n\n{cite('words d')} `\n"
    assert len(citations.render(written(folder, text))[1]) == 1


def test_only_the_numbers_change(folder):
    text = f"| a | {cite('words d')} |\r\n\r\n[run](receipts/run.json) — {cite('zero d', '0')}\r\n"
    new, stale = citations.render(written(folder, text))
    assert new == text.replace("[?]", "[653]")
    assert len(stale) == 1 and "README.md:1: '?' is '653' in run.json (words d)" in stale[0]


def test_leaves_and_keys_are_inverse():
    found = dict(leaves(NUMBERS))
    assert found["a~1b~0c/lj~11.flac"] == 2.5 and found["rows/2/ms"] == 200.0
    assert {key: value_at(NUMBERS, key) for key in found} == found


def test_render_writes_and_check_does_not(folder):
    note = written(folder, f"{cite('words d', '650')} and {cite('zero d', '0')}")
    checked = run("receipt", "render", "--check", note)
    assert checked.exit_code == 1 and "'650' is '653'" in checked.stdout
    assert "1 stale" in checked.stderr and "650" in note.read_text()
    assert run("receipt", "render", note).exit_code == 0
    assert note.read_text() == f"{cite('words d', '653')} and {cite('zero d', '0')}"
    again = run("receipt", "render", "--check", note)
    assert (again.exit_code, again.stdout) == (0, "")


def test_nothing_is_written_where_one_document_cannot_be_rendered(folder):
    good, bad = written(folder, cite("words d")), written(folder, cite("wer .1f"), "b.md")
    fails(run("receipt", "render", good, bad), 1, "b.md:1", "no key 'wer'")
    assert good.read_text() == cite("words d")
    fails(run("receipt", "render", folder / "none.md"), 1, "none.md", "No such file")
    bad.write_bytes(b"\xff\xfe")
    fails(run("receipt", "render", bad), 1, "b.md is not UTF-8")


def test_show_prints_keys_that_lead_to_the_values(folder):
    path = folder / "receipts/run.json"
    shown = run("receipt", "show", path)
    assert shown.exit_code == 0 and "command   vrt test" in shown.stdout
    lines = shown.stdout.split("\n\n")[1].splitlines()
    assert {tuple(line.rsplit("  ", 1)) for line in lines if line.startswith("rows/1")} == {
        (f"{f'rows/1/{name}':18}", value)
        for name, value in (("case", "beam 8, B=1"), ("ms", "308.6"), ("threads", "1"))
    }
    assert run("receipt", "show", path, "rows/case=greedy, B=1/ms").stdout == "84.9\n"
    assert run("receipt", "show", path, "verdict").stdout == "kept\n"
    fails(run("receipt", "show", path, "rows/9"), 1, "no item '9'")
    fails(run("receipt", "show", folder / "none.json"), 1, "none.json")
