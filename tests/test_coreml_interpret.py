"""The interpreter against readings of MIL that are not ours.

coremltools evaluates most operations itself (value inference, decompression); torch in float64
judges what it cannot: LSTM, convolution, attention. Whole packages are judged by torch.
"""

import numpy as np
import pytest
import torch
from coreml_packages import (
    converted,
    copied,
    need_coremltools,
    operations,
    rewrite,
    saved,
    small_source,
)
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

need_coremltools()

from vrt.coreml.arms import Arm  # noqa: E402
from vrt.coreml.check import check  # noqa: E402
from vrt.coreml.divergence import torch_values  # noqa: E402
from vrt.coreml.errors import CoreMLError  # noqa: E402
from vrt.coreml.export import export  # noqa: E402
from vrt.coreml.fp16 import emulate  # noqa: E402
from vrt.coreml.graphs_rnnt import rnnt_graph  # noqa: E402
from vrt.coreml.interpret import Interpreter  # noqa: E402
from vrt.coreml.ops import OPS  # noqa: E402
from vrt.coreml.package import open_package  # noqa: E402

# coremltools builds a program for every question: few of them, at shapes that differ.
few = settings(max_examples=5, phases=[Phase.generate])


def inferred(op, **inputs):
    """What coremltools itself says an operation gives; inputs and result are constants."""
    import coremltools as ct
    from coremltools.converters.mil.mil import Builder as mb

    found = []

    @mb.program(input_specs=[], opset_version=ct.target.iOS18)
    def _program():
        out = getattr(mb, op)(**inputs)
        outs = out if isinstance(out, list | tuple) else (out,)
        found.extend(value(o) for o in outs)
        return outs[0]

    return found


def value(out):
    if out.val is not None:
        return np.asarray(out.val)
    return np.asarray(out.op.materialized_val_inference())


def same(op, tolerance=0.0, **inputs):
    expected = inferred(op, **inputs)
    got = OPS[op](**{k: given_as(v) for k, v in inputs.items()})
    got = got if isinstance(got, tuple) else (got,)
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.shape == theirs.shape, (op, inputs)
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance, err_msg=op)


def given_as(value):
    """As the interpreter hands constants over."""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple | list) and isinstance(value[0], np.ndarray):
        return tuple(value)
    return np.asarray(value, dtype=np.float32) if isinstance(value, float) else np.asarray(value)


shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)
seeds = st.integers(0, 2**32 - 1)


def floats(shape, seed, low=-4.0, high=4.0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def whole(shape, seed, low=-5, high=6):
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.int32)


BINARY = ["add", "sub", "mul", "maximum", "minimum"]
COMPARING = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
UNARY = [
    *("abs", "ceil", "cos", "erf", "exp", "exp2", "floor", "relu", "relu6", "round", "sigmoid"),
    *("sign", "sin", "softplus", "square", "tanh"),
]
# One operation in float32 by two libraries: erf, exp, tanh and the like are a few ulps apart.
ULPS = 1e-6


@few
@given(shapes, seeds, st.data())
@pytest.mark.parametrize("op", [*BINARY, *COMPARING])
def test_binary(op, shape, seed, data):
    """One side broadcasts."""
    ones = data.draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    other = tuple(1 if one else n for one, n in zip(ones, shape, strict=True))
    same(op, x=floats(shape, seed), y=floats(other, seed + 1))
    same(op, x=whole(shape, seed), y=whole(other, seed + 1))


@few
@given(shapes, seeds)
@pytest.mark.parametrize("op", ["real_div", "floor_div", "mod", "pow"])
def test_division_and_powers(op, shape, seed):
    x, y = floats(shape, seed, 0.1, 9.0), floats(shape, seed + 1, 0.5, 3.0)
    same(op, ULPS, x=x, y=y)
    if op in ("floor_div", "mod"):
        same(op, x=whole(shape, seed), y=whole(shape, seed + 1, 1, 5))


@few
@given(shapes, seeds)
@pytest.mark.parametrize("op", UNARY)
def test_unary(op, shape, seed):
    same(op, ULPS, x=floats(shape, seed))


