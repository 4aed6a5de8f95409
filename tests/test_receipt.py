"""A receipt comes back as written, shows an edit, and tells nothing of its machine's owner."""

import dataclasses
import hashlib
import json
import platform
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vrt.receipt import Receipt, ReceiptError, digest
from vrt.receipt.machine import commit_of, describe_device, installed_versions
from vrt.receipt.plain import plain, portable, portable_command

NUMBERS = {"stem": {"step_p50_ms": 0.1, "rows": 4}, "encoder": {"step_p50_ms": 12.345678901}}


CYCLE: list = []
CYCLE.append(CYCLE)


@pytest.fixture
def receipt():
    parameters = {"feed_ms": 80, "delay_ms": 480, "clip": Path("/srv/data/clips/five.flac")}
    run = Receipt.begin(parameters, "vrt stream five.flac --feed-ms 80")
    return run.end(NUMBERS, {"five.flac": digest(b"abc")})


def edited(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    return path


# --- written and read -----------------------------------------------------------------------------


def test_a_receipt_comes_back_as_it_was_written(receipt, tmp_path):
    path = receipt.write(tmp_path / "receipts" / "run.json")
    assert Receipt.load(path) == receipt
    assert list(path.parent.iterdir()) == [path]  # the file it was built in is gone


def test_the_text_is_the_same_whatever_order_names_were_given_in(receipt, tmp_path):
    numbers = {name: dict(reversed(v.items())) for name, v in reversed(receipt.numbers.items())}
    backwards = dataclasses.replace(receipt, numbers=numbers)
    first, second = receipt.write(tmp_path / "a.json"), backwards.write(tmp_path / "b.json")
    assert list(numbers) == ["encoder", "stem"] and first.read_bytes() == second.read_bytes()
    names = list(json.loads(first.read_text()))
    assert names == [f.name for f in dataclasses.fields(Receipt)]


def test_floats_are_readable_and_counts_are_whole(receipt, tmp_path):
    text = receipt.write(tmp_path / "run.json").read_text()
    assert '"step_p50_ms": 0.1\n' in text or '"step_p50_ms": 0.1,' in text
    assert "12.34568" in text and "12.345678901" not in text
    assert '"rows": 4' in text


def test_a_failed_write_leaves_the_old_receipt(receipt, tmp_path, monkeypatch):
    path = receipt.write(tmp_path / "run.json")
    before = path.read_bytes()

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        receipt.write(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_a_reader_of_the_old_receipt_keeps_it_whole(receipt, tmp_path):
    path = receipt.write(tmp_path / "run.json")
    before = path.read_text()
    with path.open() as file:
        Receipt.begin({}, "vrt").end({}).write(path)
        assert file.read() == before != path.read_text()


def test_a_receipt_without_an_end_is_not_written(tmp_path):
    with pytest.raises(ReceiptError, match="never ended"):
        Receipt.begin({}, "vrt bench").write(tmp_path / "run.json")
    assert list(tmp_path.iterdir()) == []


# --- refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["numbers"]["encoder"].update(step_p50_ms=1.5),
        lambda c: c["numbers"].pop("stem"),
        lambda c: c["parameters"].update(feed_ms=40),
        lambda c: c["digests"].update({"five.flac": "0" * 64}),
        lambda c: c.update(commit="0" * 40),
        lambda c: c["device"].update(cpu="a faster one"),
        lambda c: c.update(ended=c["started"][:-6] + "+01:00"),
        lambda c: c.update(seal="0" * 64),
    ],
)
def test_an_edit_is_detected(receipt, tmp_path, change):
    path = edited(receipt.write(tmp_path / "run.json"), change)
    with pytest.raises(ReceiptError, match="was changed after it was written"):
        Receipt.load(path)


