"""The pieces under the search: toy formula, n-gram, ties, fusion, history, margins."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vrt.rnnt import BeamConfig, Fusion, Trace, malsd
from vrt.rnnt.fusion import fused
from vrt.rnnt.history import History
from vrt.rnnt.margins import margins
from vrt.rnnt.paths import steps
from vrt.rnnt.ties import descending, top_k
from vrt.rnnt.toy import ToyNgram, ToyScorer, toy_frames
from vrt.rnnt.toy_formula import Formula, mix, mix_all

WRAP = 2**64


def plain_mix(x):
    """As the golden format has it, in Python integers."""
    x = (x + 0x9E3779B97F4A7C15) % WRAP
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % WRAP
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % WRAP
    return x ^ (x >> 31)


def plain_row(f, b, t, prefix, vocab):
    p = prefix if f.ctx == -1 else prefix[len(prefix) - min(f.ctx, len(prefix)) :]
    x = f.seed
    for w in (b, t // f.tdiv, len(p), *p):
        x = plain_mix(x ^ (w + 1))
    q = plain_mix(x ^ 0xABCDEF) % (vocab - 1)
    jt = plain_mix(f.seed ^ plain_mix(b + 1) ^ plain_mix(1000003 * (t + 1)))
    row = []
    for v in range(vocab):
        y = plain_mix(x ^ ((v + 1) << 32))
        value = ((y >> (64 - f.bits)) - 2 ** (f.bits - 1)) / 2**f.shift
        if f.quant:
            value = math.floor(value / f.quant) * f.quant
        value += f.peak_add if v == q else 0
        value += (plain_mix(jt ^ (v + 1)) >> 48) / 2**17 if f.tdiv > 1 else 0
        row.append(value + (f.blank_add if v == vocab - 1 else 0))
    return row


formulas = st.builds(
    Formula,
    seed=st.integers(0, WRAP - 1),
    ctx=st.integers(-1, 3),
    bits=st.integers(2, 24),
    shift=st.integers(8, 24),
    tdiv=st.integers(1, 4),
    quant=st.sampled_from([None, 0.125, 0.5]),
    peak_add=st.sampled_from([0.0, 2.0]),
    blank_add=st.sampled_from([-1.5, 0.0, 3.0]),
)


@given(formulas, st.integers(0, 3), st.integers(0, 50), st.lists(st.integers(0, 8), max_size=6))
def test_the_formula_is_that_of_the_format(formula, b, t, prefix):
    row = formula.row(b, t, formula.context(tuple(prefix)), 10)
    assert row.tolist() == plain_row(formula, b, t, tuple(prefix), 10)


def test_rows_of_shipped_size_are_exact_in_fp32():
    formula = Formula(
        seed=5, ctx=-1, bits=20, shift=17, tdiv=3, quant=None, peak_add=2.0, blank_add=3.0
    )
    for t in range(40):
        row = formula.row(0, t, (1, 2), 200)
        assert row.astype(np.float32).tolist() == row.tolist()


@given(st.lists(st.integers(0, WRAP - 1), min_size=1))
def test_mix_of_many_is_mix_of_each(values):
    assert mix_all(np.array(values, dtype=np.uint64)).tolist() == [mix(v) for v in values]
    assert [mix(v) for v in values] == [plain_mix(v) for v in values]


@given(st.integers(0, WRAP - 1), st.integers(0, 9))
def test_the_n_gram_is_that_of_the_format(seed, state):
    scores, following = ToyNgram(seed, 9).advance(torch.tensor([state]))
    x = plain_mix(seed ^ (state + 1))
    want = [-((plain_mix(x ^ ((v + 1) << 32)) >> 48) / 2**14) for v in range(9)]
    assert scores[0].tolist() == want and following[0].tolist() == list(range(1, 10))


def test_a_table_goes_before_the_formula_and_an_utterances_row_before_all():
    f = Formula(seed=1, ctx=0, bits=8, shift=4)
    scorer = ToyScorer(
        3, "logprob", {(None, 0, ()): [1.0, 2.0, 3.0], (1, 0, ()): [4.0, 5.0, 6.0]}, f
    )
    rows = scorer.rows(torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), [(), (), ()])
    assert rows[:2].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert rows[2].tolist() == f.row(1, 1, (), 3).tolist()


def test_logits_are_normalised_and_log_probabilities_are_not():
    row = [1.0, 2.0, 0.5]
    frames = torch.zeros(1, 2)
    assert ToyScorer(3, "logprob", default_row=row).log_probs(frames, [()]).tolist() == [row]
    normal = ToyScorer(3, "logits", default_row=row).log_probs(frames, [()])
    assert float(normal.exp().sum()) == pytest.approx(1.0)


@given(st.lists(st.integers(0, 3), min_size=4, max_size=30), st.integers(1, 4))
def test_lowest_ties_are_a_stable_order(values, k):
    found, index = top_k(torch.tensor(values, dtype=torch.float32), k, "lowest")
    want = sorted(range(len(values)), key=lambda i: (-values[i], i))[:k]
    assert index.tolist() == want and found.tolist() == [values[i] for i in want]
    order = descending(torch.tensor(values, dtype=torch.float32), "lowest")
    assert order.tolist() == sorted(range(len(values)), key=lambda i: (-values[i], i))


def test_torch_ties_are_torchs():
    values = torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    assert top_k(values, 3, "torch")[1].tolist() == values.topk(3).indices.tolist()


# --- fusion


ROW = torch.tensor([[[-1.0, -2.0, -0.5]]], dtype=torch.float64)
SCORES = torch.tensor([[[-0.3, -0.7]]], dtype=torch.float64)


def test_fused_rows_by_hand():
    plain = fused(ROW, SCORES, 0.5, "no_score")[0, 0].tolist()
    assert plain == pytest.approx([-1.3, -2.7, -0.5])
    rest = math.log1p(-math.exp(-0.5))
    full = fused(ROW, SCORES, 0.5, "lm_weighted_full")[0, 0].tolist()
    assert full == pytest.approx([-1.3 + 0.5 * rest, -2.7 + 0.5 * rest, -0.75])


def test_a_near_certain_blank_is_clamped():
    row = ROW.clone()
    row[..., -1] = -1e-9
    full = fused(row, SCORES, 1.0, "lm_weighted_full")[0, 0].tolist()
    assert full[0] == pytest.approx(-1.3 + math.log1p(-0.99))


def test_fusion_leaves_the_scorers_rows_alone():
    rows = ROW.clone()
    fused(rows, SCORES, 0.5, "lm_weighted_full")
    assert torch.equal(rows, ROW)


def test_a_strong_model_changes_the_winner_and_alpha_0_changes_nothing():
    scorer = ToyScorer(6, "logits", formula=Formula(seed=2, ctx=-1, bits=20, shift=17))
    arguments = scorer, toy_frames(1, 9), torch.tensor([9])
    (plain,) = malsd(*arguments)
    for mode in ("late", "early"):
        zero = BeamConfig(fusion=(Fusion(ToyNgram(1, 5), 0.0),), pruning_mode=mode)
        (same,) = malsd(*arguments, zero)
        assert [h.tokens for h in same] == [h.tokens for h in plain]
        assert same[0].score == pytest.approx(plain[0].score, abs=1e-5)
        strong = BeamConfig(fusion=(Fusion(ToyNgram(1, 5), 3.0),), pruning_mode=mode)
        (other,) = malsd(*arguments, strong)
        assert other[0].tokens != plain[0].tokens


# --- history


def columns(*rows):
    return [torch.tensor([row]) for row in rows]


def three():
    """Slot paths of three columns: 0 -> 1 -> 0, and 0 -> 0 -> 1."""
    return History(
        tokens=columns([5, 6], [7, 8], [9, 4]),
        parents=columns([0, 0], [0, 0], [1, 0]),
        stamps=columns([0, 0], [0, 0], [0, 1]),
    )


def test_paths_follow_the_pointers():
    assert three().paths().tolist() == [[[0, 0]], [[1, 0]], [[0, 1]]]
    found = steps(three(), blank=4)
    assert [[(s.label, s.frame) for s in slot] for slot in found[0]] == [
        [(5, 0), (8, 0), (9, 0)],
        [(5, 0), (7, 0), (4, 0)],
    ]


def test_where_paths_meet_and_what_is_left_after_a_cut():
    history = three()
    assert history.meeting(0, [0, 1]) == (0, 0)
    assert history.meeting(0, [1]) == (2, 1)
    history.cut(1)
    assert len(history) == 2 and [t.tolist() for t in history.tokens] == [[[7, 8]], [[9, 4]]]
    assert history.meeting(0, [0, 1]) is None


def test_same_tokens_looks_at_labels_and_not_at_where_blanks_stand():
    history = History(
        tokens=columns([1, 3], [3, 1]),
        parents=columns([0, 0], [0, 1]),
        stamps=columns([0, 1], [1, 1]),
    )
    assert history.same_tokens(0, 0, 1, blank=3)
    assert not history.same_tokens(0, 0, 1, blank=9)


def test_an_empty_history_has_no_paths():
    with pytest.raises(IndexError, match="no columns"):
        History().paths()
    assert steps(History(), 1) == []


# --- margins


def run(rows, beam, frames=1, **changes):
    scorer, trace = ToyScorer(4, "logprob", default_row=rows), Trace()
    config = BeamConfig(beam_size=beam, max_symbols=1, **changes)
    found = malsd(scorer, toy_frames(1, frames), torch.tensor([frames]), config, trace)
    return margins(trace.iterations, found, config, by_norm=config.score_norm)


def test_the_cut_is_the_gap_between_the_last_kept_and_the_first_dropped():
    # Labels -1, -1.25, blank -2: two of three are kept, then blanks of -2 each.
    found = run([-1.0, -1.25, -9.0, -2.0], beam=2)
    assert found.cut == pytest.approx(0.75)
    assert found.order == pytest.approx(0.25)


def test_the_cut_within_a_slot_counts_where_all_survivors_are_its_own():
    # One slot at first, and 2 of its 4 labels fit: the third is what was missed.
    found = run([-1.0, -1.1, -1.15, -5.0], beam=2)
    assert found.cut == pytest.approx(0.05, abs=1e-6)


def test_a_tie_has_no_margin():
    assert run([-1.0, -1.0, -1.0, -1.0], beam=2).smallest == 0.0


def test_a_beam_of_every_class_drops_nothing_in_its_first_step():
    scorer, trace = ToyScorer(4, "logprob", default_row=[-1.0, -2.0, -3.0, -4.0]), Trace()
    config = BeamConfig(beam_size=4, max_symbols=1)
    found = malsd(scorer, toy_frames(1, 1), torch.tensor([1]), config, trace)
    first = margins(trace.iterations[:1], [], config, by_norm=True)
    assert first.cut == first.rank == math.inf and first.order == pytest.approx(1.0)
    assert margins(trace.iterations, found, config, by_norm=True).rank < math.inf