@few
@given(shapes, seeds)
def test_silu_against_torch(shape, seed):
    """coremltools has no value inference for it."""
    x = floats(shape, seed)
    expected = torch.nn.functional.silu(torch.from_numpy(x).double())
    np.testing.assert_allclose(OPS["silu"](x), expected, rtol=ULPS, atol=ULPS)


@few
@given(shapes, seeds)
def test_roots_logs_and_limits(shape, seed):
    x = floats(shape, seed, 0.0, 9.0)
    same("sqrt", ULPS, x=x)
    same("rsqrt", ULPS, x=x, epsilon=1e-3)
    same("inverse", ULPS, x=x, epsilon=1e-3)
    same("log", ULPS, x=x, epsilon=1e-6)
    y = floats(shape, seed)
    same("clip", x=y, alpha=-1.0, beta=0.5)
    same("leaky_relu", ULPS, x=y, alpha=0.1)
    # The tanh form of coremltools is computed in float64.
    for mode in ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"):
        same("gelu", 2e-6, x=y, mode=mode)


@few
@given(shapes, seeds)
def test_logic_and_select(shape, seed):
    a, b = whole(shape, seed, 0, 2).astype(bool), whole(shape, seed + 1, 0, 2).astype(bool)
    for op in ("logical_and", "logical_or", "logical_xor"):
        same(op, x=a, y=b)
    same("logical_not", x=a)
    same("select", cond=a, a=floats(shape, seed), b=floats(shape, seed + 1))


@few
@given(shapes, seeds)
def test_casts(shape, seed):
    x = floats(shape, seed, -100.0, 100.0)
    same("cast", x=x, dtype="int32")
    same("cast", x=x, dtype="fp16")
    same("cast", x=whole(shape, seed), dtype="fp32")
    same("cast", x=whole(shape, seed), dtype="bool")


REDUCING = ["max", "mean", "min", "prod", "sum", "sum_square", "l2_norm", "log_sum_exp"]


@few
@given(shapes, seeds, st.data())
@pytest.mark.parametrize("op", REDUCING)
def test_reductions(op, shape, seed, data):
    count = data.draw(st.integers(1, len(shape)))
    axes = data.draw(st.permutations(range(-len(shape), 0)))[:count]
    keep = data.draw(st.booleans())
    # Sums of at most 256 numbers in another order.
    same(f"reduce_{op}", 1e-5, x=floats(shape, seed), axes=np.int32(axes), keep_dims=keep)


