"""Files of weights: written and read back, in every form, and each way in which one can be wrong.

The archives here are written by hand or by ours; those that NeMo writes are in
test_oracle_nemo_model.py.
"""

import dataclasses
import gzip
import io
import json
import pickle
import sys
import tarfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from vrt.rnnt import BeamConfig, ModelScorer, Transducer, TransducerConfig, malsd
from vrt.rnnt.vocabulary import Vocabulary, VocabularyError
from vrt.rnnt.weights import (
    WeightsError,
    from_tensors,
    load,
    open_checkpoint,
    save_nemo,
    settings_nemo,
    state_dict_nemo,
)
from vrt.rnnt.weights.settings import Settings

SMALL = TransducerConfig(6, 10, 12, 2, 9)
LETTERS = Vocabulary(tuple("a by!"))
EMBED = "decoder.prediction.embed.weight"
IH0 = "decoder.prediction.dec_rnn.lstm.weight_ih_l0"


def model_of(config=SMALL, seed=1):
    model = Transducer.random(config, seed)
    model.vocabulary = LETTERS if config.vocab == 6 else None
    return model


def same(left, right):
    pairs = zip(left.state_dict().items(), right.state_dict().items(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


def torch_bytes(content):
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def settings(**changes):
    """Those of SMALL, a dotted name set to another value or, by None, taken away."""
    content = settings_nemo(SMALL) | {"labels": list(LETTERS.pieces)}
    for name, value in changes.items():
        *keys, last = name.split("__")
        part = content
        for key in keys:
            part = part.setdefault(key, {})
        part[last] = value
        if value is None:
            del part[last]
    return content


def archive(path, content=None, weights=None, mode="w:", **members):
    """A tar as NeMo makes it: names begin with ./, the folder itself is a member."""
    if weights is None:
        weights = state_dict_nemo(model_of())
    files = {
        "model_config.yaml": json.dumps(content or settings()).encode(),
        "model_weights.ckpt": weights if isinstance(weights, bytes) else torch_bytes(weights),
    } | members
    with tarfile.open(path, mode) as tar:
        folder = tarfile.TarInfo(".")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, data in files.items():
            if data is None:
                continue
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"activation": "tanh", "predictor_layers": 1},
        {"activation": "sigmoid", "joint_dropout": 0.2, "predictor_dropout": 0.1},
        {"durations": (0, 1, 2, 3, 4)},
        {"vocab": 33, "predictor_layers": 3, "encoder_width": 5},
    ],
    ids=lambda change: "-".join(change) or "plain",
)
def test_a_model_saved_is_the_model_loaded(change, tmp_path):
    model = model_of(dataclasses.replace(SMALL, **change))
    save_nemo(model, tmp_path / "new" / "a.nemo")
    found = open_checkpoint(tmp_path / "new" / "a.nemo")
    assert found.config == model.config and found.vocabulary == model.vocabulary
    assert same(found.transducer(), model) and not found.transducer().training
    assert found.skipped == ()
    assert len(found.notes) == (model.vocabulary is None)
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["a.nemo"]


def test_a_loaded_model_searches_and_trains(tmp_path):
    save_nemo(model_of(), tmp_path / "a.nemo")
    model = load(tmp_path / "a.nemo")
    x, lengths = torch.randn(1, 6, 10), torch.tensor([6])
    ours, theirs = ModelScorer(model), ModelScorer(model_of())
    config = BeamConfig(beam_size=3)
    assert malsd(ours, ours.project(x), lengths, config) == malsd(
        theirs, theirs.project(x), lengths, config
    )
    before = model.decoder(torch.tensor([[5, 1]]))[0]
    before.sum().backward()
    assert model.decoder.lstm.weight_ih_l1.grad.abs().sum() > 0
    with torch.no_grad():
        model.decoder.lstm.weight_ih_l1.mul_(2)
    assert not torch.equal(model.decoder(torch.tensor([[5, 1]]))[0], before)