def test_an_edit_in_memory_is_detected(receipt, tmp_path):
    receipt.verify()
    receipt.numbers["stem"]["step_p50_ms"] = 0.05
    with pytest.raises(ReceiptError, match="was changed"):
        receipt.verify()
    with pytest.raises(ReceiptError, match="was changed"):
        receipt.write(tmp_path / "run.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(schema=2), "schema 2; this version of vrt reads 1"),
        (lambda c: c.pop("schema"), "schema None"),
        (lambda c: c.pop("device"), r"missing \['device'\]"),
        (lambda c: c.update(hostname="x"), r"unknown \['hostname'\]"),
        (lambda c: c.update(numbers=[1]), r"\['numbers'\] should hold named values"),
        (lambda c: c.update(seal=None), "never ended"),
        (lambda c: c.update(seal=5), "the seal is 5, not a sha256"),
    ],
)
def test_what_is_no_receipt_is_refused_by_name(receipt, tmp_path, change, message):
    path = edited(receipt.write(tmp_path / "run.json"), change)
    with pytest.raises(ReceiptError, match=message):
        Receipt.load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "truncated or not JSON"),
        (b"[1]", "holds a list, not a receipt"),
        (b'{"schema": NaN}', "NaN is no number"),
        (b"\xff\xfe\x00", "truncated or not JSON"),
        (b'{"schema": 1e999}', "1e999 is no number"),
        (b'{"schema": -1e999}', "-1e999 is no number"),
        (b"[" * 100_000, "not JSON that a receipt may hold: .*recursion"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path, content, message):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(ReceiptError, match=message):
        Receipt.load(tmp_path / "x.json")


@pytest.mark.parametrize("before", ['"numbers": {', '"step_p50_ms": 0.1'])
def test_a_name_that_is_there_twice_is_refused(receipt, tmp_path, before):
    """The later one counts in Python, and would be what the seal fits."""
    path = receipt.write(tmp_path / "run.json")
    text = path.read_text()
    name = before.split('"')[1]
    value = "{}" if before.endswith("{") else "0.001"
    path.write_text(text.replace(before, f'"{name}": {value}, {before}', 1))
    assert len(path.read_text()) > len(text)
    with pytest.raises(ReceiptError, match=f"'{name}' is there twice"):
        Receipt.load(path)


@pytest.mark.parametrize(
    "value", [float("nan"), 10**5000, CYCLE, {1}], ids=["nan", "huge", "cycle", "set"]
)
def test_what_was_put_in_memory_is_refused_by_name(receipt, value):
    receipt.numbers["x"] = value
    with pytest.raises(ReceiptError, match="holds what JSON has no form for"):
        receipt.verify()


def test_a_command_of_any_bytes_is_written(tmp_path):
    run = Receipt.begin({}, ["vrt", "caf\udce9.flac"]).end({})
    assert Receipt.load(run.write(tmp_path / "run.json")).command == "vrt 'caf\\udce9.flac'"


def test_a_cut_receipt_is_refused_at_every_length(receipt, tmp_path):
    whole = receipt.write(tmp_path / "run.json").read_bytes()
    for size in range(0, len(whole) - 2, 97):  # the last two bytes are the brace and a newline
        (tmp_path / "cut.json").write_bytes(whole[:size])
        with pytest.raises(ReceiptError, match="truncated"):
            Receipt.load(tmp_path / "cut.json")


def test_a_missing_receipt_is_refused_by_name(tmp_path):
    with pytest.raises(ReceiptError, match="No such file"):
        Receipt.load(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"encoder": {"p50_ms": float("nan")}}, r"numbers\.encoder\.p50_ms is nan"),
        ({"rtf": [1.0, float("inf")]}, r"numbers\.rtf\[1\] is inf"),
        ({"x": np.float32("nan")}, r"numbers\.x is nan"),
        ({"x": np.zeros(3)}, r"numbers\.x is a ndarray"),
        ({"x": {1, 2}}, r"numbers\.x is a set"),
        ({"x": {"y": "\ud800"}}, r"numbers\.x\.y holds '\\ud800', which has no form in UTF-8"),
        ({"\ud800": 1}, r"numbers holds '\\ud800'"),
        ({"x": CYCLE}, "numbers contains itself, or is nested too deeply"),
        ({"/srv/a/x.wav": 1, "/srv/b/x.wav": 2}, "two names are the same"),
    ],
)
def test_numbers_without_a_form_are_refused_by_name(numbers, message):
    with pytest.raises(ReceiptError, match=message):
        Receipt.begin({}, "vrt").end(numbers)


