"""The bench times the same work in both arms, turn about, and counts bytes and ratios right."""

from collections.abc import Callable
from dataclasses import asdict, fields, replace

import pytest
import torch
from torch import Tensor
from transformers import VoxtralRealtimeForConditionalGeneration

import vrt.bench.weights
from vrt.bench import ROWS, BenchError, BenchSettings, bench_voxtral, chart_rows, table
from vrt.bench import arms as arms_of_ours
from vrt.bench.arms import (
    Inputs,
    decoder_step,
    encoder_chunk,
    encoder_frames,
    filled_decoder,
    full_encoder,
)
from vrt.bench.bandwidth import Bandwidth, read_bandwidth, written_buffer
from vrt.bench.front import session_steps
from vrt.bench.rows import Measured, Row, rows_of
from vrt.bench.timing import Spread, Timing, interleaved
from vrt.bench.traffic import decoder_bytes, encoder_bytes, stem_bytes, step_bytes
from vrt.bench.voxtral import relative_difference
from vrt.bench.weights import bench_model, packed_copy
from vrt.oracle import hf_bench
from vrt.receipt import Receipt
from vrt.voxtral.config import DecoderConfig, EncoderConfig, VoxtralConfig
from vrt.voxtral.measure.cost import cost
from vrt.voxtral.model import VoxtralRealtime

# A prompt has 39 tokens, so the decoder's window of 48 gives two contexts.
TINY = VoxtralConfig(
    encoder=EncoderConfig(width=48, layers=2, heads=4, head_dim=16, ff=96, window=24),
    decoder=DecoderConfig(
        width=64, layers=3, heads=4, kv_heads=2, head_dim=16, ff=96, window=48, vocab=128
    ),
)
BUFFER = 1 << 20  # bytes
# fp32 at these sizes: measured 4e-6 for the encoder, 1e-6 for the decoder, from other summation
# orders in attention and the stem; outputs have a standard deviation of 1.
DRIFT = 3e-5


@pytest.fixture(scope="module")
def model() -> VoxtralRealtime:
    return bench_model(TINY, torch.float32)


@pytest.fixture(scope="module")
def peer(model: VoxtralRealtime) -> VoxtralRealtimeForConditionalGeneration:
    return hf_bench.build_shared(model)


@pytest.fixture(scope="module")
def receipt() -> Receipt:
    settings = BenchSettings(threads=(1,), repeats=2, config=TINY)
    return bench_voxtral(settings, buffer_bytes=BUFFER)


class Clock:
    """CPU and wall seconds that pass only when told to."""

    def __init__(self):
        self.cpu = self.wall = 0.0

    def __call__(self) -> tuple[float, float]:
        return self.cpu, self.wall

    def work(self, cpu: float, wall: float) -> None:
        self.cpu, self.wall = self.cpu + cpu, self.wall + wall


# ---- timing


def test_arms_take_turns_and_warm_up_is_not_timed():
    clock, calls = Clock(), []

    def arm(name: str, seconds: list[float]) -> Callable[[], None]:
        def call() -> None:
            calls.append(name)
            length = seconds.pop(0)
            clock.work(length, 2 * length)

        return call

    arms = {"A": arm("A", [9.0, 1.0, 4.0, 2.0]), "B": arm("B", [9.0, 5.0, 3.0, 7.0])}
    timings = interleaved(arms, repeats=3, warm_up=1, clock=clock)
    assert calls == ["A", "B"] * 4
    assert timings["A"].cpu_ms == Spread(2000.0, 1000.0, 4000.0)
    assert timings["B"].cpu_ms == Spread(5000.0, 3000.0, 7000.0)
    assert timings["B"].wall_ms == Spread(10000.0, 6000.0, 14000.0)


def test_front_is_what_feed_spends_outside_the_big_stages(model: VoxtralRealtime):
    clock = Clock()
    seconds = {model.stem: 1.0, model.encoder: 10.0, model.projector: 20.0, model.decoder: 40.0}
    slow = [
        module.register_forward_hook(lambda *_, s=s: clock.work(s, 3 * s), prepend=True)
        for module, s in seconds.items()
    ]
    timings = session_steps(model, repeats=3, clock=clock)
    for hook in slow:
        hook.remove()
    assert timings["mel+stem+session"].cpu_ms == Spread(1000.0, 1000.0, 1000.0)
    assert timings["mel+stem+session"].wall_ms == Spread(3000.0, 3000.0, 3000.0)
    assert timings["whole step"].cpu_ms == Spread(71000.0, 71000.0, 71000.0)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in seconds)


