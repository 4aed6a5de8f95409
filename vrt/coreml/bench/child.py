"""`python -m vrt.coreml.bench.child FOLDER`: one job of a sweep, whose end may be any end."""

import sys
import traceback
from pathlib import Path

from vrt.coreml.bench.jobs import ANSWERS, INPUTS, JOB, REPORT, Job
from vrt.coreml.bench.measure import Report, load_steps, measure
from vrt.coreml.bench.runtimes import open_runtime
from vrt.coreml.errors import CoreMLError


def main(folder: Path) -> int:
    """Exit code; `folder` has the job and its inputs, and gets the report and the answers."""
    report = Report(folder / REPORT)
    try:
        job = Job.read(folder / JOB)
        runtime = open_runtime(job, folder)
        measure(runtime, load_steps(folder / INPUTS), job.calls, report, folder / ANSWERS)
    except CoreMLError as error:
        report.failed(str(error))
        return 1
    except Exception as error:  # coremltools raises bare ones; what it was is a result
        traceback.print_exc()
        report.failed(f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
