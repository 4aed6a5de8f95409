"""NeMo's own modules, archives and searches beside ours, at equal weights."""

import dataclasses
import tarfile
from collections import Counter

import numpy as np
import pytest
import torch
from rnnt_cases import DECISION, SCORE, differences, unchecked

from vrt.rnnt import (
    PARAKEET,
    BeamConfig,
    Fusion,
    ModelScorer,
    Trace,
    Transducer,
    TransducerConfig,
    greedy,
)
from vrt.rnnt.malsd import search
from vrt.rnnt.margins import margins
from vrt.rnnt.nbest import nbest
from vrt.rnnt.toy import ToyNgram
from vrt.rnnt.vocabulary import Vocabulary, VocabularyError
from vrt.rnnt.weights import from_tensors, load, open_checkpoint, save_nemo, state_dict_nemo

pytest.importorskip("nemo", reason="NeMo is not installed (pip install 'vrt[nemo]')")
oracle = pytest.importorskip("vrt.oracle.nemo_model", reason="this NeMo has no malsd_batch")
archives = pytest.importorskip("nemo_archives")
sentencepiece = pytest.importorskip("sentencepiece")

CONFIGS = [
    TransducerConfig(9, 10, 12, 2, 14),
    TransducerConfig(30, 7, 16, 1, 9, "tanh", joint_dropout=0.2, predictor_dropout=0.2),
    TransducerConfig(12, 20, 8, 3, 16, "sigmoid", durations=(0, 1, 2)),
]


def ids(config):
    return config.activation


@pytest.mark.parametrize("config", CONFIGS, ids=ids)
def test_modules_give_what_nemos_give(config):
    model = Transducer.random(config, 3)
    decoder, joint = oracle.nemo_modules(model)
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, config.vocab, (3, 6), generator=generator)
    x = torch.randn(3, 5, config.encoder_width, generator=generator)
    with torch.no_grad():
        want, (h, c) = decoder.predict(labels, None, add_sos=False, batch_size=3)
        got, state = model.decoder(labels)
        # The same calls of the same library: measured 0.
        for ours, theirs in ((got, want), (state.h, h), (state.c, c)):
            torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)
        started, _ = decoder.predict(labels, None, add_sos=True, batch_size=3)
        start = torch.full((3, 1), config.blank)
        ours, _ = model.decoder(torch.cat([start, labels], 1))
        torch.testing.assert_close(ours, started, atol=1e-6, rtol=0)
        # NeMo's joint has taken log_softmax on a CPU, over durations too in a TDT model.
        rows = joint.joint(x, got)
        f, g = model.joint.project_encoder(x), model.joint.project_predictor(got)
        lattice = model.joint.joint(f.unsqueeze(2), g.unsqueeze(1)).log_softmax(-1)
        torch.testing.assert_close(lattice, rows, atol=1e-6, rtol=0)


@pytest.mark.parametrize("config", CONFIGS, ids=ids)
def test_weights_load_strictly_both_ways(config):
    model = Transducer.random(config, 3)
    modules = dict(zip(("decoder", "joint"), oracle.nemo_modules(model), strict=True))
    theirs = {f"{p}.{n}": t for p, m in modules.items() for n, t in m.state_dict().items()}
    assert theirs.keys() == state_dict_nemo(model).keys()
    again = from_tensors(theirs, config).transducer()
    assert same(again, model)


