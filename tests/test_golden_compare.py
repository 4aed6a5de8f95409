"""Comparing answers: the first wrong number is found, in whatever stage it is, and nothing else."""

import json
import shutil

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from vrt.golden import GoldenError, check, compare
from vrt.golden.comparing import against, compare_stage
from vrt.golden.format import read
from vrt.golden.stages import STAGES, TOLERANCES, tolerance

CHECKED = "voxtral-length-1.safetensors"


@pytest.fixture(scope="module")
def original(repo_root):
    return repo_root / "data" / "golden" / CHECKED


@pytest.fixture(scope="module")
def dump(original, tmp_path_factory):
    """What vrt computes on the file, fed in odd pieces."""
    folder = tmp_path_factory.mktemp("dump") / "new"
    assert check(original, 333, dump=folder).ok
    return folder / CHECKED


def load(path):
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return tensors, json.loads(file.metadata()["json"])


def save(path, tensors, about):
    save_file(tensors, path, metadata={"json": json.dumps(about)})
    return path


def bumped(original, path, key, index, by):
    """A copy of the file in which one number is changed."""
    tensors, about = load(original)
    tensors[key] = tensors[key].clone()
    tensors[key][index] += by
    return save(path, tensors, about)


def off_by(golden, stage, share):
    """A number that is `share` of the stage's tolerance; ids differ by one."""
    if tolerance(stage) is None:
        return 1
    values = golden.expect[stage]
    return share * tolerance(stage) * max(1.0, float(values.abs().max()))


