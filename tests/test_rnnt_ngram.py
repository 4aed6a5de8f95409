"""The n-gram against probabilities worked out from their definition, and against KenLM's figures.

The tolerance of 2e-6 is fp32's: sums of up to four numbers below 16 (measured: 1.4e-6).
"""

import gzip
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch
from rnnt_cases import unchecked
from rnnt_fusion_cases import LN10, random_arpa

from vrt.rnnt import ArpaError, BeamConfig, BeamError, Fusion, malsd
from vrt.rnnt.arpa import read_arpa
from vrt.rnnt.backoff import BackoffGraph
from vrt.rnnt.nbest import nbest
from vrt.rnnt.ngram import Ngram, _Build
from vrt.rnnt.toy import ToyScorer, toy_frames
from vrt.rnnt.toy_formula import Formula

SMALL = """\\data\\
ngram 1=7
ngram 2=6
ngram 3=3

\\1-grams:
-1.2\t<unk>
0\t<s>\t-0.5
-0.9\t</s>
-0.6\ta\t-0.35
-0.7\tb\t-0.25
-1.1\tc\t-0.1
-1.3\td

\\2-grams:
-0.4\t<s> a\t-0.15
-0.5\ta b\t-0.2
-0.8\tb c\t0.05
-0.3\tc a
-0.9\tb </s>
-0.6\tc d

\\3-grams:
-0.2\t<s> a b
-0.1\ta b c
-0.25\tb c a

\\end\\
"""
LETTERS = ["a", "b", "c", "d", "x"]


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.arpa"
    path.write_text(SMALL, encoding="utf-8")
    return path


def spoken(model, words):
    """Score of each word in turn."""
    state, scores = model.start(1), []
    for word in words:
        row, after = model.advance(state)
        scores.append(float(row[0, word]))
        state = after[:, word]
    return scores


@pytest.mark.parametrize(
    ("words", "log10"),
    [
        ("abcab", [-0.4, -0.2, -0.1, -0.25, -0.5]),
        ("bcda", [-1.2, -0.8, -0.55, -0.6]),
        ("cxabc", [-1.6, -1.3, -0.6, -0.5, -0.1]),
        ("dd", [-1.8, -1.3]),
        ("abcdcaa", [-0.4, -0.2, -0.1, -0.55, -1.1, -0.3, -0.95]),
    ],
)
def test_figures_of_kenlm(small, words, log10):
    # kenlm 0.3.0: Model.BeginSentenceWrite, then BaseScore word by word, on this file.
    model = Ngram.from_arpa(small, LETTERS)
    got = spoken(model, [LETTERS.index(word) for word in words])
    assert got == pytest.approx([value * LN10 for value in log10], abs=2e-6)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("normalize", [True, False])
def test_random_files_by_definition(order, normalize, tmp_path):
    worst = 0.0
    for seed in range(12):
        random = np.random.default_rng(seed)
        labels = int(random.integers(2, 9))
        rule = random_arpa(random, labels, order, unknown=int(random.integers(0, labels)))
        worst = max(worst, drift(rule, tmp_path, random, normalize))
    assert worst <= 2e-6


def drift(rule, folder, random, normalize=True):
    """Largest difference over every label after every beginning of random sentences."""
    rule.normalize_unk = normalize
    path = folder / "lm.arpa"
    path.write_text(rule.text(lambda token: f"<{token}>"), encoding="utf-8")
    names = [f"<{token}>" for token in range(rule.labels)]
    model, worst = Ngram.from_arpa(path, names, normalize_unk=normalize), 0.0
    for _ in range(4):
        state, said = model.start(1), ["<s>"]
        for word in random.integers(0, rule.labels, 12).tolist():
            row, after = model.advance(state)
            want = [rule.log_prob(said, label) for label in range(rule.labels)]
            worst = max(worst, float((row[0].double() - torch.tensor(want)).abs().max()))
            state, said = after[:, word], [*said, word]
    return worst


def test_a_pruned_file_without_some_endings(tmp_path):
    # SRILM leaves "a b c" where it has pruned "b c"; NeMo 3.0.0 fails on such a file (KeyError).
    dropped = 0
    for seed in range(12):
        random = np.random.default_rng(seed)
        rule = random_arpa(random, 5, 4)
        contexts = {gram[:-1] for gram in rule.probs}
        for gram in list(rule.probs):
            if len(gram) in (2, 3) and gram not in contexts and random.random() < 0.5:
                rule.probs.pop(gram)
                rule.backoffs.pop(gram, None)
                dropped += 1
        assert drift(rule, tmp_path, random) <= 2e-6
    assert dropped > 20


