"""Golden files that cannot be used are refused by name; the feeds of a check are what they say."""

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from vrt.golden import GoldenError, check, compare, make_voxtral, small_problem
from vrt.golden.feed import feeds
from vrt.golden.format import kind, read, read_problem
from vrt.golden.stages import STAGES
from vrt.voxtral.session import StreamingSession


@pytest.fixture(scope="module")
def original(repo_root):
    return repo_root / "data" / "golden" / "voxtral-length-1.safetensors"


@pytest.fixture
def change(original, tmp_path):
    """Writes a copy with other tensors and metadata: None takes a key away."""

    def changed(tensors=None, **metadata):
        with safe_open(original, framework="pt") as file:
            held = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            about = json.loads(file.metadata()["json"])
        held = {k: t for k, t in (held | (tensors or {})).items() if t is not None}
        about = {k: v for k, v in (about | metadata).items() if v is not ...}
        path = tmp_path / "changed.safetensors"
        save_file(held, path, metadata={"json": json.dumps(about)})
        return path

    return changed


def refused(path, *words):
    with pytest.raises(GoldenError) as caught:
        check(path)
    assert str(path) in str(caught.value)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "key",
    [
        *("audio_i16", "weight.model.audio_tower.norm.weight"),
        *("weight.model.language_model.layers.1.ada_rms_norm.linear2.weight",),
        *(f"expect.{stage}" for stage in STAGES),
    ],
)
def test_missing_tensor_is_named(change, key):
    refused(change({key: None}), "lacks", key)


@pytest.mark.parametrize(
    ("key", "dtype", "found"),
    [
        ("audio_i16", torch.int32, "audio_i16 is int32, the format has int16"),
        ("audio_i16", torch.float32, "audio_i16 is float32, the format has int16"),
        ("expect.mel.stream", torch.float64, "mel.stream is float64, the format has float32"),
        ("expect.tokens.stream_full_span", torch.float32, "is float32, the format has int64"),
        ("weight.model.audio_tower.norm.weight", torch.bfloat16, "norm.weight is bfloat16"),
    ],
)
def test_wrong_dtype_is_named(change, original, key, dtype, found):
    with safe_open(original, framework="pt") as file:
        tensor = file.get_tensor(key).to(dtype)
    refused(change({key: tensor}), found)


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("n_audio_tokens", 19, "n_audio_tokens is 19, but 1 samples make 18"),
        ("n_audio_tokens", ..., "lacks n_audio_tokens"),
        ("prompt_len", 8, "prompt_len is 8, must be 7"),
        ("right_pad_tokens", 17, "right_pad_tokens is 17, must be 13"),
        ("num_delay_tokens", 31, "num_delay_tokens is 31: delay_ms=2480"),
        ("num_delay_tokens", 0, "nearest allowed: 80"),
        ("num_delay_tokens", 6.0, "num_delay_tokens must be a whole number, got 6.0"),
        ("eos", ..., "lacks eos"),
        ("eos", "2", "eos must be a whole number, got '2'"),
        ("vocab", 20, "larger than 20"),
        ("encoder", 3, "encoder must be an object, got 3"),
        ("left_pad_tokens", 520, "left_pad_tokens is 520, not a whole number of 0..480"),
        ("vocab", 10**12, "decoder vocab is 1000000000000, not a whole number of"),
        ("format", 2, "format 2; this vrt reads format 1"),
    ],
)
def test_wrong_metadata_is_named(change, key, value, found):
    refused(change(**{key: value}), found)


