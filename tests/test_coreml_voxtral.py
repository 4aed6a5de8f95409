"""Voxtral as four graphs: a host over them streams what the engine streams, stage by stage.

The oracle is the engine's own session (held to transformers elsewhere): its stages' outputs.
"""

from functools import partial

import numpy as np
import pytest
import torch
from coreml_cases import needs_coremltools
from small_models import Stages, noise, stream

import vrt
from vrt.coreml.arms import Arm
from vrt.coreml.contract import Contract, FunctionContract
from vrt.coreml.errors import CoreMLError
from vrt.coreml.graphs_voxtral import CACHED, VOXTRAL_KINDS, voxtral_graph
from vrt.coreml.voxtral_host import VoxtralHost, angles

# Positions: both windows of random-tiny, 96 encoder frames (24 positions) and 96 tokens, wrap.
STEPS = 110
# Sums in another order than the engine's: a softmax over the whole window with masked slots, and
# convolutions in place of products; each stage has the drift of those before it. Measured 1.4e-6
# of 1.9, 1.9e-5 of 4.2, 6.4e-5 of 24 and 1.7e-4 of 37: five parts in a million.
DRIFT = {"conv_stem": 5e-6, "encoder": 5e-5, "projector": 2e-4, "logits": 5e-4}
# Keys and values rounded to float16: measured 4.4e-3 and 3.1e-2.
MLSTATE_DRIFT = {"encoder": 1e-2, "logits": 0.1}


@pytest.fixture(scope="module")
def model():
    return vrt.load("random-tiny")


@pytest.fixture(scope="module")
def engine(model):
    """Outputs of every stage of a stream, and its tokens."""
    stages = Stages()
    found = stream(model, noise(5.5), observer=stages)
    return stages.joined(), [token.id for token in found.tokens]


def graphs_of(model, cache="explicit", delay=None):
    having = {kind: cache if kind in CACHED else "explicit" for kind in VOXTRAL_KINDS}
    return {k: voxtral_graph(k, model, delay=delay, cache=c) for k, c in having.items()}


def contract_of(graph):
    function = FunctionContract("main", graph.inputs, graph.outputs, graph.states)
    said = ("s", "d", "0", "iOS18", "fp32", dict(graph.sizes), (function,))
    return Contract(graph.kind, *said, facts=dict(graph.facts))


def host_of(graphs):
    return VoxtralHost({k: contract_of(g) for k, g in graphs.items()}, runners_of(graphs))


def runners_of(graphs):
    return {kind: partial(checked, graph) for kind, graph in graphs.items()}


def checked(graph, feeds):
    """Torch's answer, with the ports that the graph says."""
    assert {n: (a.shape, a.dtype.name) for n, a in feeds.items()} == {
        p.name: (p.shape, p.dtype) for p in graph.inputs
    }
    answer = graph.run(feeds)
    assert {n: (a.shape, a.dtype.name) for n, a in answer.items()} == {
        p.name: (p.shape, p.dtype) for p in graph.outputs
    }
    return answer


def streamed(host, mel, steps=STEPS):
    """Rows of every stage, and the tokens that were put out."""
    found = [host.step(mel[8 * n : 8 * n + 8].numpy()) for n in range(steps)]
    rows = {
        "conv_stem": np.concatenate([step.x for step in found]),
        "encoder": np.concatenate([step.frames for step in found]),
        "projector": np.concatenate([step.audio for step in found]),
        "logits": np.concatenate([step.logits for step in found if step.token is not None]),
    }
    return rows, [step.token for step in found if step.token is not None]


def drift(rows, stages):
    """Largest difference by stage; the host may have stopped before the stream's end."""
    return {
        name: float(np.abs(got - stages[name][: len(got)].numpy()).max())
        for name, got in rows.items()
    }


def test_host_over_graphs_streams_what_the_engine_does(model, engine):
    stages, tokens = engine
    host = host_of(graphs_of(model))
    rows, got = streamed(host, stages["mel"])
    assert host.encoder.position > 2 * 96 and host.decoder.position > 96  # both caches wrapped
    assert got == tokens[: len(got)] and len(set(got)) > 10
    off = drift(rows, stages)
    assert {n: d for n, d in off.items() if d > DRIFT[n]} == {}


