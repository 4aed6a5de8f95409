"""Charts: what they say follows from their rows, and a PNG is drawn without a network."""

import json
import shutil
import subprocess
import sys

import altair as alt
import numpy as np
import pytest
from PIL import Image

from vrt.lab import parity, plot, theme
from vrt.lab.timeline import token_rows
from vrt.voxtral.measure.ring_trace import ring_trace

DELAY, AHEAD, TOKEN, FEED = 0.48, 0.0025, 0.08, 0.08


def timeline(tokens: int = 60) -> dict:
    """A stream of 80 ms feeds: 4 s of audio, the last tokens at its end, two about the silence."""
    clip = (tokens - 2) * TOKEN
    starts = [TOKEN * i for i in range(tokens)]
    came = [np.ceil(round((s + TOKEN + DELAY + AHEAD) / FEED, 6)) * FEED for s in starts]
    return {
        "clip_s": clip,
        "said": "the quick brown fox jumps over the lazy dog",
        "feed_s": FEED,
        "delay_s": DELAY,
        "look_ahead_s": AHEAD,
        "token_s": TOKEN,
        "envelope_step_s": 0.02,
        "envelope": [abs(float(np.sin(i / 7))) for i in range(int(clip / 0.02))],
        "starts": starts,
        "emitted": [min(float(at), clip) for at in came],
    }


STAGE_ROWS = [
    {"stage": "mel", "p50_ms": 0.12, "p95_ms": 0.15},
    {"stage": "encoder", "p50_ms": 1.5, "p95_ms": 2.4},
    {"stage": "idle", "p50_ms": None, "p95_ms": None},
    {"stage": "whole step", "p50_ms": 2.0, "p95_ms": 3.0},
]
PARITY_ROWS = [
    {"stage": "mel", "relative": 0.0, "tolerance": 5e-5},
    {"stage": "encoder", "relative": 2e-6, "tolerance": 3e-5},
    {"stage": "logits", "relative": 4e-4, "tolerance": 3e-5},
]
DIAGRAM = [
    {"name": "one", "lines": ["a", "b"], "remembers": ["c", "d"]},
    {"name": "two", "lines": ["e", "f"], "remembers": []},
]
TRACE = ring_trace(window=24, capacity=64, chunk=4, chunks=60, moments=60, blocks=64)

CHARTS = {
    "delay_timeline": lambda: plot.delay_timeline(timeline()),
    "stage_latency": lambda: plot.stage_latency(STAGE_ROWS),
    "parity_by_stage": lambda: plot.parity_by_stage(PARITY_ROWS),
    "ring_map": lambda: plot.ring_map(TRACE, 0.02),
    "stage_diagram": lambda: plot.stage_diagram(DIAGRAM, ["in", "x"], ["out", "y"], "back", 600),
}


@pytest.fixture(autouse=True)
def theme_of_before():
    with alt.theme.enable("default"):
        yield


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_drawn(name, tmp_path):
    path = theme.save_png(CHARTS[name](), tmp_path / "new" / f"{name}.png", scale=1.0)
    image = Image.open(path)
    assert 600 <= image.width <= 930 and image.height >= 150
    pixels = np.asarray(image.convert("L"), dtype=float)
    assert pixels.std() > 10  # a blank page has 0
    assert (pixels == 255).mean() > 0.2  # white ground
    assert path.stat().st_size < 60_000


def test_scale_multiplies_the_size(tmp_path):
    chart = plot.stage_latency(STAGE_ROWS)
    one, two = (
        Image.open(theme.save_png(chart, tmp_path / f"{scale}.png", scale)).size
        for scale in (1.0, 2.0)
    )
    assert two == pytest.approx((2 * one[0], 2 * one[1]), abs=2)


def test_save_png_leaves_the_theme_in_use(tmp_path):
    alt.theme.enable("dark")
    theme.save_png(plot.stage_latency(STAGE_ROWS), tmp_path / "a.png", 1.0)
    assert alt.theme.active == "dark"
    theme.use()
    assert alt.theme.active == theme.NAME
    assert plot.stage_latency(STAGE_ROWS).to_dict()["config"]["font"] == theme.FONT


def test_a_failed_drawing_leaves_the_theme_in_use(tmp_path):
    broken = alt.Chart(alt.Data(values=[{"x": 1}])).mark_point().encode(x="x")  # no type
    with pytest.raises(ValueError):
        theme.save_png(broken, tmp_path / "a.png")
    assert alt.theme.active == "default"


def test_without_pillow_the_file_is_what_was_drawn(tmp_path, monkeypatch):
    chart = plot.stage_latency(STAGE_ROWS)
    small = theme.save_png(chart, tmp_path / "small.png", 1.0)
    monkeypatch.setitem(sys.modules, "PIL", None)
    plain = theme.save_png(chart, tmp_path / "plain.png", 1.0)
    assert plain.stat().st_size > 1.5 * small.stat().st_size
    monkeypatch.undo()
    drawn, palette = (np.asarray(Image.open(p).convert("RGB"), dtype=int) for p in (plain, small))
    assert drawn.shape == palette.shape and abs(drawn - palette).mean() < 1


