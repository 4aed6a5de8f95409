"""Batches: what a run is known by, what is done again, and a worker that is killed mid-way."""

import csv
import json
import os
import signal
import time
from dataclasses import replace
from importlib.util import find_spec

import nbformat
import pytest
from commands import fails, run
from lab_notebooks import CHECK, write_notebook

import vrt.lab.batch
from vrt.lab.batch import Done, jobs_for, run_batch
from vrt.lab.batch_engines import on_cluster
from vrt.lab.batch_report import as_csv, as_text, batch_chart, rows_of
from vrt.lab.checks import Check
from vrt.lab.grids import axis, combined, table
from vrt.lab.notebooks import NotebookError
from vrt.lab.parameters import parameters_of
from vrt.lab.runner import Failure, Outcome, read_notebook
from vrt.receipt import Receipt

pytestmark = pytest.mark.skipif(not find_spec("papermill"), reason="papermill is not installed")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def file(here):
    return write_notebook(here / "03-good.ipynb", "print(beam)")


@pytest.fixture
def known(file):
    return parameters_of(read_notebook(file))


# --- grids and files --------------------------------------------------------------------------


def test_every_combination_the_last_axis_fastest(known):
    axes = [axis(known, "beam", "1,4"), axis(known, "fast", "true,false")]
    assert combined(axes) == [{"beam": b, "fast": f} for b in (1, 4) for f in (True, False)]
    assert combined([]) == [{}]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", 'beam,name\n1,"a, b"\n4,none\n'),
        ("a.tsv", "beam\tname\n1\ta, b\n4\tnone\n"),
        ("a.jsonl", '{"beam": 1, "name": "a, b"}\n{"beam": 4, "name": null}\n'),
    ],
)
def test_lines_of_a_file(here, known, name, text):
    (here / name).write_text(text)
    assert table(known, here / name) == [{"beam": 1, "name": "a, b"}, {"beam": 4, "name": None}]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.csv", "beam,nam\n1,a\n", "a.csv, line 2: no parameter 'nam' .did you mean name"),
        ("a.csv", "beam\n1\nx\n", "a.csv, line 3: beam takes int, got 'x'"),
        ("a.csv", "beam,name\n1\n", "a.csv, line 2: as many values as names"),
        ("a.csv", "beam\n1,2\n", "a.csv, line 2: as many values as names"),
        ("a.csv", "beam\n", "a.csv has no lines"),
        ("a.jsonl", '{"beam": "1"}\n', "a.jsonl, line 1: beam takes int, got '1'"),
        ("a.jsonl", "{\n", "a.jsonl, line 1 is not JSON"),
        ("a.jsonl", "[1]\n", "a.jsonl, line 1 is no JSON object"),
        ("a.txt", "", "a.txt is none of .csv, .tsv, .jsonl"),
        ("b.csv", None, "b.csv cannot be read"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_its_line(here, known, name, text, why):
    if text is not None:
        (here / name).write_text(text)
    with pytest.raises(NotebookError, match=why):
        table(known, here / name)


def test_one_parameter_from_two_sides_is_refused(known):
    with pytest.raises(NotebookError, match="beam is given twice"):
        combined([[{"beam": 1}], axis(known, "beam", "1,2")])
    with pytest.raises(NotebookError, match="rates is a list"):
        axis(known, "rates", "1,2")


# --- digests ----------------------------------------------------------------------------------


def digest_of(file, **parameters):
    (job,) = jobs_for(file, [parameters])
    return job.digest


def test_a_run_is_known_by_code_parameters_and_version(here, file, monkeypatch):
    same = digest_of(file, beam=4)
    assert digest_of(write_notebook(here / "b.ipynb", "print(beam)"), beam=4) == same
    other = write_notebook(here / "c.ipynb", "print(beam + 1)")
    assert len({same, digest_of(other, beam=4), digest_of(file, beam=5), digest_of(file)}) == 4
    monkeypatch.setattr(vrt.lab.batch, "__version__", "9")
    assert digest_of(file, beam=4) != same


def test_outputs_and_prose_are_no_part_of_a_run(here, file):
    notebook = read_notebook(file)
    notebook["cells"][0]["source"] = "# Otherwise"
    notebook["cells"][2]["outputs"] = [nbformat.v4.new_output("stream", text="4\n")]
    nbformat.write(notebook, here / "b.ipynb")
    assert digest_of(here / "b.ipynb", beam=4) == digest_of(file, beam=4)
    (job,) = jobs_for(here / "b.ipynb", [{}])
    assert b'"4\\n"' not in job.content
    assert len(jobs_for(file, [{"beam": 1}, {"beam": 2}, {"beam": 1}])) == 2


# --- what is done, kept and done again; without kernels ----------------------------------------


def done(job, ok=True, failure=None, **values):
    outcome = Outcome(
        job.notebook, job.parameters, (Check("c", ok),), values, failure, "{}\n", (), 0.5
    )
    numbers = {"checks": [{"claim": "c", "ok": ok, "detail": ""}], "values": values}
    receipt = Receipt.begin(job.parameters, command="x").end(numbers, {"run": job.digest})
    return Done(vrt.__version__, outcome, receipt)


class Engine:
    """Answers from a dict by beam; remembers what it was asked."""

    def __init__(self, **special):
        self.special, self.asked = special, []

    def __call__(self, jobs):
        for job in jobs:
            beam = job.parameters["beam"]
            self.asked.append(beam)
            special = self.special.get(f"b{beam}")
            yield job, special(job) if special else done(job, work=2 * beam)


def batch_of(file, engine, *beams):
    told = []
    jobs = jobs_for(file, [{"beam": b} for b in beams])
    results = run_batch(jobs, file.parent / "out", engine, told.append)
    assert len(told) == len(results) == len(beams)
    assert [r.job.parameters["beam"] for r in results] == list(beams)
    return results


def test_what_has_its_receipt_is_not_done_again(file):
    first = Engine()
    assert all(r.ok and r.fresh for r in batch_of(file, first, 1, 2))
    second = Engine()
    results = batch_of(file, second, 3, 2, 1)
    assert second.asked == [3]
    assert [(r.fresh, r.receipt.numbers["values"]) for r in results] == [
        *((True, {"work": 6}), (False, {"work": 4}), (False, {"work": 2})),
    ]


def test_failures_are_kept_told_and_tried_again(file):
    bad = Failure("cell", 2, "f()", "ValueError: no")
    engine = Engine(
        b1=lambda j: done(j, failure=bad),
        b2=lambda j: RuntimeError("worker died\n4 times"),
        b3=lambda j: done(j, ok=False),
        b4=lambda j: replace(done(j), version="0.0"),
    )
    results = batch_of(file, engine, 1, 2, 3, 4, 5)
    kept = sorted(p.name for p in (file.parent / "out").glob("*.failed.ipynb"))
    assert [r.failure for r in results] == [
        f"cell 2 (f()): ValueError: no -> {kept[0]}",
        "RuntimeError: worker died",
        None,
        f"its worker has vrt 0.0, this is {vrt.__version__}",
        None,
    ]
    assert [r.ok for r in results] == [False, False, False, False, True]
    assert results[2].failed_checks == ["c"] and len(kept) == 1
    again = Engine()
    results = batch_of(file, again, 1, 2, 3, 4, 5)
    assert again.asked == [1, 2, 4]  # a check that fails is a result
    assert [r.ok for r in results] == [True, True, False, True, True]
    assert not list((file.parent / "out").glob("*.failed.ipynb"))


def test_a_damaged_receipt_or_a_missing_notebook_counts_as_not_done(file):
    batch_of(file, Engine(), 1, 2, 3)
    out = file.parent / "out"
    one, two, _ = (job.stem for job in jobs_for(file, [{"beam": b} for b in (1, 2, 3)]))
    receipt = out / f"{one}.json"
    receipt.write_text(receipt.read_text().replace('"work": 2', '"work": 3'))
    (out / f"{two}.ipynb").unlink()
    engine = Engine()
    batch_of(file, engine, 1, 2, 3)
    assert engine.asked == [1, 2]
    assert Receipt.load(receipt).numbers["values"] == {"work": 2}


def test_a_second_answer_is_ignored_and_stopping_loses_only_what_is_under_way(file):
    def stops(jobs):
        yield jobs[0], done(jobs[0], work=1)
        yield jobs[0], done(jobs[0], work=99)
        raise KeyboardInterrupt

    jobs = jobs_for(file, [{"beam": b} for b in (1, 2)])
    with pytest.raises(KeyboardInterrupt):
        run_batch(jobs, file.parent / "out", stops, lambda r: None)
    engine = Engine()
    results = batch_of(file, engine, 1, 2)
    assert engine.asked == [2] and results[0].receipt.numbers["values"] == {"work": 1}


def test_two_batches_in_one_folder_are_refused(file):
    def nested(jobs):
        with pytest.raises(NotebookError, match="another vrt batch works in"):
            batch_of(file, Engine(), 1)
        yield jobs[0], done(jobs[0])

    batch_of(file, nested, 1)


# --- the report -------------------------------------------------------------------------------


def test_table_and_chart(file):
    pytest.importorskip("altair")
    engine = Engine(b3=lambda j: RuntimeError("no"), b4=lambda j: done(j, ok=False, wer=0.5))
    rows = rows_of(batch_of(file, engine, 1, 3, 4))
    assert [(r["beam"], r["status"], r["work"], r["wer"]) for r in rows] == [
        (1, "ok", 2, None),
        (3, "failed: RuntimeError: no", None, None),
        (4, "1 checks fail: c", None, 0.5),
    ]
    read = list(csv.DictReader(as_csv(rows).splitlines()))
    assert [r["work"] for r in read] == ["2", "", ""]
    assert as_text(rows).splitlines()[0].split() == ["run", "beam", "status", "work", "wer"]
    points = batch_chart(rows, ["beam"]).to_dict()["data"]["values"]
    assert sorted((p["at"], p["name"], p["mean"]) for p in points) == [
        *((1, "work", 2), (4, "wer", 0.5)),
    ]
    assert batch_chart(rows[:1], ["beam"]) is None  # nothing varies
    assert batch_chart([{**r, "work": None, "wer": None} for r in rows], ["beam"]) is None


def test_a_chart_lies_along_the_numbers_and_averages_the_clips():
    pytest.importorskip("altair")
    rows = [
        {
            "run": f"{clip}{beam}",
            "clip": f"{clip}.wav",
            "beam": beam,
            "status": "ok",
            "right": right,
        }
        for clip in range(7)
        for beam, right in ((1, clip % 2), (4, 1))
    ]
    spec = batch_chart(rows, ["clip", "beam"]).to_dict()
    points = spec["data"]["values"]
    assert {(p["at"], p["mean"], p["runs"]) for p in points} == {(1, 3 / 7, 7), (4, 1.0, 7)}
    assert "color" not in json.dumps(spec)  # seven clips are too many for colours
    few = batch_chart(rows[:6], ["clip", "beam"]).to_dict()
    assert {p["by"] for p in few["data"]["values"]} == {"0.wav", "1.wav", "2.wav"}
    assert {"color", "shape"} < few["spec"]["layer"][1]["encoding"].keys()


# --- with kernels -----------------------------------------------------------------------------

RECORDS = (
    CHECK + "from vrt.lab import record\nif beam == 3 and not fast:\n    raise ValueError('odd')",
    "record({'work': beam * 2, 'share': beam / 3})\ncheck('small', beam < 9)",
)


def test_vrt_batch_from_start_to_end_and_again(here):
    file = write_notebook(here / "03-good.ipynb", *RECORDS)
    result = run("batch", file, "--grid", "beam=2,3", "-o", "out")
    assert result.exit_code == 1
    assert "beam=3: cell 3 (from vrt.lab import check): ValueError: odd" in result.stderr
    assert "2 runs, 0 done before, 1 failed -> out" in result.stdout
    read = list(csv.DictReader((here / "out" / "summary.csv").open()))
    assert [(r["beam"], r["work"], r["share"]) for r in read] == [
        *(("2", "4", "0.6666667"), ("3", "", "")),
    ]
    (receipt,) = (Receipt.load(p) for p in (here / "out").glob("*.json"))
    assert receipt.parameters == {"notebook": "03-good", "beam": 2}
    assert receipt.numbers["checks"] == [{"claim": "small", "ok": True, "detail": ""}]
    write_notebook(file, *RECORDS)  # the same code
    again = run("batch", file, "--grid", "beam=2", "-o", "out")
    assert again.exit_code == 0 and "1 runs, 1 done before, 0 failed" in again.stdout


def test_refused(here, file):
    fails(run("batch", file, "--grid", "beem=1"), 1, "no parameter 'beem'")
    fails(run("batch", file, "--grid", "beam"), 2, "'beam' is not KEY=VALUE")
    fails(run("batch", file, "--workers", "2", "--dask", "tcp://x"), 2, "exclude each other")
    fails(run("batch", file, "-o", file), 2, "is a file; name a folder")
    fails(run("batch", file, "--over", "none.csv"), 1, "none.csv cannot be read")


# --- a real cluster ---------------------------------------------------------------------------

# Each run writes down that it began and that it ended; the first one to begin waits to be killed.
LOGGED = (
    "import os, time\nfrom pathlib import Path\nlog = Path(name)\n"
    "log.joinpath(f'begun-{beam}-{os.getpid()}').write_text(str(os.getppid()))\n"
    "while beam == 1 and not log.joinpath('go').exists():\n    time.sleep(0.05)\n"
    "log.joinpath(f'ended-{beam}-{os.getpid()}').touch()",
    "from vrt.lab import record\nrecord({'work': beam})",
)


def waited(condition, seconds=300):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)
    return found


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = f"/proc/{pid}/stat"
    return os.path.exists(stat) and ") Z " in open(stat).read()