# ---- both arms do the same work


@torch.no_grad()
def test_encoder_arms_compute_the_same(model, peer):
    inputs = Inputs.draw(model)
    ours, past = encoder_chunk(model, inputs)
    theirs = hf_bench.encoder_chunk(peer, inputs.mel, past)
    for _ in range(30):  # past the ring's window
        assert (ours() - theirs()).abs().max() < DRIFT


@pytest.mark.parametrize("context", [1, 39, 48])
@torch.no_grad()
def test_decoder_arms_compute_the_same(model, peer, context):
    inputs = Inputs.draw(model)
    ours, past = decoder_step(model, inputs, context)
    theirs = hf_bench.decoder_step(peer, inputs.token, inputs.audio, 6, past)
    for _ in range(12):  # from 39 on past the window
        assert (ours() - theirs()).abs().max() < DRIFT


@torch.no_grad()
def test_arms_differ_where_the_peer_has_another_past(model, peer):
    inputs = Inputs.draw(model)
    chunk, heard = encoder_chunk(model, inputs)
    step, said = decoder_step(model, inputs, 39)
    other = [(keys[:, 1:], values[:, 1:]) for keys, values in heard]
    assert (chunk() - hf_bench.encoder_chunk(peer, inputs.mel, other)()).abs().max() > 0.01
    other = [(keys, values.roll(1, dims=1)) for keys, values in said]
    given = inputs.token, inputs.audio, 6
    assert (step() - hf_bench.decoder_step(peer, *given, other)()).abs().max() > 0.01


@torch.no_grad()
def test_windows_are_full_before_the_first_call(model, peer):
    assert [ring.seen for ring in full_encoder(model).rings] == [23, 23]
    state = filled_decoder(model, 47)
    assert state.position == 47 and {ring.seen for ring in state.rings} == {47}
    for ring in state.rings:
        keys, values = ring.last(47)
        assert (keys != 0).all() and (values != 0).all()
    _, past = decoder_step(model, Inputs.draw(model), 48)
    cache = hf_bench._filled(peer.config.text_config, past)
    assert [layer.is_sliding for layer in cache.layers] == [True] * 3
    assert {layer.keys.shape for layer in cache.layers} == {(1, 2, 47, 16)}
    assert cache.get_seq_length() == 47


@torch.no_grad()
def test_one_call_of_24_frames_and_six_of_4_put_out_as_much(model):
    assert [x.shape for x in encoder_frames(model, 24, 1)()] == [(24, 48)]
    assert [x.shape for x in encoder_frames(model, 4, 6)()] == [(4, 48)] * 6


def test_both_models_hold_the_same_memory(model, peer):
    theirs = {parameter.data_ptr() for parameter in peer.parameters()}
    assert theirs == {parameter.data_ptr() for parameter in model.parameters()}


def test_peer_is_as_from_pretrained_leaves_it(peer, tmp_path):
    VoxtralRealtimeForConditionalGeneration(peer.config).save_pretrained(tmp_path)
    loaded = VoxtralRealtimeForConditionalGeneration.from_pretrained(tmp_path)
    assert {p.requires_grad for p in loaded.parameters()} == {True}
    assert {p.requires_grad for p in peer.parameters()} == {True}
    assert not peer.training and not loaded.training
    assert peer.config._attn_implementation == loaded.config._attn_implementation
    ours, theirs = dict(peer.named_buffers()), dict(loaded.named_buffers())
    assert ours.keys() == theirs.keys() and ours
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


# ---- weights, bytes, bandwidth


def test_random_weights_keep_the_scale_and_are_each_their_own(model: VoxtralRealtime):
    layer = model.encoder.layers[0].attention
    assert layer.q.weight.std() == pytest.approx(48**-0.5, rel=0.1)
    assert not torch.equal(layer.q.weight, layer.k.weight)
    parameters = list(model.parameters())
    assert len({p.data_ptr() for p in parameters}) == len(parameters)
    assert all(torch.isfinite(p).all() and not p.requires_grad for p in parameters)


def test_weights_larger_than_the_drawn_block_are_written_to_the_end(monkeypatch):
    monkeypatch.setattr(vrt.bench.weights, "BLOCK", 1000)
    for weight in bench_model(TINY).parameters():
        assert (weight != 0).float().mean() > 0.99