def forms(folder):
    """The same model in each form that can be loaded."""
    model = model_of()
    weights = {name: tensor.clone() for name, tensor in state_dict_nemo(model).items()}
    with_encoder = weights | {
        "encoder.layers.0.weight": torch.ones(3, 5),
        "encoder.layers.0.steps": torch.tensor(7),
        "ctc_decoder.bias": torch.ones(4),
    }
    lightning = {"state_dict": with_encoder, "epoch": 3, "callbacks": {}}
    save_nemo(model, folder / "ours.nemo")
    archive(folder / "plain.nemo", weights=with_encoder)
    archive(folder / "zipped.nemo", weights=with_encoder, mode="w:gz")
    archive(folder / "lightning.nemo", weights=lightning)
    (folder / "unpacked").mkdir()
    with tarfile.open(folder / "plain.nemo") as tar:
        tar.extractall(folder / "unpacked", filter="data")
    torch.save(with_encoder, folder / "state.pt")
    torch.save(with_encoder, folder / "old.ckpt", _use_new_zipfile_serialization=False)
    torch.save(lightning, folder / "last.ckpt")
    save_file(weights, folder / "model.safetensors")
    return model, folder


@pytest.mark.parametrize(
    "name",
    [
        "ours.nemo",
        "plain.nemo",
        "zipped.nemo",
        "lightning.nemo",
        "unpacked",
        "state.pt",
        "old.ckpt",
        "last.ckpt",
        "model.safetensors",
    ],
)
def test_every_form_gives_the_same_model(name, tmp_path):
    model, folder = forms(tmp_path)
    found = open_checkpoint(str(folder / name))
    assert same(found.transducer(), model) and found.config == model.config
    told = name.endswith(".nemo") or name == "unpacked"
    assert (found.vocabulary == LETTERS) == told
    assert ("activation is taken for relu" in "".join(found.notes)) != told
    if name not in ("ours.nemo", "model.safetensors"):
        assert [(s.name, s.tensors, s.numbers) for s in found.skipped] == [
            ("encoder", 2, 16),
            ("ctc_decoder", 1, 4),
        ]


def test_a_configuration_may_be_given():
    model = model_of(dataclasses.replace(SMALL, activation="tanh", durations=(0, 1)))
    tensors = state_dict_nemo(model)
    with pytest.raises(WeightsError, match=r"8 outputs for 6 classes .* TDT model needs"):
        from_tensors(tensors)
    found = from_tensors(tensors, model.config)
    assert same(found.transducer(), model) and found.transducer().config == model.config
    with pytest.raises(WeightsError, match=r"2 of another shape: .*\[8, 9\] for \[6, 9\]"):
        from_tensors(tensors, SMALL)


def test_the_name_of_the_output_tells_that_there_is_dropout():
    model = model_of(dataclasses.replace(SMALL, joint_dropout=0.3))
    names = state_dict_nemo(model)
    assert "joint.joint_net.2.weight" in names
    assert from_tensors(names).config.joint_dropout == 0.2
    assert "joint.joint_net.1.weight" in state_dict_nemo(model_of())


def test_a_loaded_model_has_memory_of_its_own():
    tensors = state_dict_nemo(model_of())
    model = from_tensors(tensors).transducer()
    tensors[EMBED].zero_()
    assert model.decoder.embed.any()


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_precision_stays_or_is_converted_on_request(half, tmp_path):
    weights = {n: t.to(half) for n, t in state_dict_nemo(model_of()).items()}
    path = archive(tmp_path / "half.nemo", weights=weights)
    assert load(path).decoder.embed.dtype == half
    full = load(path, dtype=torch.float32)
    assert {p.dtype for p in full.parameters()} == {torch.float32}
    assert torch.equal(full.decoder.embed, weights[EMBED].float())
    with pytest.raises(WeightsError, match=r"dtype torch.int8: weights are one of"):
        load(path, dtype=torch.int8)