@few
@given(shapes, seeds, st.data())
def test_softmax_and_indices(shape, seed, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = floats(shape, seed, -30.0, 30.0)
    same("softmax", ULPS, x=x, axis=axis)
    for op in ("reduce_argmax", "reduce_argmin"):
        # coremltools fails on a result without axes.
        same(op, x=x, axis=axis, keep_dims=len(shape) == 1 or data.draw(st.booleans()))
    for reverse in (False, True):
        same("cumsum", 1e-4, x=x, axis=axis, reverse=reverse)


def test_cumsum_without_the_element_itself():
    """coremltools fails on it; the example is that of torch's cumulative sum, moved by one."""
    x = floats((3, 4), 0)
    expected = torch.from_numpy(x).cumsum(1)[:, :-1]
    got = OPS["cumsum"](x, axis=1, exclusive=True)
    shifted = np.concatenate([np.zeros((3, 1)), expected], 1)
    np.testing.assert_allclose(got, shifted, atol=1e-6)  # torch sums in doubles
    backwards = OPS["cumsum"](x[:, ::-1], axis=-1, exclusive=True, reverse=True)
    np.testing.assert_array_equal(backwards[:, ::-1], got)


@few
@given(shapes, seeds, st.data())
def test_topk_without_ties(shape, seed, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    size = int(np.prod(shape))
    x = np.random.default_rng(seed).permutation(size).astype(np.float32).reshape(shape)
    k = data.draw(st.integers(1, shape[axis]))
    same("topk", x=x, k=k, axis=axis, ascending=data.draw(st.booleans()))


def test_topk_of_equals_takes_the_lowest_index():
    x = np.array([[1, 3, 3, 2, 3]], np.float32)
    values, index = OPS["topk"](x, k=4)
    assert index.tolist() == [[1, 2, 4, 3]] and values.tolist() == [[3, 3, 3, 2]]
    _, index = OPS["topk"](np.full((1, 5), -np.inf, np.float32), k=3)
    assert index.tolist() == [[0, 1, 2]]


@few
@given(shapes, seeds, st.data())
def test_shapes(shape, seed, data):
    x = floats(shape, seed)
    rank = len(shape)
    perm = np.int32(data.draw(st.permutations(range(rank))))
    same("transpose", x=x, perm=perm)
    same("reshape", x=x, shape=np.int32([-1]))
    same("reshape", x=x, shape=np.int32([*shape[1:], shape[0], 1]))
    same("expand_dims", x=x, axes=np.int32([data.draw(st.integers(-rank - 1, rank))]))
    same("squeeze", x=x[None, ..., None], axes=np.int32([0, -1]))
    reps = data.draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    same("tile", x=x, reps=np.int32(reps))
    same("reverse", x=x, axes=np.int32([data.draw(st.integers(0, rank - 1))]))
    same("shape", x=x)
    axis = data.draw(st.integers(-rank, rank - 1))
    same("concat", values=[x, floats(shape, seed + 1), x], axis=axis)
    same("stack", values=[x, floats(shape, seed + 1)], axis=axis)
    pad = data.draw(st.lists(st.integers(0, 2), min_size=2 * rank, max_size=2 * rank))
    same("pad", x=x, pad=np.int32(pad), mode="constant", constant_val=1.5)
    same("pad", x=x, pad=np.int32(pad), mode="replicate")


@few
@given(st.integers(1, 4), st.integers(1, 4), seeds, st.data())
def test_splits(parts, each, seed, data):
    x = floats((3, parts * each), seed)
    same("split", x=x, num_splits=parts, axis=1)
    cut = data.draw(st.integers(1, x.shape[1]))
    sizes = [n for n in (cut, x.shape[1] - cut) if n]
    same("split", x=x, split_sizes=np.int32(sizes), axis=-1)


@few
@given(st.lists(st.integers(2, 5), min_size=2, max_size=3), seeds, st.data())
def test_slices(shape, seed, data):
    x = floats(shape, seed)
    rank = len(shape)
    begins, ends, strides = [], [], []
    for n in shape:
        low = data.draw(st.integers(0, n - 1))
        high = data.draw(st.integers(low + 1, n))
        begins.append(low - n * data.draw(st.booleans()))
        ends.append(high)
        strides.append(data.draw(st.integers(1, 2)))
    flags = st.lists(st.booleans(), min_size=rank, max_size=rank).map(np.array)
    squeeze = data.draw(flags)
    squeeze[0] = False  # one axis is left
    given_ = {
        "begin": np.int32(begins),
        "end": np.int32(ends),
        "stride": np.int32(strides),
        "begin_mask": data.draw(flags),
        "end_mask": data.draw(flags),
        "squeeze_mask": squeeze,
    }
    same("slice_by_index", x=x, **given_)
    part = OPS["slice_by_index"](x, **given_)
    same("slice_update", x=x, update=part * 2 + 1, **given_)
    size = [n - (b % n) for n, b in zip(shape, begins, strict=True)]
    begin = np.int32([b % n for n, b in zip(shape, begins, strict=True)])
    same("slice_by_size", x=x, begin=begin, size=np.int32(size))


@few
@given(st.lists(st.integers(2, 4), min_size=2, max_size=3), seeds, st.data())
def test_gathers(shape, seed, data):
    x = floats(shape, seed)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    same("gather", x=x, indices=whole((2, 3), seed, 0, shape[axis]), axis=axis)
    same("gather", x=x, indices=whole((shape[0], 2), seed, 0, shape[1]), axis=1, batch_dims=1)
    along = list(shape)
    along[axis] = 3
    same("gather_along_axis", x=x, indices=whole(along, seed, 0, shape[axis]), axis=axis)
    # gather_nd has no value inference.
    nd = np.stack([whole((2, 3), seed + i, 0, n) for i, n in enumerate(shape[:2])], -1)
    expected = [[x[tuple(place)] for place in row] for row in nd]
    np.testing.assert_array_equal(OPS["gather_nd"](x, nd), expected)


@few
@given(seeds, st.data())
def test_what_numpy_does_too(seed, data):
    same("fill", shape=np.int32([2, 3]), value=1.5)
    same("range_1d", start=1, end=9, step=data.draw(st.integers(1, 3)))
    lower, upper = (data.draw(st.integers(-1, 3)) for _ in range(2))
    same("band_part", x=floats((3, 5), seed), lower=lower, upper=upper)
    hot = whole((3,), seed, 0, 4)
    got = OPS["one_hot"](hot, np.int32(4), axis=0, on_value=np.float32(2))
    np.testing.assert_array_equal(got, 2 * np.eye(4)[:, hot])


@few
@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5), seeds)
def test_products(rows, inner, columns, seed):
    x, w = floats((rows, inner), seed), floats((columns, inner), seed + 1)
    # Sums of at most five products.
    same("linear", 1e-5, x=x, weight=w, bias=floats((columns,), seed + 2))
    same("matmul", 1e-5, x=x, y=w, transpose_y=True)
    both = {"x": np.stack([x.T, 2 * x.T]), "y": np.stack([w, w])}
    same("matmul", 1e-5, **both, transpose_x=True, transpose_y=True)
    # The equations that einsum may have in coremltools are few; torch takes all.
    a, b = floats((2, rows, inner), seed), floats((2, inner, columns), seed)
    expected = torch.einsum("bij,bjk->bik", *(torch.from_numpy(v).double() for v in (a, b)))
    np.testing.assert_allclose(OPS["einsum"]((a, b), "bij,bjk->bik"), expected, atol=1e-4)