def test_bytes_at_the_released_size_are_those_counted_in_transformers():
    # 1.93 GB of encoder weights, 0.20 GB of its keys and values; 6.87 GB of decoder weights, of
    # which 10 MB make the delay's constants, and 0.87 GB of keys and values at context 8192.
    released = cost(VoxtralConfig(), torch.bfloat16)
    assert encoder_bytes(released) / 1e9 == pytest.approx(1.93 + 0.20, abs=0.01)
    one, full = decoder_bytes(released, 1), decoder_bytes(released, 8192)
    assert one / 1e9 == pytest.approx(6.87 - 0.01, abs=0.005)
    assert (full - one) / 1e9 == pytest.approx(0.87, abs=0.005)


def test_bytes_of_a_small_model_counted_by_hand():
    tiny = cost(TINY, torch.float32)
    slots = 2 * 2 * 4 * 16  # keys and values, layers, heads, width: of one slot
    biases, norms = 2 * 64 + 2 * 48, 2 * 48  # of q, v, o and down
    layer = 4 * 48 * 64 + 3 * 48 * 96 + biases + norms
    assert encoder_bytes(tiny, 24) == 4 * (2 * layer + 48 + slots * (23 + 24))
    attention, mlp, norms = 64 * (64 + 32 + 32 + 64), 3 * 64 * 96, 2 * 64
    weights = 3 * (attention + mlp + norms) + 128 * 64 + 64
    assert decoder_bytes(tiny, 39) == 4 * (weights + 3 * 2 * 2 * 16 * 39)
    stem = 48 * (3 * 128 + 1) + 48 * (3 * 48 + 1)
    projector = 4 * 48 * 64 + 64 * 64
    assert stem_bytes(tiny) == 4 * stem
    parts = encoder_bytes(tiny, 4) + decoder_bytes(tiny, 39)
    assert step_bytes(tiny, 39) == 4 * (stem + projector) + parts


def test_bandwidth_reads_memory_that_was_written_and_gives_the_floor():
    buffer = written_buffer(BUFFER)
    assert buffer.nbytes == BUFFER and len(buffer.unique()) == len(buffer)
    measured = read_bandwidth(buffer, tries=1)
    assert measured.wall > 0 and measured.cpu > 0
    assert Bandwidth(2e9, 1e9).best(Bandwidth(1e9, 3e9)) == Bandwidth(2e9, 3e9)
    assert Bandwidth(wall=2e9, cpu=1e9).floor_ms(500_000_000) == (500, 250)


# ---- rows


def timing(cpu: float, wall: float) -> Timing:
    return Timing(Spread(cpu, cpu / 2, 2 * cpu), Spread(wall, wall / 2, 2 * wall))


def test_rows_hold_the_ratios_of_medians():
    timings = {
        "ours": timing(30.0, 40.0),
        "transformers": timing(200.0, 300.0),
        "third": timing(1.0, 1.0),
    }
    sizes = {"ours": 10_000_000, "transformers": 10_000_000, "third": 20_000_000}
    measured = Measured("encoder chunk", timings, sizes, 0.01)
    ours, theirs, third = rows_of(measured, Bandwidth(2e9, 1e9), 2, (4, 3), 9)
    assert (ours.row, ours.arm, ours.threads) == ("encoder chunk", "ours", 2)
    assert (ours.encoder_layers, ours.decoder_layers, ours.repeats) == (4, 3, 9)
    assert (ours.cpu_median_ms, ours.cpu_min_ms, ours.cpu_max_ms) == (30, 15, 60)
    assert (ours.wall_median_ms, ours.wall_min_ms, ours.wall_max_ms) == (40, 20, 80)
    assert (ours.bytes, ours.floor_cpu_ms, ours.floor_wall_ms) == (10_000_000, 10, 5)
    assert (ours.ratio_to_floor, ours.ratio_to_peer) == (3, 0.15)
    assert (ours.peer, ours.difference_to_peer, ours.goal) == ("transformers", 0.01, 0.15)
    assert theirs.ratio_to_floor == 20 and third.floor_cpu_ms == 20
    for other in (theirs, third):
        assert (other.peer, other.ratio_to_peer, other.goal) == (None, None, None)


def test_packed_is_compared_with_the_same_peer():
    timings = {
        "ours": timing(30.0, 30.0),
        "ours, packed": timing(20.0, 20.0),
        "transformers": timing(200.0, 200.0),
    }
    measured = Measured("encoder chunk", timings, dict.fromkeys(timings, 1), 0.01)
    ours, packed, _ = rows_of(measured, Bandwidth(1.0, 1.0), 1, (1, 1), 1)
    assert (ours.peer, ours.ratio_to_peer, ours.difference_to_peer) == ("transformers", 0.15, 0.01)
    assert (packed.peer, packed.ratio_to_peer, packed.goal) == ("transformers", 0.1, 0.15)
    assert packed.difference_to_peer is None