def test_every_layer_and_the_past_matter(model, engine):
    """So that the agreement above is one of all parts: each of these is left out, and shows."""
    stages, _ = engine
    for kind, forget in (
        ("voxtral-encoder-chunk", "keys"),
        ("voxtral-encoder-chunk", "past"),
        ("voxtral-decoder-step", "values"),
        ("voxtral-conv-stem", "hidden_cache"),
        ("voxtral-decoder-step", "sin"),
    ):
        graphs = graphs_of(model)
        host = host_of(graphs)
        zeroed = lambda feeds, g=graphs[kind], n=forget: g.run(feeds | {n: 0 * feeds[n]})  # noqa: E731
        if kind == "voxtral-conv-stem":
            host.stem = zeroed
        else:
            (host.encoder if "encoder" in kind else host.decoder).runner = zeroed
        off = drift(streamed(host, stages["mel"], 45)[0], stages)
        assert any(off[name] > 100 * DRIFT[name] for name in off), (kind, forget, off)


def test_a_cache_one_slot_off_is_caught(model, engine):
    stages, _ = engine
    host = host_of(graphs_of(model))
    cache = host.encoder.cache
    append = cache.append

    def shifted(keys, values):
        append(keys[:, :, :3], values[:, :, :3])

    cache.append = shifted
    assert drift(streamed(host, stages["mel"], 42)[0], stages)["encoder"] > 1e-2


def test_delay_is_baked_into_the_decoder(model):
    stages = Stages()
    found = stream(model, noise(1.0), delay_ms=240, observer=stages)
    rows, got = streamed(host_of(graphs_of(model, delay=3)), stages.joined()["mel"], 46)
    assert got == [t.id for t in found.tokens][: len(got)] and got
    assert drift(rows, stages.joined())["logits"] <= DRIFT["logits"]
    other = streamed(host_of(graphs_of(model, delay=6)), stages.joined()["mel"], 46)[0]
    assert drift({"logits": other["logits"]}, stages.joined())["logits"] > 1e-2


def test_mlstate_differs_by_rounding_of_keys_and_values_alone(model, engine):
    stages, _ = engine
    host = host_of(graphs_of(model, cache="mlstate"))
    assert host.encoder.cache is None and host.decoder.cache is None
    off = drift(streamed(host, stages["mel"])[0], stages)
    assert DRIFT["encoder"] < off["encoder"] < MLSTATE_DRIFT["encoder"]
    assert DRIFT["logits"] < off["logits"] < MLSTATE_DRIFT["logits"]


@pytest.mark.parametrize("start", [0, 5, 540_000, 10**9])
def test_angles_are_the_engines_after_any_time(model, start):
    facts = voxtral_graph("voxtral-encoder-chunk", model).facts
    cos, sin = model.encoder.rotary.table(start, 4, like=torch.zeros(1))
    ours = angles(facts["rotary_frequencies"], start, 4)
    # Half a step of float32: torch's and numpy's float64 cosines may differ in their last bit.
    np.testing.assert_allclose(ours["cos"], cos, atol=6e-8, rtol=0)
    np.testing.assert_allclose(ours["sin"], sin, atol=6e-8, rtol=0)


def test_refusals(model):
    with pytest.raises(CoreMLError, match="no graph 'joint' of a Voxtral"):
        voxtral_graph("joint", model)
    with pytest.raises(CoreMLError, match="voxtral-projector has no keys and values"):
        voxtral_graph("voxtral-projector", model, cache="mlstate")
    half = vrt.load("random-tiny", dtype=torch.float16)
    with pytest.raises(CoreMLError, match="FP32 weights"):
        voxtral_graph("voxtral-projector", half)


# Packages, as saved on disk.

ARMS = {
    "plain": Arm(),
    "mlstate": Arm(cache="mlstate", target="iOS18"),
    "fp16": Arm(precision="fp16-body"),
    "palette": Arm(palettize=6),
}
ENCODER_SIDE = VOXTRAL_KINDS[:3]