def test_weights_of_two_dtypes_ask_for_a_choice(tmp_path):
    weights = state_dict_nemo(model_of())
    weights[EMBED] = weights[EMBED].half()
    path = archive(tmp_path / "two.nemo", weights=weights)
    with pytest.raises(WeightsError, match=r"2 dtypes \(torch.float16, torch.float32\).*dtype="):
        load(path)
    assert load(path, dtype=torch.float32).decoder.embed.dtype == torch.float32


def test_a_blank_that_is_not_zero_is_kept_and_told(tmp_path):
    weights = state_dict_nemo(model_of())
    weights[EMBED] = weights[EMBED].clone()
    weights[EMBED][5] = 0.5
    found = open_checkpoint(archive(tmp_path / "a.nemo", weights=weights))
    assert "blank's embedding is not zero" in found.notes[0]
    model = found.transducer()
    assert (model.decoder.embed[5] == 0.5).all()
    other = ModelScorer(model_of()).start(1).predicted
    assert not torch.equal(ModelScorer(model).start(1).predicted, other)


def test_a_base_keeps_all_but_predictor_and_joint(tmp_path):
    encoder = {"encoder.weight": torch.randn(4, 4), "preprocessor.fb": torch.ones(3)}
    weights = state_dict_nemo(model_of(seed=1)) | encoder
    base = archive(tmp_path / "base.nemo", weights=weights, **{"x_vocab.txt": b"a\nb\n"})
    new = model_of(seed=2)
    save_nemo(new, tmp_path / "new.nemo", base=base)
    assert same(load(tmp_path / "new.nemo"), new)
    for path in (base, tmp_path / "new.nemo"):
        with tarfile.open(path) as tar:
            files = {m.name: tar.extractfile(m).read() for m in tar.getmembers() if m.isfile()}
        kept = torch.load(io.BytesIO(files["./model_weights.ckpt"]), weights_only=True)
        assert all(torch.equal(kept[name], tensor) for name, tensor in encoder.items())
        assert files["./x_vocab.txt"] == b"a\nb\n"
        assert json.loads(files["./model_config.yaml"]) == settings()
    save_nemo(model_of(seed=3), base, base=base)
    assert same(load(base), model_of(seed=3))
    with pytest.raises(WeightsError, match=r"another predictor or joint \(decoder.prediction.emb"):
        save_nemo(model_of(dataclasses.replace(SMALL, vocab=7)), tmp_path / "x.nemo", base=base)
    with pytest.raises(WeightsError, match=r"another predictor or joint .*_l2"):
        save_nemo(
            model_of(dataclasses.replace(SMALL, predictor_layers=3)), tmp_path / "x", base=base
        )


# What cannot be loaded: a name of the case, what makes it, and what is said of it.


def changed(**tensors):
    """Weights of SMALL with some replaced, or taken away by None."""
    found = state_dict_nemo(model_of()) | {n.replace("__", "."): t for n, t in tensors.items()}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def with_nan():
    weights = changed()
    weights[IH0] = weights[IH0].clone()
    weights[IH0][3, 2] = torch.nan
    return weights


def projected():
    lstm = torch.nn.LSTM(12, 20, 2, proj_size=12)
    names = {f"decoder.prediction.dec_rnn.lstm.{n}": t for n, t in lstm.state_dict().items()}
    return changed() | names


