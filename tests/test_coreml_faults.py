"""A fault put into a package changes the one number that it says, and is refused where there is
none."""

import numpy as np
import pytest
from coreml_packages import copied, need_coremltools, small_source, weight_file

need_coremltools()

from vrt.coreml.arms import Arm  # noqa: E402
from vrt.coreml.check import check  # noqa: E402
from vrt.coreml.errors import CoreMLError  # noqa: E402
from vrt.coreml.export import export  # noqa: E402
from vrt.coreml.faults import add_to_weight  # noqa: E402
from vrt.coreml.package import open_package  # noqa: E402


@pytest.fixture(scope="module")
def source():
    return small_source()


@pytest.fixture(scope="module")
def joint(source, tmp_path_factory):
    return export(source, "joint", tmp_path_factory.mktemp("joint"), Arm(beam=3)).package


def weight(package, name):
    return open_package(package).function("main").producer(name).inputs["val"].read().copy()


def test_one_number_changes_and_no_other(joint, tmp_path):
    package = copied(joint, tmp_path)
    name = add_to_weight(package, "linear", "weight", (2, 5), 0.25)
    before, after = weight(joint, name), weight(package, name)
    assert np.argwhere(before != after).tolist() == [[2, 5]]
    assert after[2, 5] == np.float32(before[2, 5] + np.float32(0.25))
    old, new = weight_file(joint).read_bytes(), weight_file(package).read_bytes()
    changed = [i for i in range(len(old)) if old[i] != new[i]]
    assert len(old) == len(new) and 1 <= len(changed) <= 4 and changed[-1] - changed[0] < 4


def test_the_check_finds_it_and_names_the_operation(joint, source, tmp_path):
    package = copied(joint, tmp_path)
    assert check(package, source).ok
    name = add_to_weight(package, "linear", "weight", (2, 5), 0.25)
    report = check(package, source)
    operations = open_package(package).function("main").operations
    (reader,) = [op for op in operations if name in op.reads()]
    assert not report.ok and report.functions[0].divergence.operation == reader.name


@pytest.mark.parametrize(
    ("operation", "parameter", "says"),
    [
        ("lstm", "weight_ih", "no operation 'lstm' in main; there are .*linear"),
        ("linear", "x", "'x' of .* is no float32 of the weight file; it has .*weight"),
        ("linear", "wait", "'wait' of "),
    ],
)
def test_what_is_not_there_is_named(joint, operation, parameter, says):
    with pytest.raises(CoreMLError, match=says):
        add_to_weight(joint, operation, parameter, (0, 0), 1.0)
