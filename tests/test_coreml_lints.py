"""Every known trap is found in a program that has it, and none in what vrt exports."""

import dataclasses

import numpy as np
import pytest
import torch
from coreml_packages import converted, copied, need_coremltools, rewrite, saved, small_source

need_coremltools()

import coremltools as ct  # noqa: E402

from vrt.coreml.arms import Arm  # noqa: E402
from vrt.coreml.check import check  # noqa: E402
from vrt.coreml.contract import METADATA_KEY, to_json  # noqa: E402
from vrt.coreml.export import export  # noqa: E402
from vrt.coreml.lints import lint  # noqa: E402
from vrt.coreml.metadata import about_metadata  # noqa: E402
from vrt.coreml.package import open_package  # noqa: E402


def found(program, folder):
    """(level, rule) of every finding."""
    package = open_package(saved(program, folder / "a.mlpackage"))
    return [(f.level, f.rule) for f in lint(package)]


def port(shape, dtype=np.float32, name="x"):
    return ct.TensorType(name=name, shape=shape, dtype=dtype)


def floats_out():
    return [ct.TensorType(name="y", dtype=np.float32)]


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def log_softmax(x):
    return torch.log_softmax(x, -1)


@pytest.mark.parametrize(("half", "level"), [(False, "warning"), (True, "error")])
def test_log_softmax_becomes_softmax_and_log(tmp_path, half, level):
    program = converted(Function(log_softmax), [port((2, 8))], floats_out(), half)
    assert (level, "softmax then log") in found(program, tmp_path)


def test_softmax_and_log_are_seen_through_what_lies_between(tmp_path):
    def between(x):
        return torch.log(torch.softmax(x, -1).reshape(8, 2).transpose(0, 1)[:1])

    program = converted(Function(between), [port((2, 8))], floats_out())
    assert ("warning", "softmax then log") in found(program, tmp_path)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x - x.amax(-1, keepdim=True) - torch.log(x.exp().sum(-1, keepdim=True)),
        lambda x: torch.softmax(x, -1) + torch.log(x),
    ],
)
def test_other_logs_are_let_alone(tmp_path, function):
    assert found(converted(Function(function), [port((2, 8))], floats_out()), tmp_path) == []


def test_logsumexp(tmp_path):
    program = converted(Function(lambda x: torch.logsumexp(x, -1)), [port((2, 8))], floats_out())
    assert found(program, tmp_path) == [("warning", "reduce_log_sum_exp")]


def test_types_left_to_coremltools(tmp_path):
    """Its default is FP16, token ids included."""
    table = torch.zeros(5000, 4)
    ids = Function(lambda x: torch.nn.functional.embedding(x.int(), table))
    unsaid = converted(ids, [ct.TensorType(name="x", shape=(3,))], None, half=True)
    rules = found(unsaid, tmp_path)
    assert rules.count(("error", "float16 port")) == 2  # x and the output
    assert ("error", "float16 ids") in rules


def test_types_that_were_said(tmp_path):
    embed = torch.nn.Embedding(5000, 4)
    said = converted(embed, [port((3,), np.int32)], floats_out(), half=True)
    assert found(said, tmp_path) == []


def test_flexible_shapes(tmp_path):
    ranged = ct.Shape(shape=(ct.RangeDim(1, 4, default=2), 8))
    program = converted(torch.nn.ReLU(), [port(ranged)], floats_out())
    assert found(program, tmp_path) == [("warning", "flexible shape")]


@pytest.mark.parametrize(("width", "rules"), [(20, [("warning", "state width")]), (64, [])])
def test_state_widths(tmp_path, width, rules):
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(1, width, dtype=torch.float16))

        def forward(self, x):
            self.total.add_(x.half())
            return self.total.float()

    kept = ct.TensorType(shape=(1, width), dtype=np.float16)
    states = [ct.StateType(wrapped_type=kept, name="total")]
    program = converted(Counts(), [port((1, width))], floats_out(), target="iOS18", states=states)
    assert found(program, tmp_path) == rules


def test_lstm_is_noted(tmp_path):
    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = torch.nn.LSTM(4, 4)

        def forward(self, x):
            return self.lstm(x)[0]

    assert found(converted(Step(), [port((1, 2, 4))], floats_out()), tmp_path) == [("note", "lstm")]


@pytest.fixture(scope="module")
def joint(tmp_path_factory):
    return export(small_source(), "joint", tmp_path_factory.mktemp("joint"), Arm(beam=4)).package


def test_nothing_is_found_in_an_export(joint):
    assert check(joint).findings == ()


def test_a_package_without_metadata_leaves_hosts_to_guess(joint, tmp_path):
    package = copied(joint, tmp_path, golden=False)
    rewrite(package, lambda spec: spec.description.metadata.userDefined.pop(METADATA_KEY))
    report = check(package)
    assert [(f.level, f.rule) for f in report.findings] == [
        ("warning", "no metadata"),
        ("note", "golden vectors"),
    ]
    assert check(package, small_source()).failures == [
        "error: source: small-1: without metadata of vrt nothing tells what of the model this is"
    ]


def misdescribed(contract, which, **changes):
    """The contract with one port changed."""
    (main,) = contract.functions
    side, index = which
    ports = list(getattr(main, side))
    ports[index] = dataclasses.replace(ports[index], **changes)
    main = dataclasses.replace(main, **{side: tuple(ports)})
    return dataclasses.replace(contract, functions=(main,))


@pytest.mark.parametrize(
    ("which", "changes", "why"),
    [
        (
            ("inputs", 0),
            {"dtype": "int32"},
            r"it says int32\[4, 40\], the program float32",
        ),
        (("inputs", 0), {"shape": (40, 4)}, r"it says float32\[40, 4\], the program"),
        (("inputs", 0), {"axes": "J K"}, "its axis J is 4, where the metadata say 40"),
        (("outputs", 2), {"axes": "K N"}, r"its axes are 'K N', of a shape \[4\]"),
        (("outputs", 0), {"name": "score"}, "it names outputs score, ids, blank_score; there are"),
    ],
)
def test_a_layout_that_is_not_the_programs_is_an_error(joint, tmp_path, which, changes, why):
    """Field report: a Core ML RNN-T that emits only blanks, for its axes were swapped."""
    package = copied(joint, tmp_path, golden=False)
    changed = misdescribed(open_package(joint).contract, which, **changes)
    text = {METADATA_KEY: to_json(changed)}
    rewrite(package, lambda spec: spec.description.metadata.userDefined.update(text))
    report = check(package)
    assert not report.ok
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(report.failures[0])


def test_functions_must_be_those_of_the_program(joint, tmp_path):
    package = copied(joint, tmp_path, golden=False)
    contract = open_package(joint).contract
    named = dataclasses.replace(contract.functions[0], name="beam_4")
    text = {METADATA_KEY: to_json(dataclasses.replace(contract, functions=(named,)))}
    rewrite(package, lambda spec: spec.description.metadata.userDefined.update(text))
    (finding,) = about_metadata(open_package(package))
    assert str(finding) == "error: metadata: package: it names functions beam_4; it has main"