WRONG_WEIGHTS = {
    "missing": (changed(joint__pred__bias=None), "1 missing: joint.pred.bias"),
    "no embedding": (changed(decoder__prediction__embed__weight=None), f"has no {EMBED}"),
    "no output": (
        {n: t for n, t in changed().items() if "joint_net" not in n},
        "has no joint.joint_net.2.weight",
    ),
    "no layers": (
        {n: t for n, t in changed().items() if "lstm" not in n},
        "4 missing: decoder.prediction.dec_rnn.lstm.weight_ih_l0",
    ),
    "no biases": (
        {n: t for n, t in changed().items() if "bias_ih" not in n and "bias_hh" not in n},
        "4 missing: .*bias_ih_l0",
    ),
    "unexpected": (
        changed(joint__adapter_layer__x=torch.ones(1)),
        "1 unexpected .*adapters.*: joint.adapter_layer.x",
    ),
    "shape": (
        changed(joint__pred__bias=torch.zeros(4)),
        r"1 of another shape: joint.pred.bias \[4\] for \[9\]",
    ),
    "one axis": (changed(joint__enc__weight=torch.zeros(9)), r"joint.enc.weight is \[9\], two"),
    "whole numbers": (
        changed(joint__pred__weight=torch.zeros(9, 12, dtype=torch.int8)),
        "1 of a dtype other than .*: joint.pred.weight torch.int8",
    ),
    "nan": (with_nan(), f"1 with NaN or infinity: {IH0}"),
    "infinite": (
        changed(joint__pred__bias=torch.full((9,), torch.inf)),
        "1 with NaN or infinity: joint.pred.bias",
    ),
    "projected": (projected(), "unexpected .*weight_hr_l0"),
    "two models": (
        changed(decoder__prediction__embed__weight=torch.zeros(8, 12)),
        "6 outputs for 8 classes .* two models",
    ),
    "multi-blank": (
        changed(joint__joint_net__1__weight=torch.zeros(8, 9)),
        "8 outputs for 6 classes .*multi-blank",
    ),
    "a list": (torch_bytes([1, 2]), "holds a list, not a state dict"),
    "nothing of ours": (torch_bytes({"a": torch.ones(1)}), "none of decoder. or joint."),
    "no torch file": (b"not a checkpoint", "damaged, or holds Python objects"),
    "cut off": (torch_bytes(changed())[:4000], "damaged or not complete"),
    "empty": (b"", "damaged or not complete"),
}


@pytest.mark.parametrize("case", WRONG_WEIGHTS)
def test_wrong_weights_are_refused_by_name(case, tmp_path):
    weights, complaint = WRONG_WEIGHTS[case]
    path = archive(tmp_path / "a.nemo", weights=weights)
    with pytest.raises(WeightsError, match=complaint) as error:
        load(path)
    assert str(path) in str(error.value)


def test_all_that_is_wrong_is_said_at_once():
    weights = changed(joint__pred__bias=None, joint__extra=torch.ones(1))
    weights["joint.enc.bias"] = torch.zeros(3)
    with pytest.raises(WeightsError) as error:
        from_tensors(weights)
    assert len(str(error.value).splitlines()) == 4


WRONG_SETTINGS = {
    "ctc": (settings(joint=None), "has no joint: this is no transducer"),
    "stateless": (
        settings(decoder___target_="nemo.collections.asr.modules.StatelessTransducerDecoder"),
        "decoder._target_ is StatelessTransducerDecoder; only RNNTDecoder",
    ),
    "layer norm": (settings(decoder__normalization_mode="layer"), "normalization_mode is 'layer'"),
    "no pad": (settings(decoder__blank_as_pad=False), "blank_as_pad is false.*row of zeros"),
    "multi-blank": (settings(loss__loss_name="multiblank_rnnt"), "is of a multi-blank model"),
    "activation": (settings(joint__jointnet__activation="gelu"), "activation"),
    "dropout": (settings(joint__jointnet__dropout="much"), "dropout is 'much', not a number"),
    "durations": (settings(loss__tdt_kwargs__durations=[0, "1"]), "'1' in loss.tdt_kwargs"),
    "durations of an RNN-T": (
        settings(loss__tdt_kwargs__durations=[0, 1]),
        "6 outputs for 6 classes .* 2 durations",
    ),
    "labels": (settings(labels=["a", 1, "b", "c", "d"]), "1 in labels is not a string"),
    "number of labels": (settings(labels=["a", "b"]), "has 2 pieces and the weights 5 labels"),
    "circle": (settings(labels="${labels}"), "labels refers to itself"),
    "a list": ([1], "holds a list, not a mapping"),
}


