"""The widgets' kernel side without a browser: messages of the live view, explorers, fallbacks."""

import json
import re
import threading
import time
from itertools import pairwise
from math import exp, log
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("anywidget", reason="needs vrt[notebook]")

import vrt
from vrt.audio import read
from vrt.golden.errors import GoldenError
from vrt.lab import growth
from vrt.lab.beam_steps import LABEL, beam_steps
from vrt.lab.shipped import golden
from vrt.lab.show import BATCH
from vrt.lab.widgets import (
    Limits,
    LiveStream,
    beam_explorer,
    beam_text,
    cut,
    front,
    live,
    live_rows,
    offline_text,
    ring_explorer,
    ring_rows,
)
from vrt.lab.widgets.stream import Snapshot
from vrt.lab.widgets.wire import KEPT_PIECES, Wire
from vrt.paths import data_dir
from vrt.rnnt.config import BeamConfig
from vrt.rnnt.malsd import malsd
from vrt.rnnt.toy import ToyScorer, toy_frames
from vrt.rnnt.trace import Trace
from vrt.voxtral.cache import KVRing

PATIENT = 60
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def digits():
    return vrt.load("digits-rnnt")


@pytest.fixture(scope="module")
def clip(repo_root: Path):
    return read(repo_root / "data" / "audio" / "five_five.flac")


class Page:
    """A browser's side of a view: what it is sent, and what it sends."""

    def __init__(self, view) -> None:
        self.view, self.messages = view, []
        view.send = self.messages.append
        self.text, self.levels, self.ms = "", [], []

    def say(self, content: dict, *buffers: bytes) -> None:
        self.view._on_message(self.view, content, list(buffers))

    def block(self, chunk, **more) -> None:
        content = {"kind": "block", "recording": chunk.recording, "sequence": chunk.sequence}
        content |= {"start": chunk.start, "rate_hz": chunk.rate_hz, "last": chunk.last, **more}
        self.say(content, *([] if chunk.last else [memoryview(chunk.samples.tobytes())]))

    def of_kind(self, kind: str) -> list[dict]:
        return [message for message in self.messages if message["kind"] == kind]

    def wait(self) -> dict:
        """The last update of a recording that is over, all of them put together as a page does."""
        self.view.stream.wait(PATIENT)
        end = time.monotonic() + PATIENT
        while time.monotonic() < end:
            updates = self.of_kind("update")
            if updates and updates[-1]["phase"] in ("finished", "failed"):
                for update in updates:
                    self.text = self.text[: update["text_from"]] + update["text"]
                    self.ms[update["ms_from"] :] = update["ms"]
                    self.levels[update["levels_from"] :] = update["levels"]
                return updates[-1]
            time.sleep(0.01)
        raise AssertionError(f"no last update among {len(self.messages)} messages")


# --- the live view ----------------------------------------------------------------------------


def test_page_that_sends_blocks_gets_the_offline_text_and_every_piece(digits, clip):
    page = Page(live(digits, title="digits"))
    for chunk in cut(clip.samples, 16_000, recording=1000):
        page.block(chunk, transport_ms=12.5)
    last = page.wait()
    assert page.text == offline_text(digits, clip.samples) == "five five"
    snapshot = page.view.stream.snapshot()
    assert page.ms == list(snapshot.compute_ms) and len(page.ms) == 20
    assert page.levels == list(snapshot.levels)
    assert (last["recording"], last["newest"], last["phase"]) == (1000, 20, "finished")
    assert last["latency"]["pieces"] == 20 and last["beam"][0]["text"] == "five five"
    assert page.view.transport_ms == 12.5
    json.dumps(page.messages)  # a message is JSON


def test_play_gives_the_text_of_the_file_and_at_most_ten_updates_a_second(digits, clip):
    page = Page(live(digits, clip))
    assert page.view.info["source"] == "five_five.flac"
    start = time.monotonic()
    page.say({"kind": "play", "setting": 400})
    page.wait()
    took = time.monotonic() - start
    assert page.text == "five five" and page.view.stream.setting == 400
    assert len(page.of_kind("update")) <= 10 * took + 2


def test_a_page_that_comes_later_gets_everything(digits, clip):
    page = Page(live(digits, clip))
    page.say({"kind": "play"})
    page.wait()
    page.messages.clear()
    page.say({"kind": "hello", "number": 1})
    hello, whole = page.messages
    assert hello == {"kind": "hello", "main": True, "number": 1}
    assert whole["text_from"] == whole["ms_from"] == 0 and whole["text"] == "five five"
    page.say({"kind": "hello", "number": 2})
    assert len(page.messages) == 3  # said once