def test_scalars_of_numpy_and_torch_and_dataclasses_become_plain():
    @dataclasses.dataclass
    class Config:
        beam: int

    given_ = {"a": np.float32(0.5), "b": torch.tensor(3), "c": np.int64(4), "d": Config(2), "e": ()}
    assert plain(given_, "x") == {"a": 0.5, "b": 3, "c": 4, "d": {"beam": 2}, "e": []}


# --- nothing of the machine's owner ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/srv/jane/audio/five.flac", "five.flac"),
        ("/srv/jane doe/My Files/a b.flac", "a b.flac"),
        ("~/audio/five.flac", "five.flac"),
        ("~jane/five.flac", "five.flac"),
        ("../../jane/five.flac", "five.flac"),
        ("data/../../jane/five.flac", "five.flac"),
        ("file:///srv/jane/five.flac", "five.flac"),
        ("saw file:///srv/jane/five.flac", "saw five.flac"),
        ("C:\\Data\\jane\\five.flac", "five.flac"),
        ("read /srv/jane/five.flac in 3 s", "read five.flac in 3 s"),
        ("a=/srv/jane/five.flac;b=C:\\jane\\x\\six.flac", "a=five.flac;b=six.flac"),
        ("data/audio/five.flac", "data/audio/five.flac"),
        ("mistralai/Voxtral-Mini-4B-Realtime-2602", "mistralai/Voxtral-Mini-4B-Realtime-2602"),
        ("https://example.org/a/b.flac", "https://example.org/a/b.flac"),
        ("tokens/s and 1/2 and 3 / 4 / 5", "tokens/s and 1/2 and 3 / 4 / 5"),
        ("...", "..."),
        ("", ""),
    ],
)
def test_paths_of_the_machine_become_names(text, expected):
    assert portable(text) == expected


def test_the_home_folder_loses_its_owner(monkeypatch):
    home = f"/{'home'}/jane"
    monkeypatch.setenv("HOME", home)
    assert portable(home) == "~"
    assert portable(f"cache in {home}") == "cache in ~"
    assert portable(f"{home}/a/five.flac") == "five.flac"
    assert "jane" not in portable(f"saw {home}/a/five.flac and {home}/six.flac")
    assert portable(f"{home}t") == "janet"  # another's folder, not this home and a letter


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["/opt/env/bin/vrt", "stream", "/srv/a/five.flac"], "vrt stream five.flac"),
        ("vrt stream '/srv/a b/five five.flac'", "vrt stream 'five five.flac'"),
        (["vrt", "bench", "--out=/srv/a/r.json", "--n=80"], "vrt bench --out=r.json --n=80"),
        (["vrt", "stream", "data/audio/five.flac"], "vrt stream data/audio/five.flac"),
    ],
)  # fmt: skip
def test_commands_are_portable(command, expected):
    assert portable_command(command) == expected


def test_a_receipt_names_no_folder_host_or_user(receipt, tmp_path, monkeypatch):
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(variable, "jane-doe")
    for module, name in ((platform, "node"), (socket, "gethostname"), (socket, "getfqdn")):
        monkeypatch.setattr(module, name, lambda *_: "janes-laptop")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "vrt"), "bench", f"--out={tmp_path}/r.json"])
    run = Receipt.begin({"clip": tmp_path / "five.flac", "home": Path.home()})
    text = (
        run.end({}, {str(tmp_path / "five.flac"): "0" * 64}).write(tmp_path / "r.json").read_text()
    )
    assert run.command == "vrt bench --out=r.json"
    assert str(tmp_path) not in text and str(Path.home()) not in text
    assert "jane" not in text
    assert not re.search(r'"[^"]*(?<![\w.:/])/[^"/]+/', text)


# --- what ran where -------------------------------------------------------------------------------