@few
@given(seeds)
def test_norms(seed):
    x, gamma, beta = floats((2, 3, 4), seed), floats((4,), seed + 1), floats((4,), seed + 2)
    # coremltools computes in float32 too, in another order.
    same("layer_norm", 1e-5, x=x, axes=np.int32([-1]), gamma=gamma, beta=beta, epsilon=1e-5)
    got = OPS["layer_norm"](
        x, axes=np.int32([1, 2]), gamma=floats((3, 4), seed), epsilon=np.float32(1e-3)
    )
    expected = torch.nn.functional.layer_norm(
        torch.from_numpy(x).double(),
        (3, 4),
        torch.from_numpy(floats((3, 4), seed)).double(),
        eps=1e-3,
    )
    np.testing.assert_allclose(got, expected, atol=1e-5)
    shift, scale = floats((3,), seed + 3), floats((3,), seed + 4, 0.5, 2.0)
    got = OPS["batch_norm"](x, shift, scale, gamma=scale, beta=shift, epsilon=np.float32(1e-3))
    t = [torch.from_numpy(a).double() for a in (x, shift, scale, scale, shift)]
    np.testing.assert_allclose(got, torch.nn.functional.batch_norm(*t, eps=1e-3), atol=1e-5)


@few
@given(seeds, st.sampled_from(["add", "sub", "mul", "max", "min", "update"]))
def test_scatters_against_a_loop(seed, mode):
    """coremltools has no value inference for these."""
    combine = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "max": max,
        "min": min,
        "update": lambda a, b: b,
    }[mode]
    data, updates = floats((5, 3), seed), floats((2, 3), seed + 1)
    index = np.random.default_rng(seed).permutation(5)[:2].astype(np.int32)
    expected = data.copy()
    for row, at in enumerate(index):
        for column in range(3):
            expected[at, column] = combine(data[at, column], updates[row, column])
    got = OPS["scatter"](data, index, updates, mode, axis=0)
    np.testing.assert_array_equal(got, expected)
    nd = OPS["scatter_nd"](data, index[:, None], updates, mode)
    np.testing.assert_array_equal(nd, expected)
    along = OPS["scatter_along_axis"](data, np.repeat(index[:, None], 3, 1), updates, mode, axis=0)
    np.testing.assert_array_equal(along, expected)