def test_rows_do_not_depend_on_their_company(small):
    model = Ngram.from_arpa(small, LETTERS)
    states = torch.tensor([1, 0, 6, 4, 6, 2])
    scores, after = model.advance(states)
    for row, state in enumerate(states):
        alone = model.advance(state[None])
        assert torch.equal(scores[row], alone[0][0]) and torch.equal(after[row], alone[1][0])


def test_the_end_of_a_sentence_is_never_scored(small):
    text = SMALL.replace("-0.9\t</s>", "-0.001\t</s>").replace("-0.9\tb </s>", "-0.001\tb </s>")
    changed = small.with_name("end.arpa")
    changed.write_text(text, encoding="utf-8")
    states = torch.arange(7)
    one, two = (Ngram.from_arpa(path, LETTERS).advance(states)[0] for path in (small, changed))
    assert torch.equal(one, two)


def test_gzip_whatever_the_file_is_called(small):
    packed = small.with_name("packed")
    packed.write_bytes(gzip.compress(small.read_bytes()))
    assert read_arpa(packed) == read_arpa(small)


def test_spaces_for_tabs_comments_and_carriage_returns(small):
    other = small.with_name("other.arpa")
    text = "made by hand\n\n" + SMALL.replace("\t", "  ").replace("\n", "\r\n")
    other.write_bytes(text.encode())
    strip = [[entry._replace(line=0) for entry in some] for some in read_arpa(other)]
    assert strip == [[entry._replace(line=0) for entry in some] for some in read_arpa(small)]


def test_token_ids_as_characters_some_of_which_are_white_space(tmp_path):
    # 33 is U+0085, a line's end to Python's splitlines; 60 is a no-break space.
    path = tmp_path / "lm.arpa"
    grams = [f"-1\t{word}" for word in ("<s>", "</s>", "<unk>", chr(133), chr(160), chr(133 + 1))]
    pair = f"-0.3\t{chr(133)} {chr(160)}"
    header = "\\data\\\nngram 1=6\nngram 2=1\n\n"
    text = header + "\\1-grams:\n" + "\n".join(grams) + f"\n\n\\2-grams:\n{pair}\n\n\\end\\\n"
    path.write_text(text, encoding="utf-8", newline="\n")
    model = Ngram.from_nemo_arpa(path, 64)
    assert spoken(model, [33, 60])[1] == pytest.approx(-0.3 * LN10, abs=2e-6)


def test_tokens_unknown_to_the_file_share_unk(small):
    names = [*LETTERS, "y", "z", "<unk>"]  # a tokenizer's own <unk> has an id like any other
    shared, whole = (
        Ngram.from_arpa(small, names, normalize_unk=n).advance(torch.tensor([0]))[0][0]
        for n in (True, False)
    )
    assert whole[4:].tolist() == pytest.approx([-1.2 * LN10] * 4, abs=2e-6)
    assert (whole - shared)[4:].exp().tolist() == pytest.approx([4.0] * 4)
    assert torch.equal(whole[:4], shared[:4])


def test_a_1_gram_has_one_context(tmp_path):
    path = tmp_path / "one.arpa"
    path.write_text("\\data\\\nngram 1=2\n\n\\1-grams:\n-0.3\ta\n-0.3\tb\n\n\\end\\\n")
    model = Ngram.from_arpa(path, ["a", "b"])
    scores, after = model.advance(model.start(2))
    assert after.tolist() == [[0, 0]] * 2
    assert scores.tolist() == [pytest.approx([-0.3 * LN10] * 2, abs=2e-6)] * 2


def test_30_000_3_grams_over_1024_tokens(tmp_path):
    random = np.random.default_rng(1)
    triples = {tuple(row) for row in random.integers(0, 1024, (30_000, 3)).tolist()}
    grams = [
        [(word,) for word in range(1024)],
        sorted({t[n : n + 2] for t in triples for n in (0, 1)}),
    ]
    grams.append(sorted(triples))
    lines = ["\\data\\", *(f"ngram {n}={len(some)}" for n, some in enumerate(grams, start=1))]
    for n, some in enumerate(grams, start=1):
        lines += ["", f"\\{n}-grams:"]
        lines += [f"-2.5\t{' '.join(chr(w + 100) for w in gram)}\t-0.25" for gram in some]
    path = tmp_path / "large.arpa"
    path.write_text("\n".join([*lines, "", "\\end\\", ""]), encoding="utf-8", newline="\n")
    with unchecked():  # 90,000 lines
        model = Ngram.from_nemo_arpa(path, 1024)
    held = sum(t.nbytes for t in vars(model.graph).values())
    assert held < 5e6  # arcs, not a row of 1024 for each of 60,000 contexts
    first, second, third = grams[2][777]
    scores = spoken(model, [first, second, third])
    assert scores == pytest.approx([-2.5 * LN10] * 3, abs=2e-6)