def test_versions_are_those_installed_and_nothing_is_imported():
    versions = installed_versions()
    assert versions["numpy"] == np.__version__ and versions["torch"] == torch.__version__
    assert versions["python"] == platform.python_version()
    assert "coremltools" not in versions or "9" in versions["coremltools"]
    code = (
        "import sys; from vrt.receipt import Receipt; Receipt.begin({}, 'x').end({});"
        "print([m for m in ('torch', 'transformers', 'soundfile', 'altair') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # `import vrt` itself may load torch; the others are never needed to write a receipt.
    assert set(re.findall(r"'(\w+)'", done.stdout)) <= {"torch"}


def test_the_device_is_described():
    device = describe_device()
    assert device["cores"] >= device["cores_usable"] >= 1
    assert device["threads"] == torch.get_num_threads()
    assert 2**28 < device["ram_bytes"] < 2**48
    assert device["cpu"] and device["system"] == platform.system()
    assert platform.release().startswith(device["system_release"])


def git(folder, *arguments):
    name = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_the_commit_is_that_of_the_code(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    file = package / "__init__.py"
    file.write_text("")
    assert commit_of(file) == (None, None)  # no checkout
    git(tmp_path, "init", "-q")
    assert commit_of(file) == (None, None)  # a checkout of something else: the file is not tracked
    git(tmp_path, "add", "package")
    assert commit_of(file) == (None, None)  # nothing committed yet
    git(tmp_path, "commit", "-q", "-m", "first")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert commit_of(file) == (head, False)
    (tmp_path / "receipt.json").write_text("{}")  # what a run leaves behind is not the code
    assert commit_of(file) == (head, False)
    (package / "new.py").write_text("")
    assert commit_of(file) == (head, True)
    (package / "new.py").unlink()
    file.write_text("x = 1")
    assert commit_of(file) == (head, True)


def test_a_receipt_without_git_has_no_commit(monkeypatch):
    monkeypatch.setenv("PATH", "")
    run = Receipt.begin({}, "vrt")
    assert run.commit is None and run.dirty is None


# --- digests --------------------------------------------------------------------------------------


def test_bytes_and_files_are_plain_sha256(tmp_path):
    (tmp_path / "x").write_bytes(b"abc")
    assert digest(b"abc") == digest(tmp_path / "x") == hashlib.sha256(b"abc").hexdigest()
    # FIPS 180-2, appendix B.1
    assert digest(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@given(st.lists(st.floats(width=32, allow_nan=False), max_size=9))
def test_equal_arrays_and_tensors_have_equal_digests(values):
    array = np.array(values, dtype=np.float32)
    same = (torch.from_numpy(array.copy()), array.astype(">f4"), np.repeat(array, 2)[::2])
    assert {digest(x) for x in same} == {digest(array)}


def test_value_dtype_and_shape_each_change_the_digest():
    base = np.zeros((2, 3), dtype=np.float32)
    other = base.copy()
    other[1, 2] = 1
    variants = [base, other, base.T, base.reshape(6), base.astype(np.int32), base.astype("f8")]
    assert len({digest(x) for x in variants}) == len(variants)


def test_tensors_of_every_kind_have_digests():
    x = torch.arange(6.0).reshape(2, 3)
    assert digest(x.T) == digest(x.T.contiguous()) == digest(x.T.numpy())
    assert digest(x.flatten()[::2]) == digest(x.flatten()[::2].clone())
    assert digest(x.bfloat16()) != digest(x)
    assert digest(x.requires_grad_()) == digest(x.detach())
    assert digest(torch.tensor(1.0)) == digest(np.float32(1.0)) != digest(torch.ones(1))
    assert digest(torch.zeros(0)) == digest(np.zeros(0, dtype=np.float32))


def test_a_set_of_weights_has_a_digest_by_name():
    a, b = torch.zeros(2), torch.ones(2)
    assert digest({"a": a, "b": b}) == digest({"b": b, "a": a})
    assert digest({"a": a, "b": b}) != digest({"a": b, "b": a})


@pytest.mark.parametrize("thing", ["a.wav", 3, None, np.array([None]), [1.0]])
def test_what_has_no_digest_is_refused(thing):
    with pytest.raises(TypeError, match="digest takes bytes, a Path, an array"):
        digest(thing)


def test_the_table_for_notebooks_is_escaped(receipt):
    run = Receipt.begin({}, ["vrt", "<b>"]).end({"encoder": {"step_p50_ms": 1.5}})
    shown = run._repr_html_()
    assert shown.startswith("<table>") and "encoder step_p50_ms" in shown and "1.5" in shown
    assert "<b>" not in shown and "&lt;b&gt;" in shown