@few
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), seeds)
def test_lstm_against_torch_in_doubles(steps, batch, inputs, hidden, seed):
    """torch's gates are input, forget, cell, output; MIL's input, forget, output, cell."""
    torch.manual_seed(seed)
    lstm = torch.nn.LSTM(inputs, hidden).double()
    x, h, c = (
        torch.randn(*s).double() for s in ((steps, batch, inputs), *2 * [(1, batch, hidden)])
    )
    with torch.no_grad():
        expected, (h1, c1) = lstm(x, (h, c))

    def gates(w):
        i, f, z, o = w.detach().chunk(4)
        return torch.cat([i, f, o, z]).numpy().astype(np.float32)

    given_ = {
        "x": x.numpy().astype(np.float32),
        "initial_h": h[0].numpy().astype(np.float32),
        "initial_c": c[0].numpy().astype(np.float32),
        "weight_ih": gates(lstm.weight_ih_l0),
        "weight_hh": gates(lstm.weight_hh_l0),
        "bias": gates(lstm.bias_ih_l0 + lstm.bias_hh_l0),
    }
    out, h2, c2 = OPS["lstm"](**given_, output_sequence=True)
    # float32 through at most three steps.
    for got, want in ((out, expected), (h2, h1[0]), (c2, c1[0])):
        np.testing.assert_allclose(got, want, atol=2e-6)
    last, _, _ = OPS["lstm"](**given_)
    np.testing.assert_array_equal(last, out[-1:])
    backward, _, _ = OPS["lstm"](
        **given_ | {"x": given_["x"][::-1]}, direction="reverse", output_sequence=True
    )
    np.testing.assert_array_equal(backward[::-1], out)


@pytest.mark.parametrize(
    "change",
    [
        {"direction": "bidirectional"},
        {"recurrent_activation": "hard_sigmoid"},
        {"cell_activation": "relu"},
        {"activation": "linear"},
    ],
)
def test_other_lstms_are_refused(change):
    shapes_ = {"x": (1, 2, 3), "initial_h": (2, 4), "initial_c": (2, 4)}
    shapes_ |= {"weight_ih": (16, 3), "weight_hh": (16, 4)}
    with pytest.raises(CoreMLError, match="lstm of the kind"):
        OPS["lstm"](**{k: np.zeros(s, np.float32) for k, s in shapes_.items()}, **change)


@few
@given(st.integers(1, 2), st.integers(1, 2), st.integers(1, 3), seeds, st.data())
@pytest.mark.parametrize("spatial", [1, 2])
def test_convolution_against_torch_in_doubles(spatial, groups, each, kernel, seed, data):
    lengths = [data.draw(st.integers(6, 8)) for _ in range(spatial)]
    per_axis = st.lists(st.integers(1, 2), min_size=spatial, max_size=spatial)
    strides, dilations, pads = (data.draw(per_axis) for _ in range(3))
    x = floats((2, groups * each, *lengths), seed)
    w = floats((2 * groups, each, *[kernel] * spatial), seed + 1)
    b = floats((2 * groups,), seed + 2)
    got = OPS["conv"](
        x,
        w,
        b,
        strides=np.int32(strides),
        pad_type="custom",
        pad=np.int32([n for p in pads for n in (p, p)]),
        dilations=np.int32(dilations),
        groups=np.int32(groups),
    )
    conv = torch.nn.functional.conv1d if spatial == 1 else torch.nn.functional.conv2d
    t = [torch.from_numpy(a).double() for a in (x, w, b)]
    expected = conv(*t, stride=strides, padding=pads, dilation=dilations, groups=groups)
    # At most 18 products of numbers up to 4.
    np.testing.assert_allclose(got, expected, atol=2e-5)


def test_convolution_pads_before_and_after_apart():
    x, w = floats((1, 1, 5), 0), floats((1, 1, 2), 1)
    got = OPS["conv"](x, w, pad_type="custom", pad=np.int32([1, 0]))
    np.testing.assert_array_equal(got, OPS["conv"](np.pad(x, [(0, 0), (0, 0), (1, 0)]), w))
    with pytest.raises(CoreMLError, match="conv pads by 'same_lower'"):
        OPS["conv"](x, w, pad_type="same_lower")


