"""Independent pieces of work in threads: the same results for any number, and one end for all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Pieces a thread: enough that the last ones end together, few enough that handing out is free.
_PIECES = 4
# Where Linux says how much of its processors a container may use.
_QUOTAS = ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us")


def count_threads(n_jobs: int | None) -> int:
    """Return how many threads so many jobs are: what joblib says.

    To import it takes as long as reading a hundred thousand rows, so that it is asked only where
    its answer could be another than the plain one.
    """
    found = None if "joblib" in sys.modules else count_plainly(n_jobs)
    if found is not None:
        return found
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))


def count_plainly(n_jobs: int | None) -> int | None:
    """Return how many threads so many jobs are; None where joblib may know better.

    It does where a variable, a container or a parent process has a say.
    """
    processes = sys.modules.get("multiprocessing.process")
    if n_jobs == 0 or (processes is not None and processes.parent_process() is not None):
        return None
    if n_jobs is None or n_jobs > 0:
        return n_jobs or 1
    if "LOKY_MAX_CPU_COUNT" in os.environ or not hasattr(os, "sched_getaffinity"):
        return None
    for path in map(Path, _QUOTAS):
        if path.exists() and path.read_text().split()[:1] not in (["max"], ["-1"]):
            return None
    return max(1, len(os.sched_getaffinity(0)) + 1 + n_jobs)


def run_all(
    run: Callable[[Item, Event], Result], items: Sequence[Item], n_jobs: int | None
) -> list[Result]:
    """Run every item, in threads where asked; an error or interrupt in one ends them all.

    `run` is given an event: once it is set nobody waits for the result, which may be anything.
    """
    stop = Event()
    n_threads = min(count_threads(n_jobs), len(items))
    if n_threads <= 1:
        return [run(item, stop) for item in items]
    with ThreadPoolExecutor(n_threads) as pool:
        # Leaving the pool waits for its threads, which `stop` lets go.
        try:
            futures = [pool.submit(run, item, stop) for item in items]
            # The first error is raised here: once `stop` is set, the other runs end unfinished and
            # may fail on what they have.
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()
        finally:
            stop.set()
            for future in futures:
                future.cancel()
    return [future.result() for future in futures]


def map_all(
    function: Callable[[Item], Result], items: Sequence[Item], n_jobs: int | None
) -> list[Result]:
    """Return the function of every item, in order; a thread gets many items at a time."""

    def run(piece: Sequence[Item], stop: Event) -> list[Result]:
        return [function(item) for item in piece if not stop.is_set()]

    n_threads = count_threads(n_jobs)
    if n_threads <= 1 or len(items) <= 1:
        return [function(item) for item in items]
    size = -(-len(items) // (_PIECES * n_threads))
    pieces = [items[k : k + size] for k in range(0, len(items), size)]
    return [result for piece in run_all(run, pieces, n_jobs) for result in piece]