@pytest.mark.parametrize("case", WRONG_SETTINGS)
def test_wrong_settings_are_refused_by_name(case, tmp_path):
    content, complaint = WRONG_SETTINGS[case]
    kinds = (WeightsError, TypeError) if case == "activation" else WeightsError
    with pytest.raises(kinds, match=complaint):
        load(archive(tmp_path / "a.nemo", content))


def no_tar(path):
    path.write_bytes(b"\x1f\x8b" + b"x" * 100)


def cut_tar(path):
    archive(path)
    path.write_bytes(path.read_bytes()[:9000])


def cut_gzip(path):
    archive(path, mode="w:gz")
    path.write_bytes(path.read_bytes()[:-200])


def bad_gzip(path):
    data = bytearray(gzip.compress(archive(path).read_bytes()))
    data[len(data) // 2] ^= 255
    path.write_bytes(bytes(data))


def without_config(path):
    archive(path, **{"model_config.yaml": None})


def without_weights(path):
    archive(path, **{"model_weights.ckpt": None})


def bad_yaml(path):
    archive(path, **{"model_config.yaml": b"a: [1, 2\nb: }"})


def pointer(path):
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (no_tar, "is no whole .nemo archive"),
        (cut_tar, "is no whole .nemo archive .*download it again"),
        (cut_gzip, "is no whole .nemo archive"),
        (bad_gzip, "is no whole .nemo archive"),
        (without_config, "has no model_config.yaml; it holds model_weights.ckpt"),
        (without_weights, "has no model_weights.ckpt; it holds model_config.yaml"),
        (bad_yaml, "no readable YAML"),
        (pointer, "git lfs pull"),
        (lambda path: None, "is not there; give a .nemo archive"),
        (lambda path: path.mkdir(), "has no model_config.yaml; it holds nothing"),
        (lambda path: path.write_bytes(b"hello"), "damaged"),
    ],
)
def test_damaged_files_are_refused_by_name(make, complaint, tmp_path):
    path = tmp_path / "a.nemo"
    make(path)
    with pytest.raises(WeightsError, match=complaint) as error:
        load(path)
    assert str(path) in str(error.value)


def test_a_damaged_safetensors_file(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"\x09\x00")
    with pytest.raises(WeightsError, match="damaged or no safetensors file"):
        load(tmp_path / "a.safetensors")


