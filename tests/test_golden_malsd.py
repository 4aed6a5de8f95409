"""malsd golden files: the shipped ones hold; mistakes and wrong numbers are found where made."""

import copy
import json
import os
import sys
from pathlib import Path

import pytest
from rnnt_mistakes import MISTAKES, TRACE_ONLY

from vrt.golden.errors import GoldenError
from vrt.golden.malsd_answer import answer
from vrt.golden.malsd_check import check_malsd
from vrt.golden.malsd_compare import against, compare_malsd
from vrt.golden.malsd_format import problem_of, read
from vrt.golden.malsd_make import make_malsd
from vrt.golden.malsd_recipes import recipes
from vrt.golden.malsd_shipped import make_malsd_files
from vrt.golden.malsd_tables import COLLIDING
from vrt.paths import data_dir

RECIPES = {recipe.name: recipe for recipe in recipes()}


@pytest.fixture(scope="module")
def folder():
    return data_dir() / "golden"


@pytest.fixture
def many(folder):
    """A file of two utterances with merges, forced blanks and final hypotheses."""
    return json.loads((folder / "malsd-merge-many.json").read_text(encoding="utf-8"))


def expected(folder, name):
    return read(folder / f"malsd-{name}.json").expected


def save(found, path):
    path.write_text(json.dumps(found), encoding="utf-8")
    return path


def test_at_least_forty_files_and_each_has_its_recipe(folder):
    found = {path.stem for path in folder.glob("malsd-*.json")}
    assert found == RECIPES.keys() and len(found) >= 40


@pytest.mark.parametrize("name", RECIPES)
def test_vrt_gives_what_nemo_gave(folder, name, tmp_path):
    path = folder / f"{name}.json"
    report = check_malsd(path, tmp_path)
    assert report.line() == f"ok {name}.json"
    assert compare_malsd(path, tmp_path / path.name).ok


def test_each_file_says_that_nemo_made_it_from_its_recipe(folder):
    for name, recipe in RECIPES.items():
        found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        assert found["oracle"]["name"] == "nemo" and found["oracle"]["nemo"] == "3.0.0", name
        assert {key: found[key] for key in recipe.problem} == recipe.problem, name
        assert found["note"] == recipe.note, name


def test_files_without_ties_have_the_same_answer_under_the_other_rule_of_ties(folder):
    free = 0
    for name in RECIPES:
        found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        if found["tie_sensitive"]:
            assert found["stats"]["min_gap"] == 0.0, f"{name}: neither a tie nor far from one"
            continue
        free += 1
        problem = copy.deepcopy(RECIPES[name].problem)
        problem["config"]["ties"] = "lowest"
        got = answer(problem_of(problem, name))
        assert against(name, found["expected"], got).ok, name
    assert free >= 40


def test_the_list_of_files_names_each_with_what_it_is_there_for(folder):
    text = (folder / "MALSD.md").read_text(encoding="utf-8")
    for name, recipe in RECIPES.items():
        assert f"| `{name}` | {recipe.note} |" in text