@pytest.mark.parametrize(
    ("side", "key", "value", "found"),
    [
        ("encoder", "W", 0, "encoder.W must be at least 1"),
        ("encoder", "kv", 1, "encoder.kv is 1, must be 2"),
        ("decoder", "hd", 7, "head_dim 7 is odd"),
        ("decoder", "kv", 3, "4 query heads do not divide into 3"),
        ("decoder", "eps", -1, "decoder.eps must be a positive number, got -1"),
        ("decoder", "L", ..., "lacks decoder.L"),
        ("encoder", "d", 13, "13"),
        ("encoder", "W", 10**9, "encoder window is 1000000000, not a whole number of"),
        ("decoder", "W", 10**20, "decoder window is 100000000000000000000, not a whole number of"),
        ("encoder", "th", float("inf"), "encoder.th must be a positive number, got inf"),
    ],
)
def test_wrong_size_is_named(change, original, side, key, value, found):
    sizes = dict(read(original).about.to_json()[side])
    sizes[key] = value
    refused(change(**{side: {k: v for k, v in sizes.items() if v is not ...}}), found)


def test_encoder_needs_no_kv(change, original):
    sizes = dict(read(original).about.to_json()["encoder"])
    del sizes["kv"]
    assert check(change(encoder=sizes)).ok


def test_unknown_metadata_is_kept_and_changes_nothing(change):
    path = change(remark="by hand")
    assert check(path).ok and read(path).about.more["remark"] == "by hand"


def test_wrong_shapes_are_named(change):
    refused(change({"expect.t_cond": torch.zeros(5)}), "expect.t_cond has shape [5]", "[16]")
    refused(change({"audio_i16": torch.zeros(1, 1, dtype=torch.int16)}), "audio_i16", "[1, 1]")
    shape = {"weight.model.audio_tower.norm.weight": torch.zeros(5)}
    refused(change(shape), "audio_tower.norm.weight [5] for [12]")
    ada = "weight.model.language_model.layers.0.ada_rms_norm.linear1.weight"
    refused(change({ada: torch.zeros(0, 16)}), "linear1.weight: decoder ada_dim is 0, not a whole")


def test_unexpected_weights_are_named_in_one_line(change):
    path = change({f"weight.model.audio_tower.{name}": torch.zeros(5) for name in ("a", "b.c")})
    with pytest.raises(GoldenError) as caught:
        check(path)
    assert str(caught.value) == (
        f"{path}: not the tensors of the model that its configuration describes (Hugging Face"
        " names): 2 unexpected: model.audio_tower.a, model.audio_tower.b.c"
    )


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_an_expected_value_that_is_no_number_is_named(change, original, value):
    values = read(original).expect["logits.stream"].clone()
    values[3, 2] = value
    words = (f"expect.logits.stream is {value} at [3, 2]", "must be finite")
    refused(change({"expect.logits.stream": values}), *words)


@pytest.mark.parametrize("length", [0, 4, 9, 200, 20_000])
def test_truncated_file_is_named(original, tmp_path, length):
    path = tmp_path / "cut.safetensors"
    path.write_bytes(original.read_bytes()[:length])
    refused(path, "truncated")


def test_files_of_no_kind_are_named(tmp_path):
    refused(tmp_path / "none.safetensors", "No such file")
    text = tmp_path / "notes.txt"
    text.write_text("mel: fine\n", encoding="utf-8")
    refused(text, "unknown kind")
    bare = tmp_path / "model.safetensors"
    save_file({"x": torch.zeros(3)}, bare)
    refused(bare, "no metadata key `json`")
    save_file({"x": torch.zeros(3)}, bare, metadata={"json": "{"})
    refused(bare, "is not JSON")
    save_file({"x": torch.zeros(3)}, bare, metadata={"json": "[" * 100_000})
    refused(bare, "is not JSON", "recursion")
    save_file({"x": torch.zeros(3)}, bare, metadata={"json": "[1]"})
    refused(bare, "no JSON object")


def test_kind_is_told_by_content_before_the_name(original, tmp_path):
    assert kind(original) == "voxtral"
    for name in ("problem", "problem.json", "problem.bin"):
        path = tmp_path / name
        path.write_bytes(original.read_bytes())
        assert kind(path) == "voxtral" and check(path).ok
    path = tmp_path / "search.safetensors"
    path.write_text(' {"scorer": {}}', encoding="utf-8")
    assert kind(path) == "malsd"