class Runs:
    """Unpickled, it writes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("inside", [True, False])
def test_code_in_a_checkpoint_is_never_run(inside, tmp_path):
    trap = tmp_path / "ran"
    pickle.loads(pickle.dumps(Runs(trap)))
    assert trap.exists()  # it would
    trap.unlink()
    data = torch_bytes(changed() | {"x": Runs(trap)})
    path = tmp_path / "a.ckpt"
    path.write_bytes(data)
    if inside:
        path = archive(tmp_path / "a.nemo", weights=data)
    with pytest.raises(WeightsError, match=r"Python objects beside tensors.*state dict alone"):
        load(path)
    assert not trap.exists()


def test_nothing_of_an_archive_is_written_to_disk(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    path = archive(tmp_path / "a.nemo", **{"../../evil": b"x", "/evil": b"x"})
    assert same(load(path), model_of())
    assert {p.name for p in tmp_path.rglob("*")} == {"in", "a.nemo"}


def test_of_two_members_of_one_name_the_later_counts(tmp_path):
    path = archive(tmp_path / "a.nemo", weights=state_dict_nemo(model_of(seed=1)))
    data = torch_bytes(state_dict_nemo(model_of(seed=2)))
    with tarfile.open(path, "a:") as tar:
        entry = tarfile.TarInfo("model_weights.ckpt")
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
    assert same(load(path), model_of(seed=2))


def test_references_among_settings_are_followed():
    text = b"""
    a: {b: 1, c: [5, 6], d: "${.b}", e: {f: "${..b}"}}
    x: ${a.b}
    y: ${model.a.c.1}
    z: ${oc.env:HOME}
    s: ${x}
    part: ${a}
    gone: ${no.such}
    """
    found = Settings.parse(text, "here")
    names = ["x", "y", "s", "a.d", "a.e.f", "part.c.0"]
    assert [found.get(name) for name in names] == [1, 6, 1, 1, 1, 5]
    assert found.get("z") == "${oc.env:HOME}"
    assert found.get("gone", 3) == 3 and found.get("a.b.c") is None
    inner = Settings.parse(b"model: {a: {b: 2}, c: '${model.a.b}'}\ntrainer: {}", "here")
    assert inner.get("c") == 2


def test_durations_are_those_of_the_loss(tmp_path):
    config = dataclasses.replace(SMALL, durations=(0, 1, 2))
    weights = state_dict_nemo(model_of(config))
    content = settings(
        model_defaults__tdt_durations=[0, 1, 2],
        loss={"loss_name": "tdt", "tdt_kwargs": {"durations": "${model_defaults.tdt_durations}"}},
    )
    assert load(archive(tmp_path / "a.nemo", content, weights)).config == config
    content["loss"] = {"loss_name": "rnnt"}
    with pytest.raises(WeightsError, match="0 durations"):
        load(archive(tmp_path / "a.nemo", content, weights))


def test_a_temperature_is_told_not_applied(tmp_path):
    found = open_checkpoint(archive(tmp_path / "a.nemo", settings(decoding__temperature=1.5)))
    assert "decoding.temperature 1.5 is not applied" in found.notes[0]


@pytest.mark.parametrize(
    ("tokenizer", "note"),
    [
        ({"type": "wpe", "vocab_path": "nemo:x_vocab.txt"}, "'wpe' is not known here"),
        ({"type": "agg", "langs": {}}, "'agg' is not known here"),
        ({"type": "bpe", "model_path": "nemo:0_tokenizer.model"}, "has no 0_tokenizer.model"),
    ],
)
def test_without_a_known_tokenizer_there_are_ids(tokenizer, note, tmp_path):
    found = open_checkpoint(archive(tmp_path / "a.nemo", settings(tokenizer=tokenizer)))
    assert found.vocabulary is None and note in found.notes[0]
    assert "ids only" in found.notes[0]


def test_pieces_need_no_tokenizer_library(tmp_path):
    tokenizer = {"type": "bpe", "model_path": "nemo:ab12_tokenizer.model"}
    path = archive(
        tmp_path / "a.nemo", settings(tokenizer=tokenizer), **{"ab12_tokenizer.model": b"model"}
    )
    found = open_checkpoint(path).vocabulary
    assert found == Vocabulary(LETTERS.pieces, b"model")
    model = load(path)
    save_nemo(model, tmp_path / "b.nemo")
    assert load(tmp_path / "b.nemo").vocabulary == found


def test_pieces_that_look_like_numbers_stay_strings(tmp_path):
    model = model_of()
    model.vocabulary = Vocabulary(("1e5", "no", "null", "2001-01-01", '▁ü\x7f\x85\u2028😀"\\'))
    save_nemo(model, tmp_path / "a.nemo")
    assert load(tmp_path / "a.nemo").vocabulary == model.vocabulary


def test_text_without_the_tokenizer_library_says_which(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    words = Vocabulary(LETTERS.pieces, b"model")
    for call in (lambda: words.text([1, 2]), lambda: words.tokens("a b")):
        with pytest.raises(VocabularyError, match="pip install sentencepiece"):
            call()
    tokenizer = {"type": "bpe", "model_path": "nemo:ab12_tokenizer.model"}
    content = settings(tokenizer=tokenizer, labels=None)
    path = archive(tmp_path / "a.nemo", content, **{"ab12_tokenizer.model": b"model"})
    found = open_checkpoint(path)
    assert found.vocabulary is None
    assert "pip install sentencepiece" in found.notes[0] and "ids only" in found.notes[0]
