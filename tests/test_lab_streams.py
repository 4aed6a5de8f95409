"""Charts of streams: rings, reach, drift, delays, latency, spectrograms; and what they are fed."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from chart_values import drawn, layers, rows_of

import vrt
from vrt.audio import read
from vrt.lab.delays import APPEARS, AT_END, word_delays
from vrt.lab.devices import by_device, voxtral_benches
from vrt.lab.drift import drift, finding
from vrt.lab.latency import bench_rows, latency_by_stage, stage_rows
from vrt.lab.layers import layer_rows
from vrt.lab.modulo_ring import ModuloRing, first_wrong_frame
from vrt.lab.reach import reach_map, window_rows
from vrt.lab.recordings import recording
from vrt.lab.ring_sizes import first_wrong_frames, smallest_right
from vrt.lab.spectrogram import spectrogram
from vrt.lab.streamed import pieces, stream_clip
from vrt.lab.timeline import delay_timeline
from vrt.paths import data_dir
from vrt.receipt import Receipt
from vrt.voxtral.cache import KVRing
from vrt.voxtral.config import DecoderConfig, EncoderConfig, VoxtralConfig
from vrt.voxtral.encoder import group_mask
from vrt.voxtral.offline import transcribe
from vrt.voxtral.weights.random_model import random_model

WINDOW, FRAMES = 12, 48


@pytest.fixture(scope="module")
def encoder():
    decoder = DecoderConfig(width=16, layers=1, heads=2, kv_heads=1, head_dim=8, ff=16, vocab=64)
    config = VoxtralConfig(EncoderConfig(24, 1, 2, 8, 32, WINDOW), decoder)
    return random_model(config, seed=0).encoder


@pytest.fixture(scope="module")
def x():
    return torch.randn(FRAMES, 24, generator=torch.Generator().manual_seed(0))


# --- how large a ring


def test_a_modulo_ring_of_enough_slots_is_the_rings_own_answer():
    fair = KVRing(2, 3, WINDOW, 4, torch.float32, torch.device("cpu"))
    modulo = ModuloRing(fair, WINDOW + 3)
    for step in range(9):
        keys = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(step))
        for ring in (fair, modulo):
            ring.append(keys, -keys)
        assert all(map(torch.equal, modulo.last(WINDOW + 3), fair.last(WINDOW + 3)))


@pytest.mark.parametrize("chunk", [4, 8])
def test_window_plus_chunk_less_one_slots_are_needed_and_enough(encoder, x, chunk):
    need = WINDOW + chunk - 1
    assert first_wrong_frame(encoder, x, need, chunk) is None
    assert first_wrong_frame(encoder, x, need + 5, chunk) is None
    for slots in (need - 1, WINDOW, WINDOW - 4):
        # Right until the first chunk whose write laps the ring: it overwrites frame 0, which the
        # chunk's first query sees as long as slots + 1 < window + chunk.
        lapping = slots // chunk * chunk
        assert first_wrong_frame(encoder, x, slots, chunk) == lapping


def test_the_smallest_right_ring_is_below_no_wrong_one():
    rows = [{"slots": s, "chunk": 4, "first_wrong": w} for s, w in ((5, 3), (6, None), (7, 4))]
    assert smallest_right(rows, 4) is None
    rows += [{"slots": s, "chunk": 4, "first_wrong": None} for s in (8, 9)]
    assert smallest_right(rows, 4) == 8


def test_first_wrong_frames_says_what_was_found():
    rows = [
        {"slots": s, "chunk": c, "first_wrong": None if s >= WINDOW + c - 1 else 8}
        for c in (4, 8)
        for s in range(10, 24)
    ]
    spec = first_wrong_frames(rows, WINDOW, FRAMES).to_dict()
    assert spec["title"]["text"].startswith("A ring needs window + chunk - 1 slots")
    points = rows_of(spec, "point")
    assert len(points) == len(rows)
    assert sum(p["at"] > FRAMES for p in points) == sum(r["first_wrong"] is None for r in rows)
    needs = {row["slots"] for row in rows_of(spec, "rule") if "slots" in row}
    assert needs == {WINDOW + 2.5, WINDOW + 6.5}  # between the last wrong and the first right
    rows[-1]["first_wrong"] = 40
    said = first_wrong_frames(rows, WINDOW, FRAMES).to_dict()["title"]["text"]
    assert said == "4 frames a call: 15 slots; 8 frames a call: no ring is large enough"
    with pytest.raises(ValueError, match="1 to 4 chunk sizes"):
        first_wrong_frames([], WINDOW, FRAMES)


# --- what an output reads


def test_window_rows_are_the_encoders_mask():
    size, first, count = 4, 20, 8
    seen = group_mask(WINDOW, first, count // size, torch.float32, torch.device("cpu")) == 0
    rows = window_rows(WINDOW, size, first, count)
    for query in range(first, first + count):
        start = query - query % size
        offset = start - WINDOW + 1
        line = seen.expand(count // size, 1, size, WINDOW + size - 1)[0, 0, query - start]
        wanted = {offset + slot for slot, see in enumerate(line.tolist()) if see}
        own = [r for r in rows if r["output"] == query]
        read_of = {kind: set() for kind in ("seen", "masked")}
        for r in own:
            read_of[r["kind"]] |= set(range(r["first"], r["end"]))
        assert read_of["seen"] == wanted
        assert read_of["seen"] | read_of["masked"] == set(range(offset, start + size))


def test_reach_map_marks_and_refuses():
    rows = window_rows(WINDOW, 4, 20, 4)
    spec = reach_map(rows, ("seen", "masked"), "key", "query", "t", {"new": 20}).to_dict()
    assert rows_of(spec, "bar") == rows and '"note": "new"' in json.dumps(spec)
    with pytest.raises(ValueError, match="kind 'masked' is none of seen"):
        reach_map(rows, ("seen",), "key", "query", "t")
    with pytest.raises(ValueError, match="no rows"):
        reach_map([], ("seen",), "key", "query", "t")


# --- where runs part


def test_drift_finds_the_first_place_above_the_tolerance():
    rows = [{"arm": "ring", "at": i, "difference": 0.0} for i in range(5)]
    rows += [{"arm": "short", "at": i, "difference": 10.0 ** (i - 6)} for i in range(5)]
    place = "encoder frame (20 ms)"
    assert finding(rows, place, 1e-4) == "ring: exact; short: first wrong at encoder frame 3"
    assert finding(rows, place) == "ring: exact; short: first wrong at encoder frame 0"
    assert finding(rows, place, 1.0) == "ring: exact; short: within the tolerance"
    spec = drift(rows, place, 1e-4).to_dict()
    points = rows_of(spec, "point")
    zero = {p["shown"] for p in points if p["difference"] == 0}
    assert len(zero) == 1 and max(zero) < min(p["shown"] for p in points if p["difference"])
    assert {row["shown"] for row in rows_of(spec, "rule")} == {1e-4}
    with pytest.raises(ValueError, match="1 to 5 arms, got 0"):
        drift([], place)


# --- streams


@pytest.fixture(scope="module")
def clip():
    return read(data_dir() / "audio" / "five_five.flac")


@pytest.fixture(scope="module")
def streamed(clip):
    return stream_clip(vrt.load("random-tiny"), clip, 240)


def test_a_streamed_clip_is_the_offline_one(streamed, clip):
    whole = transcribe(vrt.load("random-tiny"), clip, 240)
    assert streamed.transcript.ids == whole.ids == [e.token.id for e in streamed.emitted]
    assert streamed.screen[-1] == (clip.seconds, whole.text)
    texts = [text for _, text in streamed.screen]
    assert all(after.startswith(before) for before, after in pairwise(texts))
    assert [text for _, text in streamed.growth()] == list(
        dict.fromkeys(t.strip() for t in texts if t.strip())
    )


def test_tokens_come_when_the_schedule_lets_them(streamed, clip):
    for e in streamed.emitted:
        possible = e.token.start + 0.08 + 0.24 + 0.0025
        if e.at < clip.seconds:  # feeds of 80 ms: at the next multiple
            assert e.at == pytest.approx(np.ceil(round(possible / 0.08, 6)) * 0.08)


def test_words_carry_the_moment_of_their_last_token(streamed):
    words = streamed.words()
    assert [w["word"] for w in words] == [w.text for w in streamed.transcript.words]
    assert all(w["appeared"] >= min(w["end"], streamed.clip.seconds) for w in words)
    assert {w["delay_ms"] for w in words} == {240}


def test_a_short_clip_has_a_timeline(streamed, tmp_path):
    drawn(delay_timeline(streamed.timeline("five five")), tmp_path)


def test_pieces_are_the_whole():
    samples = np.arange(10, dtype=np.float32)
    assert [len(p) for p in pieces(samples, 4)] == [4, 4, 2]
    assert np.array_equal(np.concatenate(list(pieces(samples, 4))), samples)


def test_word_delays_tell_the_end_of_the_clip_from_a_delay():
    rows = [
        {"number": 1, "word": "a", "start": 0.2, "end": 0.4, "delay_ms": d, "appeared": at}
        for d, at in ((80, 0.5), (480, 0.9), (960, 1.0))
    ]
    spec = word_delays(rows, 1.0).to_dict()
    assert [p["what"] for p in rows_of(spec, "point")] == [APPEARS, APPEARS, AT_END]
    said = spec["title"]["text"]
    assert said == "Text is complete 100 ms after its audio at a delay of 80 ms, 500 ms at 480 ms"
    late = word_delays(rows[2:], 1.0).to_dict()
    assert late["title"]["text"] == "All words come out at the end of the clip"
    with pytest.raises(ValueError, match="no word was heard"):
        word_delays([], 1.0)


# --- latency


@pytest.fixture(scope="module")
def bench(repo_root) -> Receipt:
    return Receipt.load(repo_root / "data" / "receipts" / "bench-voxtral-full.json")


def test_bench_rows_are_the_receipts_wall_times(bench):
    rows = bench_rows(bench, "transformers", 2)
    for row in rows:
        (source,) = (
            r
            for r in bench.numbers["rows"]
            if (r["row"], r["arm"], r["threads"]) == (row["stage"], "transformers", 2)
        )
        assert row["middle_ms"] == source["wall_median_ms"]
        assert (row["low_ms"], row["high_ms"]) == (source["wall_min_ms"], source["wall_max_ms"])
        assert row["floor_ms"] == source["floor_wall_ms"]
    assert [row["stage"] for row in rows] == ["encoder chunk", "decoder at 39", "decoder at 8192"]
    with pytest.raises(
        ValueError, match="'packed' on 1 threads was not measured; there are 1 x 24 frames on 1"
    ):
        bench_rows(bench, "packed")


def test_a_device_without_numbers_is_not_measured(bench):
    rows = bench_rows(bench)
    spec = latency_by_stage({"here": rows, "iPhone": None, "H200": []}).to_dict()
    assert "not measured: iPhone, H200" in spec["title"]["subtitle"]
    points = rows_of(spec, "point")
    assert {p["device"] for p in points} == {"here"} and len(points) == len(rows)
    ticks = [
        row
        for layer in layers(spec)
        if layer["mark"]["type"] == "tick"
        for row in layer["data"]["values"]
    ]
    assert len(ticks) == len(rows)
    assert '"80 ms: real time"' in json.dumps(spec)
    with pytest.raises(ValueError, match="nothing was measured on iPhone"):
        latency_by_stage({"iPhone": None})
    with pytest.raises(ValueError, match="6 devices can be told apart, got 7"):
        latency_by_stage({str(i): rows for i in range(7)})


def test_the_title_is_the_worst_stage_or_that_all_keep_up():
    rows = stage_rows(
        [
            {"stage": "mel", "p50_ms": 0.5, "p95_ms": 0.7},
            {"stage": "decoder", "p50_ms": 160.0, "p95_ms": 170.0},
            {"stage": "idle", "p50_ms": None, "p95_ms": None},
        ]
    )
    assert [row["stage"] for row in rows] == ["mel", "decoder"]
    slow = latency_by_stage({"a": rows}).to_dict()["title"]
    assert slow["text"] == "Too slow for a live stream: decoder, 2 times 80 ms"
    fast = latency_by_stage({"a": rows[:1]}).to_dict()["title"]
    assert fast["text"] == "Every stage alone takes less than the 80 ms of its token"
    assert "floor" not in json.dumps(fast)  # none is known, none is explained


# --- spectrogram


def test_cells_are_means_and_few():
    mel = np.arange(300 * 128, dtype=np.float32).reshape(300, 128)
    cells = rows_of(spectrogram(mel, "t", [8]).to_dict(), "rect")
    assert len(cells) <= 4800
    assert cells[0]["level"] == pytest.approx(mel[:2, :4].mean(), abs=1e-3)
    assert cells[-1]["level"] == pytest.approx(mel[-2:, -4:].mean(), rel=1e-6)
    odd = rows_of(spectrogram(mel[:299], "t").to_dict(), "rect")
    assert odd[-1]["level"] == pytest.approx(mel[298, -4:].mean(), rel=1e-6)
    with pytest.raises(ValueError, match=r"frames and bins, got \(0, 128\)"):
        spectrogram(mel[:0], "t")


@pytest.mark.parametrize("name", ["reach", "drift", "rings", "delays", "latency", "spectrogram"])
def test_each_is_drawn(name, bench, tmp_path):
    line = {"number": 1, "word": "a", "start": 0.2, "end": 0.4, "delay_ms": 80, "appeared": 0.5}
    charts = {
        "reach": lambda: reach_map(window_rows(9, 4, 20, 8), ("seen", "masked"), "k", "q", "t"),
        "drift": lambda: drift([{"arm": "a", "at": i, "difference": i / 9} for i in range(9)], "i"),
        "rings": lambda: first_wrong_frames(
            [{"slots": s, "chunk": 4, "first_wrong": None} for s in range(9)], 3, 20
        ),
        "delays": lambda: word_delays([line], 1.0),
        "latency": lambda: latency_by_stage({"a": bench_rows(bench), "b": None}),
        "spectrogram": lambda: spectrogram(np.random.default_rng(0).random((40, 128)), "t"),
    }
    drawn(charts[name](), tmp_path)


# --- layer by layer, device by device


def test_layers_of_a_fair_ring_are_exact_and_a_short_one_parts_in_the_first(x):
    decoder = DecoderConfig(width=16, layers=1, heads=2, kv_heads=1, head_dim=8, ff=16, vocab=64)
    deep = random_model(VoxtralConfig(EncoderConfig(24, 3, 2, 8, 32, WINDOW), decoder), 0).encoder
    assert {row["difference"] for row in layer_rows(deep, x, 4)} == {0.0}
    rows = layer_rows(deep, x, 4, slots=WINDOW + 2)
    assert len(rows) == 3 * FRAMES
    first = [
        next(r["frame"] for r in rows if r["layer"] == layer and r["difference"])
        for layer in (1, 2, 3)
    ]
    # The last layer's frames become wrong with the first layer's, in the same chunk.
    assert first[0] == first_wrong_frame(deep, x, WINDOW + 2, 4) == WINDOW
    assert first == sorted(first) and first[-1] < WINDOW + 4
    assert not deep.layers[0]._forward_hooks


def test_devices_are_those_of_receipts_and_the_others_not_measured(bench):
    assert "bench-voxtral-full" in voxtral_benches()
    rows = by_device({"full": bench}, ("EPYC", "H200"))
    assert list(rows) == ["AMD EPYC, 2 cores, 1 thread", "AMD EPYC, 2 cores, 2 threads", "H200"]
    assert rows["AMD EPYC, 2 cores, 1 thread"] == bench_rows(bench) and rows["H200"] is None


def test_a_bench_of_fewer_layers_is_no_device(repo_root):
    name = "bench-voxtral-packed-13-layers"
    receipt = Receipt.load(repo_root / "data" / "receipts" / f"{name}.json")
    assert by_device({name: receipt}, ("iPhone",)) == {"iPhone": None}


def test_a_recording_has_its_words():
    found = recording("five_five")
    assert found.said == "five five" and found.seconds == pytest.approx(1.554)
    assert torch.equal(found.samples, torch.from_numpy(found.clip.samples))
    with pytest.raises(ValueError, match=r"no recording 'five' \(did you mean five_five\?\)"):
        recording("five")