def test_hello_tells_whether_another_thread_answers(digits):
    page = Page(live(digits))
    thread = threading.Thread(target=page.say, args=({"kind": "hello", "number": 3},))
    thread.start()
    thread.join()
    assert page.messages == [{"kind": "hello", "main": False, "number": 3}]


def test_what_is_wrong_with_a_message_reaches_the_page(digits, clip, tmp_path):
    page = Page(live(digits))
    page.say({"kind": "play"})
    assert "made without a file" in page.messages[-1]["message"]
    page.say({"kind": "play", "setting": 17})
    assert "settle after 17 is not offered" in page.messages[-1]["message"]
    first, second, *_ = cut(clip.samples, 16_000)
    page.block(first, setting=17)
    assert page.messages[-1]["kind"] == "refused"
    page.block(first)
    page.say(
        {"kind": "block", "recording": 1, "sequence": 1, "start": 0, "rate_hz": 16_000}, b"123"
    )
    page.block(second)
    page.say({"kind": "stop"})
    last = page.wait()
    assert last["counts"]["malformed"] == 1 and "got 3 bytes" in last["message"]
    missing = Page(live(digits, tmp_path / "gone.wav"))
    missing.say({"kind": "play"})
    assert "cannot be opened" in missing.messages[-1]["message"]
    missing.say({"kind": "nonsense"})  # a page of another version


def test_closing_a_view_gives_its_recording_up(digits, clip):
    view = live(digits)
    page = Page(view)
    page.block(cut(clip.samples, 16_000)[0])
    view.close()
    assert view.stream.wait(PATIENT).phase == "given up"


def test_live_takes_a_name_and_says_what_it_cannot_take():
    view = live("digits-rnnt", setting=800, beam_size=3, limits=Limits(queue_s=2))
    assert view.info["title"] == "digits-rnnt" and view.info["what"] == "transducer, beam of 3"
    assert view.info["setting"]["values"][view.info["setting"]["index"]] == 800
    assert view.info["queue_s"] == 2
    with pytest.raises(TypeError, match="live takes a model"):
        live(17)
    with pytest.raises(ValueError, match="beam_size 99 is larger"):
        live("digits-rnnt", beam_size=99)


def test_wire_sends_what_is_new_and_no_more_than_is_drawn():
    wire = Wire()
    ms, levels = tuple(map(float, range(1000))), tuple(map(float, range(4000)))
    first = wire.update(Snapshot(text="ab", compute_ms=ms, levels=levels), 1)
    assert (first["text_from"], first["text"]) == (0, "ab")
    assert first["ms_from"] == 1000 - KEPT_PIECES and first["ms"] == list(ms[-KEPT_PIECES:])
    assert first["levels_from"] == 4 * first["ms_from"] and len(first["levels"]) == 4 * KEPT_PIECES
    grown = Snapshot(text="abc", compute_ms=(*ms, 5.0), levels=(*levels, 1.0, 2.0, 3.0, 4.0))
    second = wire.update(grown, 1)
    assert (second["text_from"], second["text"]) == (2, "c") and second["ms"] == [5.0]
    assert second["levels"] == [1.0, 2.0, 3.0, 4.0]
    assert wire.update(Snapshot(text="x"), 2)["text_from"] == 0  # another recording
    assert wire.update(Snapshot(text="x"), 2)["text"] == ""
    assert wire.update(Snapshot(text="x"), 2, whole=True)["text"] == "x"


# --- rows and charts --------------------------------------------------------------------------


def test_rows_are_what_a_stream_shows(digits, clip):
    rows = live_rows(digits, clip.samples, 400)
    stream = LiveStream(digits, 400)
    stream.play(clip, realtime=False)
    assert rows[-1]["text"] == stream.wait(PATIENT).text and rows[-1]["tentative"] == ""
    assert len(rows) == 21 and rows[0]["heard_s"] == 0.08 and rows[-1]["heard_s"] == clip.seconds
    assert all(new["text"].startswith(old["text"]) for old, new in pairwise(rows))
    assert rows == live_rows(digits, clip.samples, 400)