@few
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), seeds)
def test_attention_against_torch_in_doubles(queries, keys, width, seed):
    q, k, v = (floats((2, n, width), seed + i) for i, n in enumerate((queries, keys, keys)))
    mask = whole((queries, keys), seed, 0, 2).astype(bool)
    mask[:, 0] = True
    t = [torch.from_numpy(a).double() for a in (q, k, v)]
    attention = torch.nn.functional.scaled_dot_product_attention
    op = OPS["scaled_dot_product_attention"]
    for given_ in (None, mask, floats((queries, keys), seed + 3)):
        theirs = None if given_ is None else torch.from_numpy(given_)
        theirs = theirs if theirs is None or theirs.dtype == torch.bool else theirs.double()
        # A softmax and two products in float32.
        np.testing.assert_allclose(op(q, k, v, given_), attention(*t, theirs), atol=5e-6)


@few
@given(st.integers(1, 4), st.integers(1, 4), st.sampled_from([1, 2, 3, 4, 6, 8]), seeds)
def test_palettes(rows, columns, bits, seed):
    """iOS18: one table a group of rows, numbers of a type of their own."""
    from coremltools.converters.mil.mil import types

    groups = 2
    indices = whole((groups * rows, columns), seed, 0, 2**bits).astype(np.uint8)
    lut = floats((groups, 1, 2**bits, 1), seed + 1)
    (expected,) = inferred(
        "constexpr_lut_to_dense",
        indices=indices.astype(types.nptype_from_builtin(types.string_to_builtin(f"uint{bits}"))),
        lut=lut,
    )
    np.testing.assert_array_equal(OPS["constexpr_lut_to_dense"](indices, lut), expected)


@few
@given(shapes, seeds, st.data())
def test_scales_and_offsets(shape, seed, data):
    scale_shape = [data.draw(st.sampled_from([1, n])) for n in shape]
    numbers = whole(shape, seed, -128, 128).astype(np.int8)
    scale = floats(scale_shape, seed, 0.1, 2.0)
    offset = whole(scale_shape, seed + 1, -128, 128).astype(np.int8)
    op = "constexpr_blockwise_shift_scale"
    (expected,) = inferred(op, data=numbers, scale=scale, offset=offset)
    # int8 - int8 would wrap in int8: both sides compute in floats.
    wide = numbers.astype(np.float32)
    np.testing.assert_allclose(OPS[op](numbers, scale, offset), expected, rtol=1e-6)
    np.testing.assert_allclose(OPS[op](numbers, scale), wide * scale, rtol=1e-6)


@pytest.mark.parametrize("target", ["iOS17", "iOS18"])
@pytest.mark.parametrize("how", ["palette", "linear"])
def test_compressed_weights_on_disk_are_what_coremltools_decompresses(tmp_path, target, how):
    import coremltools as ct
    import coremltools.optimize.coreml as cto

    torch.manual_seed(0)
    port = [ct.TensorType(name="x", shape=(1, 32), dtype=np.float32)]
    program = converted(torch.nn.Linear(32, 48), port, None, target=target)
    if how == "palette":
        settings = cto.OpPalettizerConfig(mode="uniform", nbits=6, weight_threshold=8)
        small = cto.palettize_weights(program, cto.OptimizationConfig(settings))
    else:
        settings = cto.OpLinearQuantizerConfig(mode="linear", weight_threshold=8)
        small = cto.linear_quantize_weights(program, cto.OptimizationConfig(settings))
    path = saved(small, tmp_path / "small.mlpackage")
    runner = Interpreter(open_package(path))
    compressed = [op for op in runner.function.operations if op.type.startswith("constexpr_")]
    theirs = {
        op.outputs[0].name: op.materialized_val_inference()
        for op in small._mil_program.functions["main"].operations
        if op.op_type.startswith("constexpr_")
    }
    assert {op.name for op in compressed} == theirs.keys() and theirs
    for name, expected in theirs.items():
        np.testing.assert_allclose(runner.constants()[name], expected, rtol=1e-6)