def same(left, right):
    pairs = zip(left.state_dict().items(), right.state_dict().items(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return archives.train_tokenizer(tmp_path_factory.mktemp("tokenizer"))


def made(kind, tokenizer):
    torch.manual_seed(5)
    return {
        "pieces": lambda: archives.pieces_model(tokenizer),
        "no dropout": lambda: archives.pieces_model(tokenizer, dropout=0.0),
        "tdt": lambda: archives.pieces_model(tokenizer, durations=(0, 1, 2)),
        "hybrid": lambda: archives.pieces_model(tokenizer, hybrid=True),
        "letters": archives.letters_model,
    }[kind]()


@pytest.mark.parametrize("kind", ["pieces", "no dropout", "tdt", "hybrid", "letters"])
def test_an_archive_of_nemos_is_loaded_and_goes_back(kind, tokenizer, tmp_path):
    theirs = made(kind, tokenizer)
    path = tmp_path / "theirs.nemo"
    theirs.save_to(str(path))
    found = open_checkpoint(path)
    assert found.config == TransducerConfig(
        vocab=len(archives.LETTERS) + 1 if kind == "letters" else 41,
        encoder_width=archives.WIDTH,
        predictor_width=archives.HIDDEN,
        predictor_layers=2,
        joint_width=archives.JOINT,
        durations=(0, 1, 2) if kind == "tdt" else (),
        predictor_dropout=0.0 if kind in ("no dropout", "letters") else 0.2,
        joint_dropout=0.0 if kind in ("no dropout", "letters") else 0.2,
    )
    others = {"preprocessor", "encoder"} | ({"ctc_decoder"} if kind == "hybrid" else set())
    assert {part.name for part in found.skipped} == others and found.notes == ()
    encoder = next(part for part in found.skipped if part.name == "encoder")
    assert encoder.numbers == sum(t.numel() for t in theirs.encoder.state_dict().values())
    model = found.transducer()
    # Into NeMo's modules, which NeMo built and filled itself: equal before, strict.
    weights = state_dict_nemo(model)
    for part, module in (("decoder", theirs.decoder), ("joint", theirs.joint)):
        ours = oracle.below(weights, part)
        assert all(torch.equal(t, ours[n]) for n, t in module.state_dict().items())
        module.load_state_dict(ours, strict=True)


@pytest.mark.parametrize("kind", ["pieces", "letters"])
def test_text_is_nemos(kind, tokenizer, tmp_path):
    theirs = made(kind, tokenizer)
    theirs.save_to(str(tmp_path / "a.nemo"))
    model = load(tmp_path / "a.nemo")
    random = np.random.default_rng(0)
    for length in (0, 1, 2, 7, 30):
        tokens = random.integers(0, model.decoder.blank, length).tolist()
        assert model.text(tokens) == theirs.decoding.decode_ids_to_str(tokens)
    for sentence in archives.SENTENCES:
        assert model.text(model.vocabulary.tokens(sentence)) == sentence
    if kind == "pieces":
        assert Vocabulary.of_model(model.vocabulary.model) == model.vocabulary


def test_bytes_that_are_no_tokenizer_are_refused():
    with pytest.raises(VocabularyError, match="5 bytes are no SentencePiece model"):
        Vocabulary(("a",), b"model").text([0])


def test_an_archive_without_a_list_of_pieces_asks_the_tokenizer(tokenizer, tmp_path):
    model = Transducer.random(dataclasses.replace(CONFIGS[0], vocab=41), 1)
    model.vocabulary = Vocabulary.of_model((tokenizer / "tokenizer.model").read_bytes())
    save_nemo(model, tmp_path / "a.nemo")
    assert load(tmp_path / "a.nemo").vocabulary == model.vocabulary
    with tarfile.open(tmp_path / "a.nemo") as tar:
        tar.extractall(tmp_path / "folder", filter="data")
    config = tmp_path / "folder" / "model_config.yaml"
    from omegaconf import OmegaConf

    content = OmegaConf.load(config)
    assert list(content.labels) == list(model.vocabulary.pieces)
    del content.labels, content.joint.vocabulary
    OmegaConf.save(content, config)
    assert load(tmp_path / "folder").vocabulary == model.vocabulary


@pytest.mark.parametrize("kind", ["pieces", "no dropout", "tdt", "hybrid"])
def test_nemo_restores_a_model_saved_on_the_base_of_its_own(kind, tokenizer, tmp_path):
    theirs = made(kind, tokenizer)
    theirs.save_to(str(tmp_path / "theirs.nemo"))
    new = Transducer.random(open_checkpoint(tmp_path / "theirs.nemo").config, 9)
    save_nemo(new, tmp_path / "new.nemo", base=tmp_path / "theirs.nemo")
    restored = type(theirs).restore_from(str(tmp_path / "new.nemo"), map_location="cpu")
    kept = theirs.encoder.state_dict()
    assert all(torch.equal(t, kept[n]) for n, t in restored.encoder.state_dict().items())
    weights = state_dict_nemo(new)
    for part, module in (("decoder", restored.decoder), ("joint", restored.joint)):
        ours = oracle.below(weights, part)
        assert all(torch.equal(t, ours[n]) for n, t in module.state_dict().items())


def test_nemo_builds_its_modules_from_an_archive_of_ours(tmp_path):
    from nemo.collections.asr.modules.rnnt import RNNTDecoder, RNNTJoint
    from omegaconf import OmegaConf

    model = Transducer.random(CONFIGS[1], 2)
    save_nemo(model, tmp_path / "a.nemo")
    with tarfile.open(tmp_path / "a.nemo") as tar:
        tar.extractall(tmp_path, filter="data")
    content = OmegaConf.load(tmp_path / "model_config.yaml")
    weights = torch.load(tmp_path / "model_weights.ckpt", weights_only=True)
    decoder = RNNTDecoder.from_config_dict(content.decoder)
    joint = RNNTJoint.from_config_dict(content.joint)
    assert isinstance(decoder, RNNTDecoder) and isinstance(joint, RNNTJoint)
    decoder.load_state_dict(oracle.below(weights, "decoder"), strict=True)
    joint.load_state_dict(oracle.below(weights, "joint"), strict=True)


# Searches.


@dataclasses.dataclass(frozen=True)
class Case:
    model: Transducer
    x: torch.Tensor
    lengths: torch.Tensor
    config: BeamConfig


def random_case(seed, fused=False):
    random = np.random.default_rng(seed)
    config = TransducerConfig(
        vocab=int(random.integers(3, 40)),
        encoder_width=int(random.integers(4, 24)),
        predictor_width=int(random.integers(4, 24)),
        predictor_layers=int(random.integers(1, 4)),
        joint_width=int(random.integers(8, 32)),
        activation=str(random.choice(["relu", "tanh", "sigmoid"])),
    )
    model = Transducer.random(config, seed)
    with torch.no_grad():
        model.joint.output.bias[config.blank] += float(random.uniform(0, 5))
    batch, time = int(random.integers(1, 4)), int(random.integers(2, 12))
    x = torch.randn(batch, time, config.encoder_width) * 2
    lengths = torch.tensor([time, *random.integers(0, time + 1, batch - 1).tolist()])
    beam = BeamConfig(
        beam_size=int(random.integers(1, min(8, config.vocab) + 1)),
        max_symbols=int(random.integers(1, 6)),
        score_norm=bool(random.random() < 0.7),
        fusion=(Fusion(ToyNgram(seed, config.blank), 0.3),) if fused else (),
        pruning_mode=str(random.choice(["late", "early"])),
        blank_lm_score_mode=str(random.choice(["no_score", "lm_weighted_full"])),
    )
    return Case(model, x, lengths, beam.as_nemo())


def searched(case):
    """Ours and its closest decision."""
    scorer, trace, config = ModelScorer(case.model), Trace(), case.config
    hyps = search(scorer, scorer.project(case.x), case.lengths, config, trace).hyps
    found = nbest(hyps, config.score_norm, config.ties)
    margin = margins(trace.iterations, found, config, by_norm=config.score_norm).decision
    return found, margin


def compared(seed, fused):
    """What came of a case, how far scores are apart, and how many labels were said."""
    torch.manual_seed(seed)
    case = random_case(seed, fused)
    found, margin = searched(case)
    if margin < DECISION:
        return "close decision", 0.0, 0
    want = oracle.NemoBeam(case.model, case.config)(case.x, case.lengths)
    assert differences(found, want) is None, (seed, differences(found, want))
    pairs = [p for a, b in zip(found, want, strict=True) for p in zip(a, b, strict=True)]
    drift = max((abs(a.score - b.score) for a, b in pairs), default=0.0)
    return "compared", drift, sum(len(n[0].tokens) for n in found if n)


@pytest.mark.parametrize("fused", [False, True])
def test_malsd_on_real_networks_equals_nemos(fused, record_property):
    counts, worst = Counter(), 0.0
    with unchecked():
        for seed in range(60):
            outcome, drift, tokens = compared(seed, fused)
            counts[outcome] += 1
            counts["tokens"] += tokens
            worst = max(worst, drift)
    record_property("counts", dict(counts))
    record_property("worst", worst)
    assert counts["compared"] >= 35 and counts["tokens"] >= 300, counts
    # Measured 7.6e-6: NeMo takes log_softmax twice, its joint on a CPU and then its search.
    assert worst <= SCORE / 5


def test_greedy_on_real_networks_equals_nemos():
    tokens = 0
    for seed in range(100, 150):
        torch.manual_seed(seed)
        case = random_case(seed)
        scorer, most = ModelScorer(case.model), case.config.max_symbols
        with unchecked():
            got = greedy(scorer, scorer.project(case.x), case.lengths, most)
            want = oracle.NemoGreedy(case.model, most)(case.x, case.lengths)
        assert [h.tokens for h in got] == [h.tokens for h in want], seed
        assert [h.timestamps for h in got] == [h.timestamps for h in want], seed
        for a, b in zip(got, want, strict=True):
            assert a.score == pytest.approx(b.score, abs=SCORE), seed
        tokens += sum(len(h.tokens) for h in got)
    assert tokens >= 300


def test_a_search_of_nemos_may_be_called_again():
    torch.manual_seed(0)
    case = random_case(4)
    run = oracle.NemoBeam(case.model, case.config)
    assert run(case.x, case.lengths) == run(case.x, case.lengths)
    once = oracle.NemoGreedy(case.model)
    assert once(case.x, case.lengths) == once(case.x, case.lengths)


def test_a_blank_that_is_not_zero_is_read_as_nemos_searches_read_it():
    compared = 0
    for seed in range(12):
        torch.manual_seed(seed)
        case = random_case(seed)
        zero, _ = searched(case)
        with torch.no_grad():
            case.model.decoder.embed[case.model.config.blank] = 1.5
        found, margin = searched(case)
        if margin < DECISION:
            continue
        want = oracle.NemoBeam(case.model, case.config)(case.x, case.lengths)
        assert differences(found, want) is None, seed
        compared += differences(zero, want) is not None
    assert compared >= 3  # and it makes a difference


@pytest.mark.parametrize("wrong", ["gates", "start", "restore"])
def test_a_mistake_in_the_model_is_caught(wrong, monkeypatch):
    def zeros(self, rows):
        state = right(self, rows)
        return state._replace(predicted=torch.zeros_like(state.predicted))

    def forgets(self, state, parents, labels):
        return self._fed(labels.clamp(min=0), state.lstm.rows(parents))

    right, found = ModelScorer.start, []
    if wrong == "start":
        monkeypatch.setattr(ModelScorer, "start", zeros)
    if wrong == "restore":
        monkeypatch.setattr(ModelScorer, "advance", forgets)
    for seed in range(8):
        torch.manual_seed(seed)
        case = random_case(seed)
        want = oracle.NemoBeam(case.model, case.config)(case.x, case.lengths)
        if wrong == "gates":
            weight = case.model.decoder.lstm.weight_hh_l0
            with torch.no_grad():
                weight.copy_(torch.cat([weight.chunk(4)[n] for n in (0, 2, 1, 3)]))
        found.append(differences(searched(case)[0], want))
    assert sum(one is not None for one in found) >= 4


@pytest.mark.slow
def test_malsd_at_the_size_of_parakeet():
    torch.manual_seed(0)
    model = Transducer.random(PARAKEET, 0)
    with torch.no_grad():
        model.joint.output.bias[PARAKEET.blank] += 9.0
    case = Case(
        model,
        torch.randn(2, 40, PARAKEET.encoder_width),
        torch.tensor([40, 25]),
        BeamConfig(beam_size=8).as_nemo(),
    )
    found, margin = searched(case)
    want = oracle.NemoBeam(case.model, case.config)(case.x, case.lengths)
    assert margin >= DECISION and len(found[0][0].tokens) >= 5
    assert differences(found, want) is None