def test_growth_has_one_bar_a_text_and_they_follow_on_one_another(digits, clip):
    rows = live_rows(digits, clip.samples)
    screens = growth.screen_rows(rows)
    assert [s["whole"] for s in screens][-2:] == ["five five", "five five"]
    assert [s["kind"] for s in screens[-2:]] == [growth.OPEN, growth.CERTAIN]
    assert all(a["to"] == b["from"] for a, b in pairwise(screens))
    chart = growth.text_growth(rows, clip.samples).to_dict()
    assert "0.72 s of audio" in chart["title"]["text"]
    with pytest.raises(ValueError, match="no text showed in 1 rows"):
        growth.text_growth([{"text": "", "tentative": "", "heard_s": 0.1}], clip.samples)


# --- the beam explorer ------------------------------------------------------------------------

SEARCHES = [
    path.stem
    for path in sorted((data_dir() / "golden").glob("malsd-*.json"))
    if golden(path.stem).expected.get("trace")
]


@pytest.mark.parametrize("name", SEARCHES)
def test_every_golden_search_can_be_stepped_through(name):
    explorer = beam_explorer(name)
    file = golden(name)
    assert len(explorer.searches) == len(file.problem["config"]["lengths"])
    for number, search in enumerate(explorer.searches):
        trace = file.expected["trace"]
        assert len(search["steps"]) == len(search["sentences"]) == len(trace) + 1
        for step, found in zip(trace, search["steps"][1:], strict=True):
            alive = {k for k, flag in enumerate(step["alive"][number]) if flag}
            assert {slot["slot"] for slot in found if not slot["merged"]} == alive
            merged = {
                k for g in step["recombined"][number] for k in g["slots"] if k not in g["kept"]
            }
            assert {slot["slot"] for slot in found if slot["merged"]} == merged
            for slot in found:
                if not slot["merged"]:
                    assert slot["score"] == float(step["score"][number][slot["slot"]])
    json.dumps(explorer.searches, allow_nan=False)


def test_merge_by_hand_is_told_in_words():
    columns = beam_steps(golden("malsd-merge-sums"))
    (lost,) = [move for column in columns for move in column if move.merged_into is not None]
    (kept,) = [m for m in columns[lost.iteration] if m.slot == lost.merged_into]
    # The file's note: 0.4 and 0.24 end as 0.64.
    assert {round(exp(kept.score_pruned), 2), round(exp(lost.score_pruned), 2)} == {0.4, 0.24}
    assert kept.score == pytest.approx(log(0.64), abs=1e-6)
    shown = beam_text("malsd-merge-sums", lost.iteration)
    assert f"merged into {kept.slot}" in shown and "keeps the sum" in shown
    assert f"Slot {lost.slot} spells the same as slot {kept.slot}" in shown


def test_own_search_with_names():
    trace = Trace()
    scorer = ToyScorer(3, "logprob", {}, None, [log(0.5), log(0.2), log(0.3)])
    malsd(scorer, toy_frames(1, 3), torch.tensor([3]), BeamConfig(beam_size=2), trace)
    explorer = beam_explorer(trace, names={0: "ja", 1: "nein"})
    labels = [
        s["took"] for step in explorer.searches[0]["steps"] for s in step if s["kind"] == LABEL
    ]
    assert labels and set(labels) <= {"‘ja’", "‘nein’"}
    assert "ja" in explorer.searches[0]["steps"][-1][0]["said"]


def test_explorer_keeps_its_place_inside_the_search():
    explorer = beam_explorer("malsd-merge-many")
    explorer.iteration = 99
    assert explorer.iteration == 14 and explorer.text.startswith("iteration 14 of 14")
    explorer.iteration = -3
    assert explorer.iteration == 0 and "starts with one empty hypothesis" in explorer.text
    explorer.utterance = 7
    assert explorer.utterance == 1


def test_what_cannot_be_explored_is_named(tmp_path):
    with pytest.raises(GoldenError, match="did you mean malsd-bigram"):
        beam_explorer("malsd-bigramm")
    with pytest.raises(ValueError, match="no iteration to show: RuntimeError"):
        beam_explorer("malsd-zero-length-error")
    with pytest.raises(GoldenError):
        beam_explorer(data_dir() / "golden" / "voxtral-eos.safetensors")
    other = tmp_path / "other.json"
    other.write_text('{"expected": {}}')
    with pytest.raises(GoldenError, match="holds no beam search"):
        beam_explorer(other)
    with pytest.raises(IndexError, match=re.escape("iteration 15 is not one of 0..14")):
        beam_text("malsd-merge-many", 15)