def test_an_arm_alone_has_no_peer():
    (row,) = rows_of(
        Measured("encoder chunk", {"ours": timing(1.0, 1.0)}, {"ours": 1}),
        Bandwidth(1.0, 1.0),
        1,
        (1, 1),
        1,
    )
    assert row.peer is None and row.ratio_to_peer is None and row.goal is None


def test_relative_difference_is_of_the_second():
    assert relative_difference(Tensor([3.0, 0.0]), Tensor([0.0, 4.0])) == pytest.approx(1.25)
    assert relative_difference(Tensor([1.0, 2.0]), Tensor([1.0, 2.0])) == 0


# ---- a whole run


def test_receipt_holds_every_row_with_every_field(receipt: Receipt, tmp_path):
    rows = receipt.numbers["rows"]
    assert all(row.keys() == {f.name for f in fields(Row)} for row in rows)
    front = ("front", "mel+stem+session"), ("front", "whole step")
    batch = ("encoder, 480 ms", "1 x 24 frames"), ("encoder, 480 ms", "6 x 4 frames")
    arms = [
        ("encoder chunk", "ours"),
        ("encoder chunk", "transformers"),
        ("encoder chunk", "transformers, frozen"),
        *((f"decoder at {c}", arm) for c in (39, 48) for arm in ("ours", "transformers")),
        *front,
        *batch,
    ]
    found = [(row["threads"], row["row"], row["arm"]) for row in rows]
    assert found == [(1, *names) for names in arms]
    for row in rows:
        assert row["cpu_min_ms"] <= row["cpu_median_ms"] <= row["cpu_max_ms"]
        assert row["bytes"] > 0 and row["ratio_to_floor"] > 0
    assert receipt.parameters["rows"] == list(ROWS)
    assert receipt.parameters["contexts"] == [39, 48]
    assert receipt.parameters["config"]["encoder"]["window"] == 24
    assert {"load_average_before", "load_average_after"} < receipt.numbers.keys()
    assert Receipt.load(receipt.write(tmp_path / "bench.json")) == receipt


def test_receipt_tells_how_far_the_arms_differ(receipt: Receipt):
    # bf16 at these sizes: measured 1.0e-2 at most, rounding after every step.
    differences = [
        row["difference_to_peer"]
        for row in receipt.numbers["rows"]
        if row["peer"] == "transformers"
    ]
    assert len(differences) == 3 and all(0 < d < 0.03 for d in differences)


def test_rows_and_peer_can_be_left_out_and_threads_are_put_back(monkeypatch):
    monkeypatch.setattr("vrt.bench.settings._usable_cores", lambda: 2)
    heard: list[tuple[str, int]] = []
    settings = BenchSettings(
        threads=(2, 1), rows=("encoder",), against="none", repeats=1, layers=1, config=TINY
    )
    numbers = bench_voxtral(
        settings, lambda line: heard.append((line, torch.get_num_threads())), BUFFER
    ).numbers
    found = [(row["threads"], row["arm"], row["peer"]) for row in numbers["rows"]]
    assert found == [(2, "ours", None), (1, "ours", None)]
    assert {row["encoder_layers"] for row in numbers["rows"]} == {1}
    assert numbers["read_bytes_per_second_by_threads"].keys() == {"1", "2"}
    assert heard[1:] == [("encoder, threads 2", 2), ("encoder, threads 1", 1)]
    assert torch.get_num_threads() == 1 and torch.is_grad_enabled()


def test_table_fits_a_terminal_and_shows_what_was_measured(receipt: Receipt):
    # The widest numbers of a full-size run in the place of these tiny ones.
    wide = {"cpu_median_ms": 1234.5, "cpu_min_ms": 1111.1, "cpu_max_ms": 2345.6, "bytes": 16e9}
    rows = [row | wide | {"wall_median_ms": 2222.2} for row in receipt.numbers["rows"]]
    rows[0] |= {"ratio_to_floor": 12.34, "ratio_to_peer": 0.0151, "goal": 0.02}
    rows += [row | {"threads": 2} for row in rows]
    speeds = {"1": {"wall": 2e10, "cpu": 2e10}, "2": {"wall": 3e10, "cpu": 1.5e10}}
    numbers = receipt.numbers | {"rows": rows, "read_bytes_per_second_by_threads": speeds}
    text = table(replace(receipt, numbers=numbers))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    first = next(line for line in lines if line.startswith("encoder chunk"))
    cells = first.removeprefix("encoder chunk").split()
    assert cells == ["ours", "1234", "(1111..2346)", "2222", "16.00", "12.3", "0.0151", "0.02"]
    assert sum(line.startswith("encoder chunk") for line in lines) == 6
    assert "1 thread: memory reads 20.0 GB/s (20.0 GB a CPU second)" in lines
    assert "2 threads: memory reads 30.0 GB/s (15.0 GB a CPU second)" in lines