# --- in a search, and mistakes made on purpose


def search_drift(folder, order):
    """Largest difference of a hypothesis's score from its labels' scores and the n-gram's, added
    up. One frame: every transcript has one alignment, its labels and then blank."""
    worst = 0.0
    for seed in range(6):
        random = np.random.default_rng(seed)
        rule = random_arpa(random, 6, order, unknown=1)
        path = folder / "lm.arpa"
        path.write_text(rule.text("abcdef".__getitem__), encoding="utf-8")
        fusion = Fusion(Ngram.from_arpa(path, "abcdef"), 0.6)
        config = BeamConfig(
            beam_size=7,
            fusion=(fusion,),
            blank_lm_score_mode="no_score",
            preserve_alignments=True,
        )
        scorer = ToyScorer(7, "logits", formula=Formula(seed=seed, ctx=-1, bits=22, shift=18))
        (found,) = malsd(scorer, toy_frames(1, 1), torch.tensor([1]), config)
        assert any(len(h.tokens) > 2 for h in found)
        for h in found:
            said = ["<s>", *h.tokens]
            lm = sum(rule.log_prob(said[:n], said[n]) for n in range(1, len(said)))
            acoustic = sum(step.log_prob for step in h.alignment)
            worst = max(worst, abs(h.score - acoustic - 0.6 * lm))
    return worst


@pytest.mark.parametrize("order", [2, 3, 4])
def test_scores_of_a_search_by_definition(tmp_path, order):
    # fp32 sums of up to 20 numbers (measured: 2.2e-6).
    assert search_drift(tmp_path, order) <= 2e-5


def no_backoff_weight(monkeypatch):
    kept = BackoffGraph.of

    def of(root, backoffs, arcs):
        return kept(root, [(state, 0.0) for state, _ in backoffs], arcs)

    monkeypatch.setattr(BackoffGraph, "of", of)


def context_cut_to_one_word(monkeypatch):
    monkeypatch.setattr(_Build, "_longest", lambda self, words: self.states[words[-1:]])


def beginning_forgotten(monkeypatch):
    monkeypatch.setattr(Ngram, "start", lambda self, rows: torch.zeros(rows, dtype=torch.int64))


def log10_for_natural(monkeypatch):
    monkeypatch.setattr("vrt.rnnt.ngram._natural", float)


def end_of_sentence_added(monkeypatch):
    def ended(hyps, score_norm, ties):
        return [[replace(h, score=h.score - 0.6) for h in found] for found in nbest(hyps)]

    monkeypatch.setattr(import_module("vrt.rnnt.malsd"), "nbest", ended)


@pytest.mark.parametrize(
    "mistake",
    [
        no_backoff_weight,
        context_cut_to_one_word,
        beginning_forgotten,
        log10_for_natural,
        end_of_sentence_added,
    ],
)
def test_a_mistake_is_caught(monkeypatch, tmp_path, mistake):
    mistake(monkeypatch)
    with unchecked():
        assert search_drift(tmp_path, 4) > 0.01