# --- feeds ------------------------------------------------------------------------------------

SAMPLES = np.arange(50_000, dtype=np.float32)


@pytest.mark.parametrize("feed", [1280, "1280", 1, 49_999, 60_000, "random:0", "random:1"])
def test_feeds_are_all_of_the_audio_in_order(feed):
    pieces = list(feeds(SAMPLES, feed))
    assert np.array_equal(np.concatenate(pieces), SAMPLES)
    if "random" not in str(feed):
        assert {len(piece) for piece in pieces[:-1]} <= {int(feed)}


def test_random_feeds_repeat_by_seed_and_vary():
    sizes = {s: [len(p) for p in feeds(SAMPLES, f"random:{s}")] for s in (1, 2)}
    assert sizes[1] == [len(p) for p in feeds(SAMPLES, "random:1")] != sizes[2]
    assert min(sizes[1] + sizes[2]) < 100 and max(sizes[1] + sizes[2]) > 4000


def test_no_audio_is_no_feed():
    assert list(feeds(SAMPLES[:0], 160)) == []


@pytest.mark.parametrize("feed", [0, -1, "0", "x", "random:", "random:x", "random:-1", "", "1.5"])
def test_other_feeds_are_refused(original, feed):
    with pytest.raises(GoldenError, match=r"feed .*(number of samples|whole number)"):
        check(original, feed)


def test_check_feeds_the_stream_in_pieces_of_that_size(original, monkeypatch):
    longer = original.with_name("voxtral-length-1281.safetensors")
    fed = []
    feed = StreamingSession.feed
    monkeypatch.setattr(
        StreamingSession, "feed", lambda self, x: (fed.append(len(x)), feed(self, x))[1]
    )
    check(longer, 500)
    assert fed == [500, 500, 281] * 2  # the full span, and up to EOS


# --- making -----------------------------------------------------------------------------------

NOISE = np.random.default_rng(1).integers(-9000, 9000, 3000, dtype=np.int16)


def test_own_answer_makes_a_file_that_passes(tmp_path):
    path = tmp_path / "mine.safetensors"
    about = make_voxtral(path, small_problem("mine", NOISE, seed=3, delay_ms=80), "vrt")
    golden = read_problem(path)
    assert about.more["oracle"]["name"] == golden.about.more["oracle"]["name"] == "vrt"
    assert golden.about.num_delay_tokens == 1 and golden.audio.tolist() == NOISE.tolist()
    assert check(path, 160).ok


def test_oracles_agree(tmp_path):
    pytest.importorskip("transformers", reason="the oracle is transformers: pip install 'vrt[hf]'")
    paths = {oracle: tmp_path / f"{oracle}.safetensors" for oracle in ("hf", "vrt")}
    for oracle, path in paths.items():
        make_voxtral(path, small_problem("both", NOISE, seed=5, eos=7), oracle)
    report = compare(paths["hf"], paths["vrt"])
    assert report.ok and not report.absent, report.table()


def test_problems_that_cannot_be_judged_are_refused(tmp_path):
    """Weights so large that rounding grows past the tolerance: the reference parts with itself."""
    pytest.importorskip("transformers", reason="the oracle is transformers: pip install 'vrt[hf]'")
    problem = small_problem("wild", NOISE, seed=5)
    for name, weight in problem.weights.items():
        if "self_attn" in name and name.endswith("weight"):
            weight *= 12
    with pytest.raises(GoldenError, match=r"wild: .*(of the tolerance away|apart).*another seed"):
        make_voxtral(tmp_path / "wild.safetensors", problem)
    assert not (tmp_path / "wild.safetensors").exists()


def test_unknown_oracle_is_named(tmp_path):
    with pytest.raises(GoldenError, match="oracle 'nemo' is not one of hf, vrt"):
        make_voxtral(tmp_path / "x.safetensors", small_problem("x", NOISE), "nemo")