@pytest.mark.parametrize(("load", "told"), [(0.4, False), (1.5, True)])
def test_table_says_so_where_other_work_was_running(receipt: Receipt, load: float, told: bool):
    numbers = receipt.numbers | {"load_average_before": [load, 0.0, 0.0]}
    quiet = replace(receipt, numbers=numbers, device=receipt.device | {"cores_usable": 1})
    assert ("other work was running" in table(quiet)) == told


def test_chart_rows_add_one_floor_a_row_and_thread_count(receipt: Receipt):
    bars = chart_rows(receipt)
    rows = receipt.numbers["rows"]
    keys = [(bar["row"], bar["arm"], bar["threads"]) for bar in bars]
    assert len(set(keys)) == len(keys) == len(rows) + 5
    first = rows[0]
    assert bars[0]["cpu_ms"] == first["cpu_median_ms"]
    assert bars[0]["cpu_max_ms"] == first["cpu_max_ms"]
    floor = next(bar for bar in bars if bar["arm"] == "floor")
    assert floor["cpu_ms"] == floor["cpu_min_ms"] == first["floor_cpu_ms"]


# ---- settings


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"layers": 0}, "layers 0: 1 to 32"),
        ({"layers": 33}, "layers 33"),
        ({"repeats": 0}, "repeats 0"),
        ({"threads": (0,)}, "threads 0: this process may use 1 to"),
        ({"threads": ()}, "threads none"),
        ({"threads": (1, 10_000)}, "threads 1,10000"),
        ({"threads": (1, 1)}, "threads 1,1: name each number once"),
        ({"rows": ("encoder", "coder")}, "rows coder: there are encoder, decoder, front, batch"),
        ({"rows": ()}, "rows nothing"),
        ({"against": "whisper"}, "against whisper: there are transformers, none"),
    ],
)
def test_settings_refuse_by_name(wrong, says):
    with pytest.raises(BenchError, match=says):
        BenchSettings(**{"threads": (1,)} | wrong)


def test_missing_transformers_is_refused_with_the_way_out(monkeypatch):
    monkeypatch.setattr("vrt.bench.settings.find_spec", lambda name: None)
    with pytest.raises(BenchError, match=r"pip install 'vrt\[hf\]'"):
        BenchSettings(threads=(1,))
    assert BenchSettings(threads=(1,), against="none").against == "none"


def test_layers_lower_both_depths():
    full, four = BenchSettings(threads=(1,)), BenchSettings(threads=(1,), layers=30)
    assert full.model == VoxtralConfig() and full.contexts == (39, 8192)
    assert (four.model.encoder.layers, four.model.decoder.layers) == (30, 26)
    assert asdict(four.model.encoder) | {"layers": 32} == asdict(full.model.encoder)


def test_too_little_memory_is_refused_before_any_is_taken(monkeypatch):
    monkeypatch.setattr(vrt.bench.weights, "_available_bytes", lambda: 9_000_000_000)
    with pytest.raises(BenchError, match=r"8\.9 GB of weights .* 9\.0 GB are free.*--layers"):
        bench_model(VoxtralConfig())


def test_packed_is_an_arm_of_its_own_over_the_same_numbers():
    settings = BenchSettings(
        threads=(1,), rows=("encoder", "decoder"), against="none", repeats=1, config=TINY,
        packed=True,
    )  # fmt: skip
    rows = bench_voxtral(settings, buffer_bytes=BUFFER).numbers["rows"]
    arms = [row["arm"] for row in rows if row["row"] == "encoder chunk"]
    assert arms == ["ours", "ours, packed"]
    plain = bench_model(TINY)
    packed = packed_copy(plain)
    inputs = arms_of_ours.Inputs.draw(plain)
    expected, got = (arms_of_ours.encoder_chunk(m, inputs)[0]() for m in (plain, packed))
    assert torch.equal(got, expected)