# One arm of each kind, at the size of a test. FP32 arms without state are held to 1e-4 (measured
# 1e-5 and less), and their beams to torch's hypotheses; others to their measured drift.
ARMS = [
    ("predictor", Arm(beam=8, lstm="unrolled", precision="fp16-body")),
    ("joint", Arm(beam=4, tail="logits")),
    ("fused", Arm(beams=(1, 8), target="iOS18")),
    ("encoder-projection", Arm(frames=9)),
]


@pytest.mark.parametrize(
    ("kind", "arm"), ARMS, ids=lambda a: a if isinstance(a, str) else a.stem("")
)
def test_package_against_torch_and_through_a_beam(tmp_path, kind, arm):
    source = small_source()
    report = check(export(source, kind, tmp_path, arm).package, source)
    assert report.ok, report.text()
    assert report.exact == (arm.precision == "fp32")
    for function in report.functions:
        assert [r.against for r in function.replays[:2]] == ["golden vectors", "torch"]
        assert function.replays[1].calls == 9
        if kind == "encoder-projection":
            continue
        assert function.beam.iterations >= 100
        if report.exact:
            assert function.beam.differs is None and function.beam.same_hypotheses
            worst = max(d.error for r in function.replays for d in r.diffs)
            assert worst < 1e-4


@pytest.fixture(scope="module")
def joint(tmp_path_factory):
    return export(small_source(), "joint", tmp_path_factory.mktemp("joint"), Arm(beam=4)).package


def inputs(runner):
    return {n: np.zeros(t.shape, t.numpy) for n, t in runner.inputs.items()}


def test_inputs_must_be_what_the_package_declares(joint):
    runner = Interpreter(open_package(joint))
    good = inputs(runner)
    with pytest.raises(CoreMLError, match=r"input 'frames', float32\[4, 40\], is missing"):
        runner.predict({"predicted": good["predicted"]})
    with pytest.raises(CoreMLError, match="no input 'colour'; there are frames, predicted"):
        runner.predict(good | {"colour": good["frames"]})
    with pytest.raises(CoreMLError, match=r"'frames' is float64\[4, 40\], the package takes"):
        runner.predict(good | {"frames": good["frames"].astype(np.float64)})
    with pytest.raises(CoreMLError, match=r"'frames' is float32\[1, 40\], the package takes"):
        runner.predict(good | {"frames": good["frames"][:1]})


def changed(package, folder, change):
    path = copied(package, folder, golden=False)
    rewrite(path, change)
    return path


def rename(spec):
    operations(spec, "relu")[0].type = "swish"


def parameter(spec):
    argument = operations(spec, "relu")[0].inputs["x"]
    operations(spec, "relu")[0].inputs["alpha"].CopyFrom(argument)


def nothing(spec):
    operations(spec, "relu")[0].inputs["x"].arguments[0].name = "later"


def no_value(spec):
    del operations(spec, "const")[0].attributes["val"]


def shape(spec):
    operations(spec, "relu")[0].outputs[0].type.tensorType.dimensions[0].constant.size = 5


def kind(spec):
    operations(spec, "relu")[0].outputs[0].type.tensorType.dataType = 23  # INT32


def half(spec):
    operations(spec, "relu")[0].outputs[0].type.tensorType.dataType = 10  # FLOAT16


def axis(spec):
    axes = operations(spec, "reduce_max")[0].inputs["axes"].arguments[0].name
    (op,) = (o for o in operations(spec, "const") if o.outputs[0].name == axes)
    op.attributes["val"].immediateValue.tensor.ints.values[0] = 7


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (rename, r"\(?'?input'? is a swish, unknown to the interpreter"),
        (parameter, r"\(relu\) is of a version unknown to the interpreter: .*alpha"),
        (nothing, r"\(relu\) reads 'later', which nothing computes before it"),
        (no_value, "has no value; the package is damaged"),
        (shape, r"\(relu\) declares 'input' float32\[5, 40\]; it is float32\[4, 40\]"),
        (kind, r"\(relu\) declares 'input' int32\[4, 40\]; it is float32"),
        (half, r"\(relu\) declares 'input' float16, of float32; without a cast"),
        (axis, r"\(reduce_max\) cannot be computed: axis 7 is out of bounds"),
    ],
)
def test_what_the_interpreter_does_not_know_is_an_error_by_name(joint, tmp_path, change, why):
    with pytest.raises(CoreMLError, match=why):
        check(changed(joint, tmp_path, change), small_source())