@pytest.fixture(scope="module")
def exported(model, tmp_path_factory):
    needs_coremltools()
    from vrt.coreml.export import export
    from vrt.coreml.sources import Source

    folder, made, source = tmp_path_factory.mktemp("voxtral"), {}, Source("random-tiny", model)

    def of(arm, kind):
        if (arm, kind) not in made:
            made[arm, kind] = export(source, kind, folder / arm, ARMS[arm])
        return made[arm, kind]

    return of


def host_over(packages):
    from vrt.coreml.package import open_package
    from vrt.coreml.runners import interpreted

    opened = {p.contract.kind: open_package(p.package) for p in packages}
    runners = {kind: interpreted(package) for kind, package in opened.items()}
    return VoxtralHost({kind: package.contract for kind, package in opened.items()}, runners)


# Steps of the prompt, 39, and some tokens; the encoder's window wraps at 24.
FEW = 46


def test_packages_stream_what_the_engine_does(exported, engine):
    stages, tokens = engine
    packages = [exported("plain", kind) for kind in VOXTRAL_KINDS]
    assert {n: d for p in packages for n, d in p.drift.items() if d > 1e-4} == {}
    rows, got = streamed(host_over(packages), stages["mel"], FEW)
    assert got == tokens[: len(got)] and len(got) == FEW - 38
    off = drift(rows, stages)
    assert {n: d for n, d in off.items() if d > DRIFT[n]} == {}


def test_packages_with_states_keep_them(exported, engine):
    stages, _ = engine
    packages = [exported("mlstate" if kind in CACHED else "plain", kind) for kind in VOXTRAL_KINDS]
    for package in packages:
        if package.contract.kind in CACHED:
            (function,) = package.contract.functions
            assert {p.name for p in function.inputs}.isdisjoint({"keys", "values"})
            assert {(p.name, p.dtype) for p in function.states} == {
                ("keys", "float16"),
                ("values", "float16"),
            }
    off = drift(streamed(host_over(packages), stages["mel"], FEW)[0], stages)
    assert DRIFT["encoder"] < off["encoder"] < MLSTATE_DRIFT["encoder"]
    assert off["logits"] < MLSTATE_DRIFT["logits"]


@pytest.mark.parametrize("kind", VOXTRAL_KINDS)
def test_float16_keeps_norms_and_softmax_wide(exported, kind):
    from vrt.coreml.package import open_package

    found = exported("fp16", kind)
    # Measured 0.003 (stem, of 3), 0.023 (encoder, of 4), 0.009 (of 5), 0.06 (logits, of 12).
    assert max(found.drift.values()) < 0.1 and max(found.drift.values()) > 1e-4
    ops = [op for op in open_package(found.package).function("main").operations]
    dtypes = {op.type: {t.dtype for _, t in op.outputs} for op in ops}
    assert dtypes.get("linear", dtypes.get("conv")) == {"float16"}
    for wide in ("reduce_mean", "rsqrt", "softmax"):
        assert dtypes.get(wide, {"float32"}) == {"float32"}
    if kind in CACHED:
        squares = [op for op in ops if op.type == "mul" and len(set(op.reads())) == 1]
        assert squares and {t.dtype for op in squares for _, t in op.outputs} == {"float32"}
    assert not {"int16", "uint16"} & {t.dtype for op in ops for _, t in op.outputs}


@pytest.mark.parametrize("kind", ENCODER_SIDE)
def test_palettes_are_for_the_encoders_side(exported, kind):
    found = exported("palette", kind)
    assert found.contract.palettize_bits == 6
    # Measured 0.18, 0.71 and 0.64 on random weights: 64 values of a normal distribution.
    assert max(found.drift.values()) < 1.0


def test_decoder_takes_no_palette(exported):
    with pytest.raises(CoreMLError, match="palettes are for the encoder's weights"):
        exported("palette", "voxtral-decoder-step")


def test_contract_tells_a_host_all_that_it_needs(exported, model):
    facts = exported("plain", "voxtral-decoder-step").contract.facts
    said = {k: facts[k] for k in ("delay_tokens", "delay_ms", "left_pad_tokens", "window")}
    assert said == {"delay_tokens": 6, "delay_ms": 480, "left_pad_tokens": 32, "window": 96}
    assert (facts["bos"], facts["streaming_pad"]) == (model.config.bos, model.config.streaming_pad)
    assert len(facts["rotary_frequencies"]) == 8 and facts["token_ms"] == 80
