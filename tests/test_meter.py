"""The stage meter: its percentiles against numpy, its counts against the schedule's arithmetic."""

import dataclasses
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import noise, pieces, random_weights, small_config

import vrt.voxtral.measure.meter as meter_module
from vrt.audio import AudioError
from vrt.voxtral.config import VoxtralConfig
from vrt.voxtral.measure.flow import describe
from vrt.voxtral.measure.histogram import BINS, LONGEST, SHORTEST, DurationHistogram
from vrt.voxtral.measure.meter import Cost, StageMeter
from vrt.voxtral.measure.stage_table import StageRow, render
from vrt.voxtral.session import StreamingSession

# Half a bin of 2 %, and rounding in log and power on top.
TOLERANCE = DurationHistogram.MAX_ERROR + 1e-9


@given(
    st.lists(st.floats(SHORTEST, LONGEST, exclude_max=True), min_size=1, max_size=200),
    st.floats(0.0, 100.0),
)
def test_percentile_is_within_one_percent_of_the_exact_one(durations, percent):
    histogram = DurationHistogram()
    for seconds in durations:
        histogram.add(seconds)
    exact = np.percentile(durations, percent, method="inverted_cdf")
    assert histogram.percentile(percent) == pytest.approx(exact, rel=TOLERANCE)
    assert histogram.count == len(durations)
    assert histogram.total == pytest.approx(sum(durations))


def test_percentiles_of_a_long_run_of_calls():
    durations = np.random.default_rng(0).lognormal(-6, 0.5, 20_000)
    histogram = DurationHistogram()
    for seconds in durations:
        histogram.add(float(seconds))
    for percent in (0, 1, 50, 95, 99.9, 100):
        exact = np.percentile(durations, percent, method="inverted_cdf")
        assert histogram.percentile(percent) == pytest.approx(exact, rel=TOLERANCE)


def test_durations_outside_the_bins_are_counted_at_the_nearest_end():
    histogram = DurationHistogram()
    for seconds in (0.0, -1e-12, 1e-12, 1e9):
        histogram.add(seconds)
    assert histogram.bins[0] == 3 and histogram.bins[BINS - 1] == 1
    assert histogram.percentile(100) == pytest.approx(LONGEST, rel=0.03)


def test_no_duration_has_no_percentile_and_a_wrong_percentage_is_named():
    assert DurationHistogram().percentile(50) is None
    with pytest.raises(ValueError, match=r"0\.\.100, got 101"):
        DurationHistogram().percentile(101)


def test_memory_is_the_same_after_ten_and_after_fifty_thousand_calls():
    cost = Cost()
    sizes = []
    for calls in (10, 49_990):
        for _ in range(calls):
            cost.add(1e-3, 4, 1.0)
        sizes.append(len(pickle.dumps(cost)))
    assert cost.calls == 50_000
    assert sizes[1] - sizes[0] < 32  # wider integers, nothing else


def test_a_call_without_output_counts_to_the_token_it_worked_for():
    cost = Cost()
    for seconds, tokens in ((1.0, 0), (2.0, 0), (5.0, 2), (3.0, 1)):
        cost.add(seconds, 8 * tokens, tokens)
    assert (cost.calls, cost.rows, cost.seconds) == (4, 24, 11.0)
    assert cost.per_token.count == 2
    assert cost.per_token.percentile(50) == pytest.approx(3.0, rel=TOLERANCE)
    assert cost.per_token.percentile(100) == pytest.approx((1 + 2 + 5) / 2, rel=TOLERANCE)


@pytest.fixture(scope="module")
def model():
    return random_weights(small_config())


def metered(model, samples, feed: int | str):
    meter = StageMeter()
    session = StreamingSession(model, 480, observer=meter)
    meter.timed(session.begin)
    for piece in pieces(samples, feed):
        meter.timed(session.feed, piece)
    transcript = meter.timed(session.finalize)
    return meter, session, transcript