def test_ids_out_of_range_are_an_error():
    table = floats((5, 3), 0)
    for wrong in (-1, 5):
        with pytest.raises(CoreMLError, match=f"gather reads index {wrong} of 0..4"):
            OPS["gather"](table, np.int32([0, wrong]))


def test_states_are_written_and_kept(tmp_path):
    import coremltools as ct

    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(1, 32, dtype=torch.float16))

        def forward(self, x):
            self.total.add_(x.half())
            return self.total.float() * 2

    port = [ct.TensorType(name="x", shape=(1, 32), dtype=np.float32)]
    kept = ct.TensorType(shape=(1, 32), dtype=np.float16)
    states = [ct.StateType(wrapped_type=kept, name="total")]
    out = [ct.TensorType(name="y", dtype=np.float32)]
    program = converted(Counts(), port, out, target="iOS18", states=states)
    runner = Interpreter(open_package(saved(program, tmp_path / "counts.mlpackage")))
    x = np.full((1, 32), 0.1, np.float32)
    first, second = runner.make_state(), runner.make_state()
    answers = [runner.predict({"x": x}, first)["y"][0, 0] for _ in range(3)]
    tenth = np.float16(0.1)
    twice = np.float16(tenth + tenth)
    assert answers == [2 * tenth, 2 * twice, 2 * np.float16(twice + tenth)]  # kept in float16
    assert runner.predict({"x": x}, second)["y"][0, 0] == answers[0]  # a state of its own
    with pytest.raises(CoreMLError, match=r"has a state; make one with make_state\(\)"):
        runner.predict({"x": x})


def test_torch_tells_every_value_on_the_way(joint):
    """All operations that were one of torch's have its name, and its value."""
    graph = rnnt_graph("joint", small_source().model, 4)
    feeds = graph.draw(np.random.default_rng(0))
    values = torch_values(graph, feeds)
    seen = {}

    def watch(op, _, results):
        seen.update({n: r for (n, _t), r in zip(op.outputs, results, strict=True)})

    Interpreter(open_package(joint)).predict(feeds, observer=watch)
    both = [n for n in seen if n in values]
    # add, relu, linear, max, sub, exp, sum, log, sub: all but the outputs, whose names are ours
    assert len(both) >= 9 and "shifted" in both and "log_probs" in both
    for name in both:
        np.testing.assert_allclose(seen[name], values[name], atol=1e-5, err_msg=name)


def test_float16_report_names_the_operation_that_overflows_and_logs_of_zero(tmp_path):
    import coremltools as ct

    class Wide(torch.nn.Module):
        def forward(self, x):
            return torch.log(torch.exp(-x)) + (x * 1000).sum(-1, keepdim=True) * 0

    port = [ct.TensorType(name="x", shape=(1, 4), dtype=np.float32)]
    out = [ct.TensorType(name="y", dtype=np.float32)]
    package = open_package(saved(converted(Wide(), port, out), tmp_path / "wide.mlpackage"))
    x = np.array([[1.0, 20.0, 60.0, 70.0]], np.float32)
    report = emulate(package, "main", {"x": x})
    rows = {row.type: row for row in report.ranges}
    assert rows["exp"].lost == 3 / 4  # exp(-20) is below half of 2^-24
    assert rows["log"].log_of_zero == 3 / 4
    assert rows["reduce_sum"].overflowed == 1.0 and rows["reduce_sum"].headroom < 1
    assert next(row.type for row in report.harmful) in ("log", "reduce_sum", "mul")
    assert rows["add"].largest == 70.0
    calm = emulate(package, "main", {"x": x / 100})
    assert not calm.harmful and max(calm.drift.values()) < 1e-3