def test_colours_are_those_of_okabe_and_ito():
    assert sorted(theme.OKABE_ITO.values()) == sorted(
        ["#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"]
    )
    assert theme.vrt_theme()["config"]["range"]["category"] == list(theme.OKABE_ITO.values())


def child(code: str, *before: str) -> str:
    command = [*before, sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_the_package_and_its_demo_do_not_load_altair():
    code = (
        "import sys, vrt, vrt.demo, vrt.lab, vrt.voxtral.measure.meter\n"
        "print([m for m in ('altair', 'vl_convert', 'PIL', 'pandas') if m in sys.modules])"
    )
    assert child(code) == "[]\n"


def test_a_png_needs_no_network(tmp_path):
    """In a network namespace of its own, where even localhost is down."""
    alone = ("unshare", "--user", "--map-root-user", "--net")
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("this system has no network namespaces for users")
    code = (
        "from vrt.lab import plot, theme\n"
        f"rows = {STAGE_ROWS!r}\n"
        f"print(theme.save_png(plot.stage_latency(rows), {str(tmp_path / 'a.png')!r}, 1.0))"
    )
    assert child(code, *alone) == f"{tmp_path / 'a.png'}\n"
    assert np.asarray(Image.open(tmp_path / "a.png").convert("L")).std() > 10


def texts(chart: alt.TopLevelMixin) -> str:
    """Everything that a chart says, as one string."""
    return json.dumps(chart.to_dict(), ensure_ascii=False)


# --- when each token comes


def test_a_tokens_way_is_its_audio_the_delay_the_look_ahead_and_the_rest_of_the_feed():
    rows = token_rows(timeline())
    assert len(rows) == 58  # the other two speak about the silence after the clip
    first = rows[0]
    assert first["number"] == 1 and first["emitted"] == pytest.approx(0.64)
    for row in rows:
        assert row["delayed"] <= row["possible"] <= row["emitted"] <= timeline()["clip_s"]
    for row in (r for r in rows if r["emitted"] < timeline()["clip_s"]):
        assert row["end"] - row["start"] == pytest.approx(TOKEN)
        assert row["delayed"] - row["end"] == pytest.approx(DELAY)
        assert row["possible"] - row["delayed"] == pytest.approx(AHEAD)
        assert row["emitted"] - row["possible"] == pytest.approx(FEED - AHEAD)


def test_timeline_says_how_late_a_token_is():
    said = texts(plot.delay_timeline(timeline()))
    assert "Every 80 ms one token, about what was said 560 ms before" in said
    assert "480 ms of transcription delay, 2.5 ms of look-ahead" in said
    assert "the first token, at 0.64 s" in said
    assert "the last 8 at once" in said  # that of the last feed, and the 7 of 560 ms
    assert "quick brown fox" in said


def test_timeline_without_a_token_is_refused():
    empty = timeline() | {"starts": [], "emitted": []}
    with pytest.raises(ValueError, match=r"no token speaks about the 4\.64 s"):
        plot.delay_timeline(empty)


# --- what each stage costs


@pytest.mark.parametrize(
    ("p50", "finding"),
    [
        (2.0, "A token of 80 ms takes 2 ms: 40 times faster than real time"),
        (50.0, "A token of 80 ms takes 50 ms: 1.6 times faster than real time"),
        (200.0, "A token of 80 ms takes 2e+02 ms: 2.5 times slower than real time"),
    ],
)
def test_latency_title_states_the_finding(p50, finding):
    rows = [*STAGE_ROWS[:-1], {"stage": "whole step", "p50_ms": p50, "p95_ms": 2 * p50}]
    said = plot.stage_latency(rows).to_dict()
    assert said["title"]["text"] == finding


def test_latency_shows_measured_stages_in_order_and_the_real_time_line():
    spec = plot.stage_latency(STAGE_ROWS).to_dict()
    dots = spec["layer"][1]
    assert dots["encoding"]["y"]["sort"] == ["mel", "encoder", "whole step"]
    assert [row["ms"] for row in dots["data"]["values"]] == [0.12, 0.15, 1.5, 2.4, 2.0, 3.0]
    assert {"color", "shape"} <= dots["encoding"].keys()
    low, high = dots["encoding"]["x"]["scale"]["domain"]
    assert low < 0.12 and high > 80
    assert "80 ms: real time" in json.dumps(spec)


def test_latency_without_a_measurement_is_refused():
    with pytest.raises(ValueError, match="no stage was measured"):
        plot.stage_latency([STAGE_ROWS[2]])


# --- how far two runs differ


def points(rows: list[dict]) -> list[dict]:
    return plot.parity_by_stage(rows).to_dict()["layer"][1]["data"]["values"]


def test_exact_rows_stand_at_the_zero_of_the_axis():
    spec = plot.parity_by_stage(PARITY_ROWS).to_dict()
    axis = spec["layer"][1]["encoding"]["x"]
    zero = min(axis["axis"]["values"])
    exact, within, above = points(PARITY_ROWS)
    assert exact["at"] == zero < within["at"] == 2e-6 < above["at"] == 4e-4
    assert axis["scale"]["domain"][0] < zero and axis["scale"]["domain"][1] > 4e-4
    assert "'0.0'" in axis["axis"]["labelExpr"]
    verdicts = [exact["verdict"], within["verdict"], above["verdict"]]
    assert verdicts == [parity.EXACT, parity.WITHIN, parity.ABOVE]
    assert spec["title"]["text"] == "1 of 3 differ by more than the tolerance: logits"


@pytest.mark.parametrize("tiny", [1e-12, 1e-30])
def test_zero_stays_left_of_the_smallest_difference(tiny):
    zero, small = points(
        [
            {"stage": "mel", "relative": 0.0, "tolerance": None},
            {"stage": "encoder", "relative": tiny, "tolerance": 1e-5},
        ]
    )
    assert 0 < zero["at"] < small["at"] == tiny


def test_without_a_tolerance_only_zero_passes():
    row = {"stage": "mel", "relative": 1e-12, "tolerance": None}
    assert parity.verdict(row) == parity.ABOVE
    assert parity.verdict(row | {"relative": 0.0}) == parity.EXACT
    assert parity.verdict(row | {"tolerance": 1e-12}) == parity.WITHIN


def test_without_any_tolerance_a_row_differs_or_does_not():
    rows = [{"stage": s, "relative": v, "tolerance": None} for s, v in (("a", 0.0), ("b", 1e-7))]
    assert [point["verdict"] for point in points(rows)] == [parity.EXACT, parity.DIFFERS]
    spec = plot.parity_by_stage(rows).to_dict()
    assert spec["title"]["text"] == "1 of 2 differ: b" and not spec["title"]["subtitle"]
    assert "tolerance" not in texts(plot.parity_by_stage(rows))


def test_parity_titles():
    exact = plot.parity_by_stage(PARITY_ROWS[:1]).to_dict()["title"]["text"]
    mixed = plot.parity_by_stage(PARITY_ROWS[:2]).to_dict()["title"]["text"]
    assert exact == "All 1 comparisons are exactly 0.0"
    assert mixed == "All 2 comparisons are within the tolerance, 1 of them exactly 0.0"
    with pytest.raises(ValueError, match="no rows"):
        plot.parity_by_stage([])


# --- what a ring holds


def test_trace_of_a_ring_is_that_of_a_list():
    """A list of the last window - 1 frames, written on and moved to the front when it is full."""
    window, capacity, chunk = 24, 64, 4
    slots: list[int | None] = [None] * capacity
    cursor, compactions, frame = window - 1, 0, 0
    seen = {}
    for _ in range(60):
        if cursor + chunk > capacity:
            slots[: window - 1] = slots[cursor - window + 1 : cursor]
            cursor, compactions = window - 1, compactions + 1
        slots[cursor : cursor + chunk] = range(frame, frame + chunk)
        cursor, frame = cursor + chunk, frame + chunk
        seen[frame] = (list(slots), cursor, compactions)
    assert TRACE["compactions"] == compactions == 5
    assert {block["seen"] for block in TRACE["held"]} == seen.keys()
    for when, (expected, at, _) in seen.items():
        blocks = {b["slot"]: b for b in TRACE["held"] if b["seen"] == when}
        assert {s: b["frame"] for s, b in blocks.items()} == {
            s: f for s, f in enumerate(expected) if f is not None
        }
        visible = {s for s, b in blocks.items() if b["in_window"]}
        assert {blocks[s]["frame"] for s in visible} == set(range(max(0, when - 23), when))
        assert max(visible) == at - 1
    after = {(c["seen"], c["cursor"], c["compactions"]) for c in TRACE["cursors"]}
    assert {(when, at, moved) for when, (_, at, moved) in seen.items()} <= after


def test_ring_map_keeps_below_the_rows_that_altair_takes():
    trace = ring_trace(750, 1536, 4, 1000)
    assert 1000 < len(trace["held"]) <= 5000
    title = plot.ring_map(trace, 0.02).to_dict()["title"]
    assert title["text"] == "1536 slots serve a window of 750 frames: 5 compactions in 80 s"


def test_a_ring_that_is_too_small_is_refused():
    with pytest.raises(ValueError, match="raise the capacity"):
        ring_trace(window=24, capacity=26, chunk=4, chunks=1)


def test_diagram_draws_a_memory_for_those_that_remember():
    said = texts(CHARTS["stage_diagram"]())
    assert said.count('"text": "remembers"') == 1
    assert all(f'"text": "{word}"' in said for word in ("one", "two", "back", "in", "out", "f"))