# --- what is refused


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("\\end\\\n", ""), r"line 27: ends without \\end\\: the file was cut short"),
        (("\\data\\", "data"), r"has no line \\data\\: it is no ARPA n-gram"),
        (("ngram 2=6", "ngram 2=5"), "the header says 5 2-grams, the file has 6"),
        (("ngram 3=3", "ngram 3=4"), "the header says 4 3-grams, the file has 3"),
        (("ngram 2=6", "ngram 3=6"), "line 3: expected 'ngram 2=COUNT', found 'ngram 3=6'"),
        (("ngram 1=7\nngram 2=6\nngram 3=3\n", ""), "expected 'ngram 1=COUNT', found"),
        (("\\2-grams:", "\\3-grams:"), r"expected \\2-grams:, found '\\\\3-grams:'"),
        (("ngram 3=3\n", ""), r"expected \\end\\ after the last n-gram, found '\\\\3-grams:'"),
        (("-0.8\tb c", "-0.8\tb c d e"), "line 18: a 2-gram is a number, 2 tokens, and a back-off"),
        (("-0.8\tb c", "x\tb c"), "line 18: expected a number, found 'x'"),
        (("-0.8\tb c", "nan\tb c"), "line 18: expected a finite number, found 'nan'"),
        (("-0.8\tb c", "0.8\tb c"), "log10 probability 0.8 is above 0"),
        (("-0.8\tb c", "-0.8\ta b"), "line 18: 2-gram 'a b' is in line 17 too"),
        (("-0.8\tb c", "-0.8\tb q"), "line 18: 2-gram 'b q': token 'q' is none of the 5"),
        (("-0.8\tb c", "-0.8\tb <unk>"), "2-gram 'b <unk>': <unk> in a longer n-gram"),
        (("-0.8\tb c", "-0.8\tb <s>"), "<s> may only begin an n-gram, and </s> end it"),
        (("-0.8\tb c", "-0.8\tb x"), "2-gram 'b x': token 4 has no 1-gram"),
        (("-0.5\ta b\t", "-0.5\ta d\t"), "3-gram 'a b c': its beginning 'a b' is no 2-gram"),
        (("-1.2\t<unk>", "-1.2\tx"), None),
        (("-1.2\t<unk>\n", ""), "the header says 7 1-grams, the file has 6"),
    ],
)
def test_a_damaged_file_is_refused_by_name(small, change, message):
    assert change[0] in SMALL
    small.write_text(SMALL.replace(*change), encoding="utf-8")
    if message is None:
        Ngram.from_arpa(small, LETTERS)  # all tokens are known: no <unk> is needed
        return
    with pytest.raises(ArpaError, match=message):
        Ngram.from_arpa(small, LETTERS)


def test_a_file_without_unk_asks_for_one(small):
    small.write_text(SMALL.replace("-1.2\t<unk>\n", "").replace("1=7", "1=6"), encoding="utf-8")
    with pytest.raises(ArpaError, match=r"no <unk>, and no 1-gram for 1 of 5 tokens \(4\)"):
        Ngram.from_arpa(small, LETTERS)
    model = Ngram.from_arpa(small, LETTERS, unk_log_prob=-9.0)
    assert float(model.advance(torch.tensor([0]))[0][0, 4]) == -9.0


def test_files_that_are_something_else(small):
    small.write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0")
    with pytest.raises(ArpaError, match="KenLM binary; give the ARPA file"):
        read_arpa(small)
    small.write_bytes(gzip.compress(SMALL.encode())[:-20])
    with pytest.raises(ArpaError, match="damaged gzip"):
        read_arpa(small)
    small.write_bytes(b"\\data\\\nngram 1=1\n\n\\1-grams:\n-1\t\xff\n\\end\\\n")
    with pytest.raises(ArpaError, match="not UTF-8"):
        read_arpa(small)


def test_vocabularies_of_no_sense(small):
    with pytest.raises(BeamError, match="spells tokens 0 and 2 the same: 'a'"):
        Ngram.from_arpa(small, ["a", "b", "a"])
    with pytest.raises(BeamError, match="vocabulary is empty"):
        Ngram.from_arpa(small, [])
    with pytest.raises(BeamError, match="token_offset must be at least 33, got 0"):
        Ngram.from_nemo_arpa(small, 4, token_offset=0)


def search(fusion, vocab=6):
    scorer = ToyScorer(vocab, "logits", formula=Formula(seed=1, ctx=-1, bits=22, shift=18))
    return malsd(scorer, toy_frames(1, 4), torch.tensor([4]), BeamConfig(fusion=(fusion,)))


def test_a_model_of_another_vocabulary_is_refused_before_any_work(small):
    model = Ngram.from_arpa(small, LETTERS)
    assert search(Fusion(model, 0.3))
    with pytest.raises(BeamError, match=r"fusion model 0 \(Ngram\) scores 5 labels, .* has 6"):
        search(Fusion(model, 0.3), vocab=7)


@pytest.mark.parametrize("alpha", [float("nan"), float("inf")])
def test_an_alpha_that_is_no_number_is_refused(small, alpha):
    with pytest.raises(BeamError, match=r"alpha of fusion model 0 \(Ngram\) is (nan|inf)"):
        search(Fusion(Ngram.from_arpa(small, LETTERS), alpha))


def test_impossible_tokens_times_an_alpha_of_0_are_refused(small):
    small.write_text(SMALL.replace("-1.2\t<unk>\n", "").replace("1=7", "1=6"), encoding="utf-8")
    model = Ngram.from_arpa(small, LETTERS, unk_log_prob=-torch.inf)
    assert all(4 not in h.tokens for h in search(Fusion(model, 0.1))[0])
    with pytest.raises(BeamError, match="gives NaN"):
        search(Fusion(model, 0.0))
