"""Damaged, incomplete and foreign checkpoints are refused by name, with everything in one error."""

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from checkpoint_files import HFModel, hf_model, write_hf, write_mistral
from safetensors.torch import load_file, save_file
from torch import Tensor

import vrt
from vrt.voxtral.tokenizer import TokenizerError
from vrt.voxtral.weights import from_tensors, state_dict_hf
from vrt.voxtral.weights.checkpoint import open_checkpoint, shipped_models
from vrt.voxtral.weights.config_files import CheckpointError

EMBED = "language_model.model.embed_tokens.weight"
HEAD = "language_model.lm_head.weight"
NORM = "audio_tower.norm.weight"


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("originals")
    model = hf_model()
    write_hf(model, root / "hf")
    write_hf(model, root / "hf sharded", max_shard_size="200KB")
    write_mistral(model, root / "mistral")
    write_mistral(model, root / "mistral sharded", shards=3)
    return root


@pytest.fixture
def folder(originals: Path, tmp_path: Path) -> Callable[[str], Path]:
    return lambda kind: Path(shutil.copytree(originals / kind, tmp_path / kind))


def refusal(path: Path | str) -> str:
    with pytest.raises(CheckpointError) as error:
        vrt.load(path)
    return str(error.value)


def rewrite(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> Path:
    (file,) = folder.glob("*.safetensors")
    tensors = load_file(file)
    file.unlink()  # a mapped file is not to be written over
    change(tensors)
    save_file(tensors, file, metadata={"format": "pt"})
    return folder


def edit(file: Path, change: Callable[[dict], object]) -> Path:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    return file.parent


def test_originals_load(originals: Path) -> None:
    for kind in ("hf", "hf sharded", "mistral", "mistral sharded"):
        vrt.load(originals / kind)


def test_all_that_is_wrong_with_the_tensors_is_in_one_error(folder: Callable) -> None:
    def spoil(tensors: dict[str, Tensor]) -> None:
        del tensors[NORM]
        del tensors["audio_tower.layers.1.self_attn.q_proj.bias"]
        tensors["audio_tower.layers.1.self_attn.k_proj.bias"] = torch.zeros(64)
        tensors["audio_tower.layers.0.mlp.down_proj.bias"] = torch.zeros(47)
        tensors["multi_modal_projector.linear_1.weight"] = torch.zeros(64, 192, dtype=torch.int8)

    said = refusal(rewrite(folder("hf"), spoil)).splitlines()
    assert "not the tensors of the model that its configuration describes" in said[0]
    assert said[1:] == [
        f"  2 missing: audio_tower.layers.1.self_attn.q_proj.bias, {NORM}",
        "  1 unexpected: audio_tower.layers.1.self_attn.k_proj.bias",
        "  1 of another shape: audio_tower.layers.0.mlp.down_proj.bias [47] for [48]",
        "  1 of a dtype other than F32, BF16, F16: multi_modal_projector.linear_1.weight I8",
    ]


def test_mistral_complaints_use_mistral_names(folder: Callable) -> None:
    said = refusal(rewrite(folder("mistral"), lambda t: t.pop("layers.1.attention.wq.weight")))
    assert "(Mistral names)" in said and "1 missing: layers.1.attention.wq.weight" in said


def test_long_lists_are_counted_and_cut(folder: Callable) -> None:
    def drop_encoder(tensors: dict[str, Tensor]) -> None:
        for name in [n for n in tensors if n.startswith("audio_tower.layers")]:
            del tensors[name]

    said = refusal(rewrite(folder("hf"), drop_encoder))
    assert "26 missing: audio_tower.layers.0." in said and said.endswith("and 22 more")


def test_a_wrong_size_in_the_config_is_a_wrong_shape(folder: Callable) -> None:
    def widen(config: dict) -> None:
        config["text_config"]["intermediate_size"] = 97

    said = refusal(edit(folder("hf") / "config.json", widen))
    assert "6 of another shape: " in said and "[96, 64] for [97, 64]" in said


def test_one_tensor_under_two_names_is_refused(folder: Callable) -> None:
    said = refusal(rewrite(folder("hf"), lambda t: t.update({f"model.{NORM}": torch.ones(48)})))
    assert f"2 given twice: {NORM}, model.{NORM}" in said


MISTRAL_EMBED = "mm_streams_embeddings.embedding_module.tok_embeddings.weight"


@pytest.mark.parametrize(
    ("kind", "name", "embed"),
    [
        ("hf", HEAD, EMBED),
        ("hf", "lm_head.weight", EMBED),
        ("mistral", "output.weight", MISTRAL_EMBED),
    ],
)
def test_output_matrix_is_taken_as_a_copy_only(
    folder: Callable, kind: str, name: str, embed: str
) -> None:
    """transformers uses an output matrix that differs, so its logits would not be ours."""
    path = folder(kind)
    rewrite(path, lambda t: t.update({name: t[embed].clone()}))
    vrt.load(path)
    rewrite(path, lambda t: t[name].view(-1)[-1:].add_(1))
    assert f"{name} differs from {embed}" in refusal(path)
    if kind == "hf":
        theirs = HFModel.from_pretrained(path)
        assert not torch.equal(theirs.lm_head.weight, theirs.get_input_embeddings().weight)


def test_untied_embeddings_need_the_copy(folder: Callable) -> None:
    path = edit(folder("hf") / "config.json", lambda c: c.update(tie_word_embeddings=False))
    assert "embeddings not tied" in refusal(path)
    rewrite(path, lambda t: t.update({HEAD: t[EMBED].clone()}))
    vrt.load(path)
    path = edit(folder("mistral") / "params.json", lambda c: c.update(tied_embeddings=False))
    assert "embeddings not tied" in refusal(path)


def test_mixed_dtypes_need_a_choice(folder: Callable) -> None:
    path = rewrite(folder("hf"), lambda t: t.update({NORM: t[NORM].bfloat16()}))
    said = refusal(path)
    assert "tensors of 2 dtypes ({'F32': 56, 'BF16': 1})" in said
    assert "load(..., dtype=torch.float32)" in said
    model = vrt.load(path, dtype=torch.float32)
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_other_dtypes_are_refused(folder: Callable) -> None:
    def widen(tensors: dict[str, Tensor]) -> None:
        tensors.update({name: t.double() for name, t in tensors.items()})

    said = refusal(rewrite(folder("hf"), widen))
    assert "57 of a dtype other than F32, BF16, F16: " in said and " F64" in said
    with pytest.raises(ValueError, match=r"dtype torch\.int8: weights are one of torch\.float32"):
        vrt.load("random-tiny", dtype=torch.int8)


def test_given_tensors_are_checked_as_files_are() -> None:
    model = vrt.load("random-tiny")
    weights = state_dict_hf(model)
    with pytest.raises(CheckpointError, match=f"1 missing: {NORM}"):
        from_tensors(model.config, {n: t for n, t in weights.items() if n != f"model.{NORM}"})
    with pytest.raises(CheckpointError, match="1 unexpected: extra"):
        from_tensors(model.config, weights | {"extra": torch.zeros(1)})
    with pytest.raises(CheckpointError, match=r"\[3\] for \[64\]"):
        from_tensors(model.config, weights | {f"model.{NORM}": torch.zeros(3)})
    with pytest.raises(CheckpointError, match="2 dtypes"):
        from_tensors(model.config, weights | {f"model.{NORM}": torch.zeros(64).half()})


@pytest.mark.parametrize("keep", [0, 7, 2000, -1])
def test_truncated_file(folder: Callable, keep: int) -> None:
    file = folder("hf") / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    said = refusal(file.parent)
    assert f"{file} ({file.stat().st_size:,} bytes) is damaged or not complete" in said
    assert said.endswith("download it again")


def test_header_that_claims_too_much(folder: Callable) -> None:
    file = folder("mistral") / "consolidated.safetensors"
    file.write_bytes(struct.pack("<Q", 2**60) + b"{}")
    assert "is damaged or not complete" in refusal(file.parent)


def test_git_lfs_pointers_are_known(folder: Callable) -> None:
    path = folder("hf")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    (path / "model.safetensors").write_text(pointer)
    assert "get the file with `git lfs pull`" in refusal(path)
    (path / "config.json").write_text(pointer)
    assert "config.json is not readable as JSON" in refusal(path)
    assert "get the file with `git lfs pull`" in refusal(path)


@pytest.mark.parametrize("kind", ["hf sharded", "mistral sharded"])
def test_missing_shards_are_named(folder: Callable, kind: str) -> None:
    path = folder(kind)
    files = sorted(path.glob("*.safetensors"))
    files[1].unlink()
    files[2].unlink()
    said = refusal(path)
    assert f"lacks 2 of {len(files)} shards: {files[1].name}, {files[2].name}" in said


def test_an_index_is_believed_only_where_it_can_be(folder: Callable) -> None:
    path = folder("hf sharded")
    index = path / "model.safetensors.index.json"
    edit(index, lambda c: c["weight_map"].update({NORM: "../model.safetensors"}))
    assert "names a file outside its folder: ../model.safetensors" in refusal(path)
    index.write_text(json.dumps({"weight_map": {NORM: "x" * 5000}}))
    assert "names a file of 5000 characters: xxx" in refusal(path)
    index.write_text('{"metadata": {}}')
    assert "has no weight_map" in refusal(path)
    index.write_text("[1]")
    assert "holds a JSON list, not an object" in refusal(path)
    index.unlink()  # the shards' own names say how many there are
    vrt.load(path)


def test_two_sets_of_shards_are_not_mixed(folder: Callable) -> None:
    path = folder("mistral sharded")
    first = path / "consolidated-00001-of-00003.safetensors"
    shutil.copy(first, path / "consolidated-00001-of-00004.safetensors")
    assert "mixes shards of [3, 4]" in refusal(path)


def test_a_tensor_in_two_shards_is_refused(folder: Callable) -> None:
    path = folder("mistral sharded")
    first = path / "consolidated-00001-of-00003.safetensors"
    shutil.copy(first, path / "consolidated-00002-of-00003.safetensors")
    assert "is in two shards" in refusal(path)


def test_no_checkpoint_at_all(tmp_path: Path) -> None:
    assert "holds neither config.json (Hugging Face) nor params.json (Mistral)" in refusal(tmp_path)
    said = refusal(tmp_path / "absent")
    assert "is no folder and no model of this package (" in said and "random-tiny" in said
    assert "is no folder and no model of this package" in refusal("random-huge")
    (tmp_path / "model.safetensors").touch()
    assert "give the folder that it lies in" in refusal(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "config.json").write_text('{"model_type": "voxtral_realtime"}')
    assert "holds neither model.safetensors nor model.safetensors.index.json" in refusal(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')
    assert "of a 'whisper' model" in refusal(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": ')
    assert "config.json is not readable as JSON" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "tekken.json"])
def test_json_that_is_nested_too_deeply(folder: Callable, name: str) -> None:
    path = folder("hf")
    (path / name).write_text("[" * 100_000)
    with pytest.raises((CheckpointError, TokenizerError), match=f"{name} is no.*recursion"):
        vrt.load(path)


@pytest.mark.parametrize("device", ["foo", "cuda:99", "meta"])
def test_a_device_that_is_not_there(device: str) -> None:
    with pytest.raises(ValueError, match=f"device {device!r}: this machine has cpu"):
        vrt.load("random-tiny", device=device)
    for usable in ("cpu", torch.device("cpu"), "cpu:0"):
        assert vrt.load("random-tiny", device=usable).device.type == "cpu"


def test_prompt_ids_of_a_vocabulary_must_be_the_models(folder: Callable) -> None:
    def move(vocabulary: dict) -> None:
        tokens = vocabulary["special_tokens"]
        tokens[32]["token_str"], tokens[60]["token_str"] = "<moved>", "[STREAMING_PAD]"

    path = edit(folder("hf") / "tekken.json", move)
    edit(path / "config.json", lambda c: c["text_config"].update(vocab_size=50))
    assert "tekken.json: prompt ids 1 and 60 need a vocabulary larger than 50" in refusal(path)


def test_a_folder_of_both_layouts_loads_the_one_whose_weights_are_there(
    originals: Path, tmp_path: Path
) -> None:
    """As the released folder is when only one layout's files were downloaded."""
    both = tmp_path / "both"
    shutil.copytree(originals / "mistral", both)
    shutil.copy(originals / "hf" / "config.json", both)
    assert open_checkpoint(both).layout.value == "Mistral"
    vrt.load(both)
    shutil.copy(originals / "hf" / "model.safetensors", both)
    assert open_checkpoint(both).layout.value == "Hugging Face"
    vrt.load(both)


def test_a_folder_hides_a_shipped_name(
    originals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "random-tiny" in shipped_models()
    assert vrt.load("random-tiny").config.encoder.window == 96
    monkeypatch.chdir(tmp_path)
    shutil.copytree(originals / "hf", "random-tiny")
    assert vrt.load("random-tiny").config.encoder.window == 24


def test_a_vocabulary_of_another_model_is_refused(folder: Callable) -> None:
    def shrink(vocabulary: dict) -> None:
        vocabulary["config"]["default_vocab_size"] = 1400

    path = edit(folder("hf") / "tekken.json", shrink)
    assert "has 1,400 ids and the model puts out 1,472" in refusal(path)
    (path / "tekken.json").write_text("{}")
    with pytest.raises(TokenizerError, match="is no usable tekken vocabulary"):
        vrt.load(path)


def test_the_vocabulary_says_prompt_and_padding(folder: Callable) -> None:
    """The reference builds the prompt from tekken.json, whatever the configuration says."""

    def move(vocabulary: dict) -> None:
        tokens = vocabulary["special_tokens"]
        tokens[32]["token_str"], tokens[40]["token_str"] = "<moved>", "[STREAMING_PAD]"
        tokens[33]["token_str"], tokens[41]["token_str"] = "<moved too>", "[STREAMING_WORD]"
        vocabulary["audio"]["streaming_n_left_pad_tokens"] = 5
        vocabulary["audio"]["transcription_delay_ms"] = 720

    for kind, delay in (("hf", 6), ("mistral", 9)):
        config = open_checkpoint(edit(folder(kind) / "tekken.json", move)).config
        assert (config.streaming_pad, config.streaming_word) == (40, 41)
        assert (config.left_pad_tokens, config.delay_tokens) == (5, delay)


def test_without_a_vocabulary_transcripts_are_ids(folder: Callable) -> None:
    path = folder("hf")
    with_text = vrt.load(path)
    (path / "tekken.json").unlink()
    without = vrt.load(path)
    assert without.tokenizer is None and without.config == with_text.config