CLAIMS = {
    "merge-frees-a-slot": lambda s: s["merges"] >= 10 and s["dead_slots"] >= 10,
    "merge-two-groups": lambda s: s["merges"] >= 10,
    "forced-blank": lambda s: s["forced"] >= 10,
    "forced-blank-outside-k": lambda s: s["forced"] >= 3,
    "final-not-first": lambda s: s["final_kept"] >= 2,
    "score-norm": lambda s: s["norm_flip"] == 1,
    "few-finite": lambda s: s["dead_slots"] >= 3,
    "all-dead": lambda s: s["dead_slots"] >= 2,
    "cap-none-grows": lambda s: s["iterations"] > 1,
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_file_holds_what_it_is_there_for(folder, name):
    found = json.loads((folder / f"malsd-{name}.json").read_text(encoding="utf-8"))
    assert CLAIMS[name](found["stats"]), found["stats"]


def test_two_groups_are_merged_in_one_iteration(folder):
    trace = expected(folder, "merge-two-groups")["trace"]
    assert any(len(step["recombined"][0]) >= 2 for step in trace)


def test_a_living_final_hypothesis_stands_behind_others(folder):
    trace = expected(folder, "final-not-first")["trace"]
    places = [row.index(-1) for step in trace for row in step["label"] if -1 in row]
    assert max(places) > 0


def test_a_final_hypothesis_is_lost(folder):
    found = expected(folder, "final-pruned")
    finals = [step for step in found["trace"] if -1 in step["label"][0]]
    tokens = [h["tokens"] for h in found["nbest_norm"][0]]
    assert finals and [] not in tokens


def test_the_four_fusion_modes_differ_from_one_another(folder):
    names = [f"fusion-{p}-{b}-two" for p in ("late", "early") for b in ("unscored", "weighted")]
    scores = [json.dumps(expected(folder, name)["nbest_norm"]) for name in names]
    assert len(set(scores)) == 4


def test_the_colliding_labels_collide_and_are_told_apart_on_request(folder):
    def hashed(tokens):
        value = 0
        for token in tokens:
            value = (value * 6364136223846793005 + 1 + token) % 2**64
        return value

    left, right = COLLIDING
    assert left != right and hashed(left) == hashed(right)
    assert left[-1] == right[-1] and len(left) == len(right) == 15
    problem = copy.deepcopy(RECIPES["malsd-hash-collision"].problem)
    merged = expected(folder, "hash-collision")["nbest_norm"][0]
    assert [h["tokens"] for h in merged].count(list(right)) == 0
    problem["config"]["collisions"] = "verify"
    got = answer(problem_of(problem, "x"))
    tokens = [h["tokens"] for h in got["nbest_norm"][0]]
    assert sorted(tokens) == sorted(map(list, COLLIDING))


def test_an_answer_where_nemo_fails_is_said_in_the_line(folder, tmp_path):
    found = json.loads((folder / "malsd-zero-length-error.json").read_text(encoding="utf-8"))
    found["config"]["zero_length"] = "empty"
    report = check_malsd(save(found, tmp_path / "x.json"))
    assert report.ok and "deliberately" in report.line() and "zero_length" in report.line()


def test_files_made_elsewhere_hold(repo_root, tmp_path):
    named = os.environ.get("VRT_SHARED")
    place = (Path(named) if named else repo_root.parent / "shared") / "design" / "examples"
    files = sorted(place.glob("malsd-*.json"))
    if not files:
        assert not named, f"VRT_SHARED names a folder without {place}"
        pytest.skip(f"no examples in {place}; set VRT_SHARED to a folder that has them")
    for file in files:
        assert check_malsd(file, tmp_path).line() == f"ok {file.name}"
        assert compare_malsd(file, tmp_path / file.name).ok


def test_files_are_made_by_name(tmp_path, folder):
    names = ["malsd-merge-sums", "malsd-tie-all"]
    made = list(make_malsd_files(tmp_path / "new", "vrt", names))
    assert [path.stem for path in made] == names
    for path in made:
        assert compare_malsd(folder / path.name, path).ok
    with pytest.raises(GoldenError, match="no malsd problem is called malsd-x; there are malsd-"):
        list(make_malsd_files(tmp_path, "vrt", ["malsd-x"]))


def test_an_oracle_that_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vrt.oracle.nemo", None)
    monkeypatch.delattr("vrt.oracle.nemo", raising=False)  # where another test has imported it
    with pytest.raises(GoldenError, match=r"the oracle `nemo` needs NeMo .* pip install 'vrt"):
        list(make_malsd_files(tmp_path, "nemo", ["malsd-merge-sums"]))


# --- mistakes made on purpose


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_caught_by_the_file_that_is_there_for_it(folder, mistake, monkeypatch):
    name = f"malsd-{MISTAKES[mistake]}"
    mistake(monkeypatch)
    assert not check_malsd(folder / f"{name}.json").ok
    got = answer(problem_of(RECIPES[name].problem, name))
    results = {key: got.get(key) for key in ("nbest_norm", "nbest_raw", "error")}
    hidden = against("", read(folder / f"{name}.json").expected, results).ok
    assert hidden is (mistake in TRACE_ONLY)


# --- comparing


def one_wrong(many, place, value):
    found = copy.deepcopy(many)
    spot = found["expected"]
    for key in place[:-1]:
        spot = spot[key]
    spot[place[-1]] = value
    return found


@pytest.mark.parametrize(
    ("place", "value", "stage", "index"),
    [
        (("trace", 3, "parent", 0, 1), 2, "trace.parent", (3, 0, 1)),
        (("trace", 3, "label", 1, 0), 3, "trace.label", (3, 1, 0)),
        (("trace", 2, "score", 0, 0), -1.0, "trace.score", (2, 0, 0)),
        (("trace", 2, "score_pruned", 0, 0), "-inf", "trace.score_pruned", (2, 0, 0)),
        (("trace", 2, "score_pruned", 0, 0), "nan", "trace.score_pruned", (2, 0, 0)),
        (("trace", 5, "symbols_at_time", 1, 0), 9, "trace.symbols_at_time", (5, 1, 0)),
        (("trace", 4, "hash", 0, 0), "12", "trace.hash", (4, 0, 0)),
        (("trace", 4, "time_index", 0, 0), 7, "trace.time_index", (4, 0, 0)),
        (("trace", 4, "active", 0, 0), 0, "trace.active", (4, 0, 0)),
        (("trace", 4, "parent", 0, 0), None, "trace.parent", (4, 0, 0)),
        (("nbest_norm", 1, 0, "timestamps", 0), 5, "nbest_norm", (1, 0)),
        (("nbest_raw", 0, 1, "score"), 0.5, "nbest_raw", (0, 1)),
        (("best_norm", 0, "tokens", 0), 99, "best_norm", (0,)),
        (("best_raw", 0), None, "best_raw", (0,)),
    ],
)
def test_a_wrong_number_is_found_where_it_is(many, tmp_path, place, value, stage, index):
    left = save(many, tmp_path / "a.json")
    right = save(one_wrong(many, place, value), tmp_path / "b.json")
    report = compare_malsd(left, right)
    assert not report.ok and report.first.stage == stage and report.first.index == index
    assert report.line().startswith(f"FAIL b.json: first divergence: {stage}, [")


def test_the_earliest_of_several_differences_comes_first(many, tmp_path):
    found = one_wrong(many, ("nbest_norm", 0, 0, "score"), 1.0)
    found = one_wrong(found, ("trace", 6, "parent", 0, 0), 9)
    found = one_wrong(found, ("trace", 4, "active", 0, 0), 0)
    report = compare_malsd(save(many, tmp_path / "a.json"), save(found, tmp_path / "b.json"))
    assert report.first.stage == "trace.active"
    failed = [stage.stage for stage in report.stages if not stage.ok]
    assert failed == ["trace.parent", "trace.active", "nbest_norm"]
    assert report.table().count("FAIL") == 3


@pytest.mark.parametrize(("shift", "ok"), [(1.9e-4, True), (2.1e-4, False)])
def test_scores_may_be_off_by_the_tolerance(many, shift, ok):
    score = many["expected"]["trace"][3]["score"][0][0]
    found = one_wrong(many, ("trace", 3, "score", 0, 0), score + shift)
    assert against("", many["expected"], found["expected"]).ok is ok


def dead_slots(many):
    for i, step in enumerate(many["expected"]["trace"]):
        for b, row in enumerate(step["alive"]):
            for k, alive in enumerate(row):
                if not alive:
                    yield i, b, k


def test_what_dead_slots_hold_is_free(many):
    found = copy.deepcopy(many)
    slots = list(dead_slots(many))
    assert slots
    for i, b, k in slots:
        step = found["expected"]["trace"][i]
        for name in ("last_label", "symbols_at_time", "time_index", "next_timestamp"):
            step[name][b][k] = 77
        step["hash"][b][k] = "77"
        if step["score_pruned"][b][k] == "-inf":
            step["parent"][b][k] = step["label"][b][k] = 7
        if i + 1 < len(found["expected"]["trace"]):
            found["expected"]["trace"][i + 1]["forced_blank_parent"][b][k] ^= 1
    assert against("", many["expected"], found["expected"]).ok


def test_a_dead_slot_that_lives_is_not_free(many):
    i, b, k = next(dead_slots(many))
    found = one_wrong(many, ("trace", i, "score", b, k), -3.0)
    assert not against("", many["expected"], found["expected"]).ok


def test_an_engine_may_stop_when_no_living_slot_is_active_and_not_before(folder):
    whole = expected(folder, "few-finite")
    alive = [
        any(a and b for a, b in zip(step["alive"][0], step["active"][0], strict=True))
        for step in whole["trace"]
    ]
    last = max(i for i, going in enumerate(alive) if going) + 2  # iterations that are needed
    longer = copy.deepcopy(whole)
    longer["trace"] += [copy.deepcopy(whole["trace"][-1])]
    assert against("", longer, whole).ok and against("", whole, longer).ok
    short = copy.deepcopy(whole)
    short["trace"] = short["trace"][: last - 1]
    report = against("", whole, short)
    assert report.first.stage == "trace.iterations"
    assert (report.first.got, report.first.expected) == (last - 1, len(whole["trace"]))


def test_order_of_merged_groups_is_free_and_their_members_are_not(many):
    i, b = next(
        (i, b)
        for i, step in enumerate(many["expected"]["trace"])
        for b, groups in enumerate(step["recombined"])
        if groups
    )
    found = copy.deepcopy(many)
    groups = found["expected"]["trace"][i]["recombined"][b]
    groups[0]["slots"].reverse()
    assert against("", many["expected"], found["expected"]).ok
    groups[0]["kept"] = [3]
    report = against("", many["expected"], found["expected"])
    assert report.first.stage == "trace.recombined" and report.first.index == (i, b)


def test_a_signed_hash_is_the_same_hash(many):
    found = copy.deepcopy(many)
    for step in found["expected"]["trace"]:
        step["hash"] = [
            [str(int(h) - 2**64 if int(h) >= 2**63 else h) for h in row] for row in step["hash"]
        ]
    assert found != many
    assert against("", many["expected"], found["expected"]).ok


def test_a_dump_may_lack_stages(many, tmp_path):
    dump = {"name": many["name"], "expected": {"nbest_norm": many["expected"]["nbest_norm"]}}
    report = compare_malsd(save(many, tmp_path / "a.json"), save(dump, tmp_path / "b.json"))
    assert report.ok and {"trace.parent", "best_raw", "error"} <= set(report.absent)
    partial = copy.deepcopy(many)
    for step in partial["expected"]["trace"]:
        del step["hash"], step["recombined"]
    report = compare_malsd(tmp_path / "a.json", save(partial, tmp_path / "b.json"))
    assert report.ok and set(report.absent) == {"trace.hash", "trace.recombined"}


def test_fewer_hypotheses_or_utterances_are_a_difference(many):
    for place in (("nbest_norm", 0), ("nbest_norm",)):
        found = copy.deepcopy(many)
        spot = found["expected"]
        for key in place:
            spot = spot[key]
        spot.pop()
        report = against("", many["expected"], found["expected"])
        assert report.first.stage == "nbest_norm" and report.first.index == place[1:]


def test_an_array_of_another_shape_is_a_difference(many):
    found = copy.deepcopy(many)
    found["expected"]["trace"][2]["parent"][0].pop()
    report = against("", many["expected"], found["expected"])
    assert report.first.stage == "trace.parent" and "shape" in str(report.first.got)


@pytest.mark.parametrize(("ours", "theirs"), [("boom", None), (None, "boom")])
def test_an_error_on_one_side_only_is_a_difference(many, ours, theirs):
    left, right = {**many["expected"], "error": ours}, {**many["expected"], "error": theirs}
    report = against("", left, right)
    assert report.first.stage == "error"
    assert against("", left, {**left, "error": ours and "other words"}).ok


def test_a_dump_of_another_problem_is_refused(many, tmp_path):
    other = copy.deepcopy(many)
    other["config"]["beam_size"] = 2
    with pytest.raises(GoldenError, match="another problem"):
        compare_malsd(save(many, tmp_path / "a.json"), save(other, tmp_path / "b.json"))


def test_nothing_in_common_is_refused(many, tmp_path):
    with pytest.raises(GoldenError, match="no stage in common"):
        compare_malsd(save(many, tmp_path / "a.json"), save({"expected": {}}, tmp_path / "b.json"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "truncated, or not JSON"),
        ('{"expected": ', "truncated, or not JSON"),
        ("[]", "not a malsd golden file"),
        ('{"format": 2, "expected": {}}', "not a malsd golden file"),
        ('{"config": {}}', "lacks the object `expected`"),
        ('{"expected": {"trace": 3}}', "trace must be a list"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path, text, message):
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(GoldenError, match=message):
        check_malsd(path)
    with pytest.raises(GoldenError, match=r"missing\.json"):
        check_malsd(tmp_path / "missing.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.pop("config"), "lacks 'config'"),
        (lambda f: f["config"].pop("beam_size"), "lacks 'beam_size'"),
        (lambda f: f["config"].update(beam_size=0), "beam_size must be at least 1"),
        (lambda f: f["scorer"].update(mode="probs"), "must be logprob or logits"),
        (lambda f: f["scorer"].update(default_row=[0.0]), "a row holds 1 scores"),
        (lambda f: f["scorer"]["formula"].update(sead=1), "sead"),
        (lambda f: f.update(fusion={"models": [{"seed": 1}]}), "lacks 'pruning_mode'"),
    ],
)
def test_a_problem_that_makes_no_sense_is_refused(many, tmp_path, change, message):
    change(many)
    with pytest.raises(GoldenError, match=message):
        check_malsd(save(many, tmp_path / "x.json"))


def test_a_mangled_answer_is_refused_by_name(many, tmp_path):
    left = save(many, tmp_path / "a.json")
    many["expected"]["trace"][0]["recombined"] = [3]
    with pytest.raises(GoldenError, match="not as the format has it"):
        compare_malsd(left, save(many, tmp_path / "b.json"))


def test_a_dump_does_not_overwrite_its_input(folder):
    path = folder / "malsd-tie-all.json"
    with pytest.raises(GoldenError, match="would overwrite"):
        check_malsd(path, folder)


def test_vrt_as_oracle_writes_a_file_that_holds(tmp_path):
    recipe = RECIPES["malsd-merge-many"]
    about = make_malsd(tmp_path / "x.json", recipe, "vrt")
    assert about["oracle"]["name"] == "vrt" and not about["tie_sensitive"]
    assert check_malsd(tmp_path / "x.json").ok