@pytest.mark.parametrize("feed", [160, 1000, 1280, 4096])
def test_rows_and_calls_follow_from_the_schedule(model, feed):
    samples = noise(1.3)
    meter, session, transcript = metered(model, samples, feed)
    rows = {row.stage: row for row in meter.table(session)}
    positions = session.schedule.positions(len(samples))
    tokens = positions - session.schedule.prompt_len + 1
    assert len(transcript.ids) == tokens
    calls = -(-len(samples) // feed) + 2  # and begin, finalize
    assert {name: (row.rows_in, row.rows_out) for name, row in rows.items()} == {
        "mel": (positions * 1280, positions * 8),
        "conv_stem": (positions * 8, positions * 4),
        "encoder": (positions * 4, positions * 4),
        "projector": (positions * 4, positions),
        "decoder": (positions, tokens),
        "session": (positions * 1280, tokens),
        "whole step": (positions * 1280, tokens),
    }
    assert rows["mel"].calls == rows["session"].calls == rows["whole step"].calls == calls
    assert rows["decoder"].calls == tokens
    assert rows["encoder"].calls == rows["projector"].calls <= calls


def test_times_add_up(model):
    meter, session, _ = metered(model, noise(1.0), 333)
    *parts, whole = meter.table(session)
    assert whole.share == 1.0
    assert sum(row.share for row in parts) == pytest.approx(1.0)
    assert sum(row.total_ms for row in parts) == pytest.approx(whole.total_ms)
    assert min(row.total_ms for row in parts) > 0
    assert whole.total_ms == pytest.approx(meter.seconds * 1e3)
    assert all(row.p50_ms <= row.p95_ms for row in [*parts, whole])


class Clock:
    """A clock that only work moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_overhead_is_the_call_less_its_stages(model, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(meter_module, "perf_counter", clock)
    meter = StageMeter()

    def feed(tokens: int) -> None:
        clock.now += 0.010  # of it 4 + 3 ms inside stages
        meter("mel", torch.empty(8 * tokens, 128), 0.004)
        if tokens:
            meter("projector", torch.empty(tokens, 64), 0.003)

    for tokens in (1, 0, 0, 2):
        meter.timed(feed, tokens)
    rows = {row.stage: row for row in meter.table(StreamingSession(model))}
    assert rows["whole step"].total_ms == pytest.approx(40)
    assert rows["session"].total_ms == pytest.approx(40 - 4 * 4 - 2 * 3)
    # per token: 10 ms, then (10 + 10 + 10) / 2; of it outside the stages 3, then (6 + 6 + 3) / 2
    assert rows["whole step"].p50_ms == pytest.approx(10, rel=TOLERANCE)
    assert rows["whole step"].p95_ms == pytest.approx(15, rel=TOLERANCE)
    assert rows["session"].p95_ms == pytest.approx(7.5, rel=TOLERANCE)
    assert rows["session"].share == pytest.approx(18 / 40)


def test_a_refused_feed_is_counted_and_raised(model):
    meter = StageMeter()
    session = StreamingSession(model, observer=meter)
    meter.timed(session.begin)
    with pytest.raises(AudioError):
        meter.timed(session.feed, np.array([np.nan], np.float32))
    rows = {row.stage: row for row in meter.table(session)}
    assert rows["session"].calls == 2 and rows["mel"].calls == 1


def test_what_is_remembered_is_what_the_session_holds(model):
    meter, session, _ = metered(model, noise(0.5), 1280)
    rows = {row.stage: row for row in meter.table(session)}
    assert {name: rows[name].remembers_bytes for name in session.state_bytes} == session.state_bytes
    assert rows["whole step"].remembers_bytes == sum(session.state_bytes.values())
    for name, state in (("encoder", session._encoder), ("decoder", session._greedy.state)):
        assert rows[name].remembers == f"{len(state.rings)} rings of {state.rings[0].capacity}"
    assert rows["mel"].takes_in == "1520 samples"
    assert rows["encoder"].takes_in == rows["conv_stem"].gives_out == "4x48 frames"


def test_a_metered_stream_says_what_an_unwatched_one_says(model):
    samples = noise(1.0)
    session = StreamingSession(model)
    session.begin()
    session.feed(samples)
    assert metered(model, samples, 160)[2].ids == session.finalize().ids


def test_reset_forgets(model):
    meter, session, _ = metered(model, noise(0.5), 1280)
    meter.reset()
    table = meter.table(session)
    assert all(row.calls == row.rows_in == row.rows_out == row.total_ms == 0 for row in table)
    assert all(row.p50_ms is row.p95_ms is row.share is None for row in table)
    assert " - " in render(table)


def released_table() -> list[StageRow]:
    """The released sizes after days, in bf16."""
    state = {"mel": 6076, "conv_stem": 3072, "encoder": 402_653_184, "projector": 0}
    flows = describe(VoxtralConfig(), state | {"decoder": 926_941_184}, 2)
    return [
        StageRow(f.stage, f.takes_in, f.gives_out, f.remembers, f.remembers_bytes, *numbers)
        for f in flows
        for numbers in [(9_999_999, 1, 1, 1234.5, 2345.6, 1e9, 1.0)]
    ]


def test_the_table_fits_a_terminal_at_the_released_sizes():
    table = released_table()
    assert [row.remembers for row in table if "rings" in row.remembers] == [
        "32 rings of 1536",
        "26 rings of 8704",
    ]
    lines = render(table).splitlines()
    assert max(map(len, lines)) <= 100
    cells = " ".join(lines[4].split())
    assert cells == (
        "encoder 4x1280 frames 4x1280 frames 403 MB 32 rings of 1536 9999999 1234 2346 100%"
    )


def test_columns_are_aligned(model):
    meter, session, _ = metered(model, noise(0.5), 1280)
    header, rule, *lines = render(meter.table(session)).splitlines()
    starts = [i for i, c in enumerate(rule) if c == "-" and (i == 0 or rule[i - 1] == " ")]
    assert [header[i : i + 4].strip() for i in starts[:3]] == ["stag", "take", "give"]
    assert len(lines) == 7
    for line in lines:
        assert all(line[i - 1] == " " for i in starts[1:])
        assert line == line.rstrip() and len(line) <= len(rule)


def test_rows_are_plain_values(model):
    meter, session, _ = metered(model, noise(0.5), 1280)
    for row in meter.table(session):
        kinds = {type(value) for value in dataclasses.asdict(row).values()}
        assert kinds <= {str, int, float, type(None)}