# --- the ring explorer ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "chunk", "capacity"), [(5, 1, 5), (5, 2, 9), (6, 4, 16), (3, 4, 6)]
)
def test_ring_rows_against_what_a_ring_hands_out(window, chunk, capacity):
    """The states, against the keys that `KVRing.last` gives to a chunk's queries."""
    ring = KVRing(1, 1, window, chunk, torch.float32, torch.device("cpu"), capacity)
    for row in ring_rows(window, chunk, capacity, 12):
        keys = torch.arange(row.chunk * chunk, (row.chunk + 1) * chunk).float() + 1
        ring.append(keys.reshape(1, chunk, 1), keys.reshape(1, chunk, 1))
        seen = ring.last(window - 1 + chunk)[0][0, :, 0].tolist()
        inside = [
            frame
            for frame, state in zip(row.frames, row.states, strict=True)
            if state in ("new", "past", "before")
        ]
        assert [0 if frame is None else frame + 1 for frame in inside] == seen
        assert row.states.count("new") == chunk
        assert (row.cursor, row.seen, row.compactions) == (ring.cursor, ring.seen, ring.compactions)
    assert row.compactions > 0


def test_ring_explorer_follows_its_sizes_and_keeps_the_last_ring_that_was_one():
    explorer = ring_explorer(5, 2)
    assert explorer.capacity == 12 and explorer.rows == ring_rows(5, 2, 12, len(explorer.rows))
    before = explorer.steps
    explorer.capacity = 5
    assert "capacity 5 is below window + max_chunk - 1 = 6" in explorer.message
    assert explorer.steps == before
    explorer.capacity = 6
    assert explorer.message == "" and len(explorer.steps[0]["frames"]) == 6
    assert any(row.moved for row in explorer.rows)
    explorer.step = 1
    assert explorer.text == "chunk 1: ~ ~ 0 1 [2] [3]"
    with pytest.raises(ValueError, match="is below window"):
        ring_explorer(5, 2, 3)
    with pytest.raises(ValueError, match=re.escape("capacity must be 1..512")):
        ring_rows(5, 2, 1000)


def test_ring_line_by_hand():
    # Window 3, chunk 1, 4 slots: two slots stand for before; frame 0 in slot 2, 1 in slot 3; then
    # the newest two move to the front and frame 2 is written behind them.
    lines = [str(row) for row in ring_rows(3, 1, 4, 4)]
    assert lines[0] == "chunk 0: ~ ~ [0] ·"
    assert lines[1] == "chunk 1: · ~ 0 [1]"
    assert lines[2] == "chunk 2: 0 1 [2] (1)"
    assert lines[3] == "chunk 3: (0) 1 2 [3]"


# --- where there is no browser ----------------------------------------------------------------


@pytest.mark.parametrize("batch", [False, True])
def test_saved_file_has_text_and_a_batch_has_no_widget(monkeypatch, digits, batch):
    monkeypatch.delenv(BATCH, raising=False)
    if batch:
        monkeypatch.setenv(BATCH, "1")
    for widget in (live(digits), beam_explorer("malsd-merge-sums"), ring_explorer()):
        shown = widget._repr_mimebundle_()
        data = shown[0] if isinstance(shown, tuple) else shown
        assert (WIDGET in data) is not batch
        assert "open this notebook in JupyterLab" in data["text/plain"]
        assert data["text/html"].startswith("<p><i>") and "<script" not in data["text/html"]


def test_front_end_is_whole_and_asks_nobody_for_anything():
    for names in (("common", "microphone", "live"), ("common", "beam"), ("common", "ring")):
        module = front.module(*names)
        assert module.count("export default") == 1
        hosts = set(re.findall(r"https?://[\w.]+", module + front.style()))
        assert hosts <= {"http://www.w3.org"}  # the name of SVG, which is no address
        assert "import " not in re.sub(r"//.*|\"[^\"]*\"|`[^`]*`", "", module)


def test_buffers_are_copied(digits, clip):
    page = Page(live(digits))
    first, *_ = cut(clip.samples, 16_000)
    buffer = bytearray(first.samples.tobytes())
    content = {"kind": "block", "recording": 1, "sequence": 0, "start": 0, "rate_hz": 16_000}
    page.say(content, memoryview(buffer))
    buffer[:] = np.full(len(first.samples), np.nan, "<f4").tobytes()
    page.say({"kind": "stop"})
    assert page.wait()["phase"] == "finished"
