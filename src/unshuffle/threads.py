"""Independent work in threads, with the same results for any number of threads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from threading import Event
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Pieces of work for each thread, to balance their loads.
_PIECES = 4


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads of `n_jobs`, as joblib counts.

    joblib is not imported for one job, unless the caller may have set `joblib.parallel_config`.
    """
    if n_jobs in (None, 1) and "joblib" not in sys.modules:
        return 1
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))


def run_all(
    run: Callable[[Item, Event], Result], items: Sequence[Item], n_jobs: int | None
) -> list[Result]:
    """Return the results of all items, computed in threads; an error in one ends all.

    `run` gets an event that is set once results are no longer needed.
    """
    stop = Event()
    n_threads = min(count_threads(n_jobs), len(items))
    if n_threads <= 1:
        return [run(item, stop) for item in items]
    with ThreadPoolExecutor(n_threads) as pool:
        # Leaving the pool waits for its threads, which end once `stop` is set.
        try:
            futures = [pool.submit(run, item, stop) for item in items]
            # The first error is raised here: once `stop` is set, other runs end early and may fail.
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
    """Return the function of every item in order; a thread gets many items at a time."""

    def run(piece: Sequence[Item], stop: Event) -> list[Result]:
        return [function(item) for item in piece if not stop.is_set()]

    n_threads = count_threads(n_jobs)
    if n_threads <= 1 or len(items) <= 1:
        return [function(item) for item in items]
    size = -(-len(items) // (_PIECES * n_threads))
    pieces = [items[k : k + size] for k in range(0, len(items), size)]
    return [result for piece in run_all(run, pieces, n_jobs) for result in piece]
