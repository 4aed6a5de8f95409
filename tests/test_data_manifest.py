"""Everything under data/audio is listed with its origin and is what the list says."""

import hashlib
import json

import pytest

from vrt.audio import SAMPLE_RATE, read
from vrt.receipt import digest

LARGEST = 500_000  # bytes
FIELDS = {"name", "sha256", "bytes", "samples", "seconds", "rate_hz", "channels"}
FIELDS |= {"transcript", "origin", "licence", "notes"}


@pytest.fixture(scope="module")
def listed(repo_root):
    manifest = json.loads((repo_root / "data/MANIFEST.json").read_text(encoding="utf-8"))
    return {f["name"]: f for f in manifest["files"] if f["name"].startswith("audio/")}


def stray(data, listed):
    """Names present but not listed, and listed but not present."""
    present = {p.relative_to(data).as_posix() for p in (data / "audio").rglob("*") if p.is_file()}
    return present ^ listed.keys()


def test_each_file_is_listed_and_each_listed_file_is_there(repo_root, listed):
    assert len(listed) >= 4
    assert stray(repo_root / "data", listed) == set()


def test_a_file_that_is_not_listed_is_found(tmp_path, listed):
    (tmp_path / "audio").mkdir()
    for name in [*listed, "audio/unlisted.wav"]:
        (tmp_path / name).touch()
    assert stray(tmp_path, listed) == {"audio/unlisted.wav"}


def test_digests_and_sizes_are_those_listed(repo_root, listed):
    for name, entry in listed.items():
        content = (repo_root / "data" / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"], name
        assert digest(repo_root / "data" / name) == entry["sha256"], name
        assert len(content) == entry["bytes"] <= LARGEST, name


def test_each_clip_is_read_without_a_change(repo_root, listed):
    for name, entry in listed.items():
        clip = read(repo_root / "data" / name)
        assert clip.changes == () and clip.original_rate == SAMPLE_RATE == entry["rate_hz"], name
        assert clip.original_channels == entry["channels"] == 1, name
        assert len(clip.samples) == entry["samples"], name
        assert clip.seconds == pytest.approx(entry["seconds"], abs=1e-9), name
        assert abs(clip.samples).max() > 0.1, name  # speech, not silence


def test_each_entry_tells_transcript_origin_and_licence(repo_root, listed):
    licences = (repo_root / "data/LICENSES.md").read_text(encoding="utf-8")
    for name, entry in listed.items():
        assert entry.keys() == FIELDS, name
        assert entry["transcript"].strip() and entry["notes"].strip(), name
        assert {"package", "version", "path", "sha256"} <= entry["origin"].keys(), name
        assert entry["licence"].startswith("BSD-2-Clause"), name
    assert "Copyright (c) 1999-2016 Carnegie Mellon University" in licences
    assert "five_five.flac" in licences and "sense_and_sensibility" in licences
