"""Where the jobs of a batch run: one after another here, or on the workers of a Dask cluster."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vrt.lab.batch import Done, Engine, Job, do
from vrt.lab.notebooks import NotebookError

if TYPE_CHECKING:
    from distributed import Client

CONNECT = "10s"  # how long a scheduler may take to answer


def one_by_one(jobs: Sequence[Job]) -> Iterator[tuple[Job, Done | Exception]]:
    """In this process, in order."""
    for job in jobs:
        try:
            yield job, do(job)
        except Exception as error:
            yield job, error


def on_cluster(client: "Client") -> Engine:
    """On the workers of `client`, each result as soon as it is there.

    A job is known to the scheduler by its digest, so that the same job asked for twice runs once.
    When a worker dies, what it was doing is done by another; a job that kills its worker again and
    again comes back as an error (`distributed.scheduler.allowed-failures`).
    """
    from distributed import as_completed

    def run(jobs: Sequence[Job]) -> Iterator[tuple[Job, Done | Exception]]:
        futures = {client.submit(do, job, key=f"vrt-{job.digest}"): job for job in jobs}
        for future in as_completed(list(futures)):
            job = futures.pop(future)
            error = future.exception()
            yield job, future.result() if error is None else error
            future.release()  # the worker may forget it

    return run


@contextmanager
def local_cluster(workers: int) -> Iterator["Client"]:
    """`workers` processes of one thread each on this machine, gone afterwards."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@contextmanager
def cluster_at(address: str) -> Iterator["Client"]:
    """The scheduler at `address`, which stays; `NotebookError` if it does not answer."""
    from distributed import Client

    try:
        client = Client(address, timeout=CONNECT)
    except (OSError, ValueError) as error:
        raise NotebookError(f"no Dask scheduler answers at {address}: {error}") from error
    with client:
        yield client