def test_a_worker_killed_mid_way_loses_nothing_and_nothing_is_done_twice(here):
    distributed = pytest.importorskip("distributed")
    file = write_notebook(here / "03-log.ipynb", *LOGGED)
    log = here / "log"
    log.mkdir()
    jobs = jobs_for(file, [{"beam": b, "name": str(log)} for b in (1, 2, 3, 4)])
    told = []

    def tell(result):
        """Two are done while the first still waits: now its worker is killed."""
        told.append(result.job.parameters["beam"])
        if len(told) == 2:
            (begun,) = log.glob("begun-1-*")
            kernel, worker = int(begun.name.split("-")[2]), int(begun.read_text())
            os.kill(worker, signal.SIGKILL)
            waited(lambda: gone(kernel))  # a kernel does not outlive its worker
            (log / "go").touch()

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        results = run_batch(jobs, here / "out", on_cluster(client), tell)
        assert [r.failure for r in results] == [None] * 4
        assert [r.receipt.numbers["values"] for r in results] == [{"work": b} for b in (1, 2, 3, 4)]
        again = run_batch(jobs, here / "out", on_cluster(client), lambda r: None)
        assert not any(r.fresh for r in again)
        over_network = run(
            *("batch", file, "--grid", "beam=4", "-p", f"name={log}", "-o", "out"),
            *("--dask", cluster.scheduler_address),
        )
        assert "1 runs, 1 done before, 0 failed" in over_network.stdout
    assert sorted(told) == [1, 2, 3, 4]
    begun = sorted(p.name.split("-")[1] for p in log.glob("begun-*"))
    ended = sorted(p.name.split("-")[1] for p in log.glob("ended-*"))
    assert ended == ["1", "2", "3", "4"]
    assert begun == ["1", "1", "2", "3", "4"]  # only what was under way was begun anew
    assert len(list((here / "out").glob("*.json"))) == 4
    assert json.loads(next((here / "out").glob("*.json")).read_text())["digests"]["run"]


def test_workers_of_this_machine(here):
    pytest.importorskip("distributed")
    file = write_notebook(here / "03-good.ipynb", *RECORDS)
    result = run("batch", file, "--grid", "beam=2,4", "--workers", "2", "-o", "out")
    assert result.exit_code == 0, result.output
    assert "2 runs, 0 done before, 0 failed" in result.stdout