@pytest.mark.parametrize("stage", STAGES)
def test_check_finds_a_wrong_expectation_in_every_stage(original, tmp_path, stage):
    golden = read(original)
    index = tuple(size // 2 for size in golden.expect[stage].shape)
    wrong = tmp_path / "wrong.safetensors"
    bumped(original, wrong, f"expect.{stage}", index, off_by(golden, stage, 2))
    report = check(wrong)
    assert not report.ok and report.first.stage == stage and report.first.index == index
    assert [result.stage for result in report.stages if not result.ok] == [stage]
    place = ", ".join(map(str, index))
    assert report.line().startswith(
        f"FAIL wrong.safetensors: first divergence: {stage}, [{place}], got "
    )
    assert report.line().endswith(f"expected {report.first.expected:.9g}")


@pytest.mark.parametrize("stage", [stage for stage in STAGES if tolerance(stage)])
def test_check_accepts_what_is_within_the_tolerance(original, tmp_path, stage):
    golden = read(original)
    index = tuple(size // 2 for size in golden.expect[stage].shape)
    near = tmp_path / "near.safetensors"
    bumped(original, near, f"expect.{stage}", index, off_by(golden, stage, 0.8))
    report = check(near)
    result = next(result for result in report.stages if result.stage == stage)
    assert report.ok and 0.7 < result.ratio < 1


def test_tolerances_are_those_of_the_format():
    assert TOLERANCES == {
        "mel": 5e-5,
        "conv_stem": 1e-5,
        "encoder_layer0": 2e-5,
        "encoder": 3e-5,
        "projector": 3e-5,
        "logits": 3e-5,
        "t_cond": 1e-5,
        "ada_scale": 2e-5,
    }


def test_dump_holds_the_answer_only_and_compares(original, dump):
    tensors, about = load(dump)
    assert tensors.keys() == {f"expect.{stage}" for stage in STAGES}
    _, theirs = load(original)
    same = theirs.keys() - {"oracle", "covers", "audio_samples"}
    same -= {key for key in theirs if key.startswith(("greedy_", "offline_"))}
    assert {key: about[key] for key in same} == {key: theirs[key] for key in same}
    assert about["oracle"]["name"] == "vrt" and about["oracle"]["feed"] == "333"
    report = compare(original, dump)
    assert report.ok and report.line() == f"ok {CHECKED}" and len(report.stages) == len(STAGES)
    assert max(result.ratio for result in report.stages if result.ratio is not None) > 0


def test_dump_never_overwrites_its_input(original, tmp_path):
    mine = tmp_path / CHECKED
    shutil.copy(original, mine)
    with pytest.raises(GoldenError, match="would overwrite"):
        check(mine, dump=tmp_path)
    assert mine.read_bytes() == original.read_bytes()


def test_absent_stages_are_reported_and_no_failure(original, dump, tmp_path):
    tensors, about = load(dump)
    few = {name: tensors[name] for name in ("expect.mel.stream", "expect.logits.stream")}
    report = compare(original, save(tmp_path / "few.safetensors", few, about))
    assert report.ok and report.line().endswith(f" (2 of {len(STAGES)} stages compared)")
    assert set(report.absent) == set(STAGES) - {"mel.stream", "logits.stream"}
    assert "conv_stem.offline             absent from got" in report.table()
    other = compare(tmp_path / "few.safetensors", dump)
    assert other.ok and "absent from expected" in other.table()


def test_table_has_a_row_a_stage_and_marks_failures(original, tmp_path):
    wrong = tmp_path / "wrong.safetensors"
    bumped(original, wrong, "expect.conv_stem.stream", (3, 2), 1.0)
    lines = compare(original, wrong).table().splitlines()
    assert [line.split()[0] for line in lines] == ["stage", *STAGES]
    assert [line.split()[0] for line in lines if line.endswith("FAIL")] == ["conv_stem.stream"]
    row = next(line for line in lines if line.startswith("conv_stem.stream")).split()
    assert float(row[1]) == pytest.approx(1.0) and float(row[3]) == 1e-5


def test_first_divergence_follows_the_flow_of_data(original, tmp_path):
    """Not the order of names, nor the size of the error: stages, then time, then the other axis."""
    tensors, about = load(original)
    for key in ("expect.logits.offline", "expect.encoder.stream", "expect.conv_stem.stream"):
        tensors[key] = tensors[key] + 1
    mel = tensors["expect.mel.stream"].clone()
    mel[3, 20] += 9  # an earlier bin of a later frame
    mel[7, 10] += 1
    report = compare(
        original, save(tmp_path / "a.safetensors", tensors | {"expect.mel.stream": mel}, about)
    )
    assert report.first.stage == "mel.stream" and report.first.index == (7, 10)
    report = compare(original, save(tmp_path / "b.safetensors", tensors, about))
    assert report.first.stage == "conv_stem.stream" and report.first.index == (0, 0)


def test_a_token_comes_before_the_logits_that_it_was_fed_to(original, tmp_path):
    tensors, about = load(original)
    ids, logits = tensors["expect.tokens.offline_full_span"], tensors["expect.logits.offline"]
    ids[4] += 1
    logits[5:] += 1
    report = compare(original, save(tmp_path / "a.safetensors", tensors, about))
    assert report.first.stage == "tokens.offline_full_span" and report.first.index == (4,)
    logits[4] += 1
    report = compare(original, save(tmp_path / "b.safetensors", tensors, about))
    assert report.first.stage == "logits.offline" and report.first.index == (4, 0)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_what_is_no_number_fails(original, tmp_path, value):
    tensors, about = load(original)
    tensors["expect.encoder.stream"][5, 1] = value
    odd = save(tmp_path / "odd.safetensors", tensors, about)
    report = compare(original, odd)
    assert not report.ok and report.first.stage == "encoder.stream"
    assert report.first.index == (5, 1)
    for got in (original, odd):  # the same value in both files is no agreement
        with pytest.raises(GoldenError, match=r"expect\.encoder\.stream is .* at \[5, 1\]"):
            compare(odd, got)


def test_a_number_of_positions_that_differs_fails_after_the_common_ones(original, tmp_path):
    tensors, about = load(original)
    tensors["expect.mel.stream"] = tensors["expect.mel.stream"][:, :-8].contiguous()
    short = save(tmp_path / "short.safetensors", tensors, about)
    frames = 8 * about["n_audio_tokens"]
    report = compare(original, short)
    assert report.first.index == (frames - 8,)
    assert str(report.first).endswith(f"got length {frames - 8}, expected length {frames}")
    tensors["expect.mel.stream"][2, 5] += 1
    report = compare(original, save(tmp_path / "both.safetensors", tensors, about))
    assert report.first.index == (2, 5)


def test_another_shape_is_named(original, tmp_path):
    tensors, about = load(original)
    tensors["expect.mel.offline"] = tensors["expect.mel.offline"].T.contiguous()
    report = compare(original, save(tmp_path / "turned.safetensors", tensors, about))
    assert str(report.first) == "mel.offline, got shape [144, 128], expected shape [128, 144]"


def test_generated_tokens_may_not_end_early(original, tmp_path):
    tensors, about = load(original)
    key = "expect.tokens.hf_generate_stream"
    tensors[key] = tensors[key][:-1].contiguous()
    report = compare(original, save(tmp_path / "short.safetensors", tensors, about))
    assert report.first.stage == "tokens.hf_generate_stream"
    assert report.first.index == (len(tensors[key]),)


def test_unknown_keys_are_shown(original, tmp_path):
    tensors, about = load(original)
    tensors["expect.logit.stream"] = torch.zeros(1)
    report = compare(original, save(tmp_path / "odd.safetensors", tensors, about))
    assert report.ok and "not in the format: expect.logit.stream" in report.table()


def test_ids_of_32_bits_are_ids(original, tmp_path):
    tensors, about = load(original)
    tensors = {k: t.to(torch.int32) if ".tokens." in k else t for k, t in tensors.items()}
    assert compare(original, save(tmp_path / "narrow.safetensors", tensors, about)).ok


def test_compare_refuses_another_problem_and_an_empty_dump(original, dump, tmp_path):
    other = original.with_name("voxtral-length-39.safetensors")
    with pytest.raises(GoldenError, match=r"another problem .*num_delay_tokens is 6, expected 2"):
        compare(original, other)
    tensors, about = load(dump)
    empty = save(tmp_path / "empty.safetensors", {"logits": tensors["expect.t_cond"]}, about)
    with pytest.raises(GoldenError, match="no stage in common"):
        compare(original, empty)


def test_files_of_other_audio_or_weights_are_other_problems(original, dump, tmp_path):
    loud, quiet = (original.with_name(f"voxtral-{name}.safetensors") for name in ("loud", "quiet"))
    with pytest.raises(GoldenError, match=r"quiet.* is another problem than .*loud.*audio_i16 dif"):
        compare(loud, quiet)
    tensors, about = load(original)
    key = "weight.model.audio_tower.norm.weight"
    changed = save(tmp_path / "changed.safetensors", tensors | {key: tensors[key] * 2}, about)
    with pytest.raises(GoldenError, match=f"another problem than .*: {key} differs"):
        compare(original, changed)
    assert compare(changed, dump).ok  # a dump holds neither
    near = save(tmp_path / "near.safetensors", tensors | {key: tensors[key] * (1 + 2**-23)}, about)
    assert compare(original, near).ok


def test_settings_are_compared_as_a_port_in_fp32_writes_them(original, tmp_path):
    tensors, about = load(original)

    def with_eps(eps):
        sizes = about["encoder"] | {"eps": eps}
        return save(tmp_path / "eps.safetensors", tensors, about | {"encoder": sizes})

    assert about["encoder"]["eps"] == 1e-5
    assert compare(original, with_eps(9.999999747378752e-06)).ok
    with pytest.raises(GoldenError, match=r"another problem .*encoder\.eps is 1\.0001e-05, expect"):
        compare(original, with_eps(1.0001e-5))


def test_a_name_of_ones_own_is_no_other_problem(original, tmp_path):
    tensors, about = load(original)
    assert compare(original, save(tmp_path / "x.safetensors", tensors, about | {"name": "x"})).ok


def test_an_engine_that_stops_has_failed():
    report = against("x", {}, {}, stopped="logits at position 6 are not finite")
    assert not report.ok and report.line() == "FAIL x: logits at position 6 are not finite"


def test_check_names_weights_that_are_no_numbers(original, tmp_path):
    wrong = tmp_path / "wrong.safetensors"
    key = "weight.model.language_model.layers.1.mlp.up_proj.weight"
    bumped(original, wrong, key, (0, 0), torch.nan)
    report = check(wrong)
    assert not report.ok and "not finite" in report.stopped
    assert report.first.stage == "logits.offline" and report.first.index[0] == 0


def test_error_is_relative_to_the_largest_expected_value():
    expected = torch.tensor([[100.0, 0.0]])
    got = expected + torch.tensor([[0.0, 2e-3]])
    result = compare_stage("encoder.offline", expected, got)
    assert result.ok and result.scale == 100 and result.ratio == pytest.approx(2e-5 / 3e-5)
    assert not compare_stage("encoder.offline", expected / 200, expected / 200 + 4e-5).ok
