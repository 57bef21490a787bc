"""A cluster of Dask for as long as a fit takes: one of one's own, or one that is running."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from joblib import effective_n_jobs

from unshuffle.errors import InputError, import_extra, quote, shorten

LOCAL = "local"
# Seconds that a scheduler has to answer: it takes one where it is there at all.
_PATIENCE = 10


@contextmanager
def connect(address: str, n_jobs: int | None = None) -> Iterator[Any]:
    """Yield the client of a scheduler, or of workers on this machine where the address is "local".

    Own workers are processes of one thread, as many as `n_jobs` says, or as there are processors.
    """
    distributed = import_extra("distributed", "dask", "--dask")
    # Ends of connections are no news to who asked for a fit; what goes wrong is raised.
    for name in ("distributed", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        if address == LOCAL:
            n_workers = effective_n_jobs(-1 if n_jobs is None else n_jobs)
            with _keep_interrupts():
                cluster = distributed.LocalCluster(
                    n_workers=n_workers, threads_per_worker=1, dashboard_address=None,
                    silence_logs=logging.CRITICAL,
                )  # fmt: skip
            address = stack.enter_context(cluster)
        try:
            client = distributed.Client(address, timeout=_PATIENCE)
        except (OSError, ValueError) as exc:
            raise InputError(
                f"no scheduler of Dask answers at {quote(address)} ({shorten(exc, 80)}): start one "
                "with 'dask scheduler' and name its address, such as tcp://host:8786, or give "
                f"--dask {LOCAL}"
            ) from exc
        yield stack.enter_context(client)


@contextmanager
def _keep_interrupts() -> Iterator[None]:
    """Hear of Ctrl-C afterwards only; processes and threads that are started meanwhile never do.

    A terminal interrupts all processes of a command at once, and every worker would print where it
    was. This process ends them.
    """
    if os.name != "posix":
        yield
        return
    _start_tracker()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_tracker() -> None:
    """Start what clears up behind processes, before others do: starting it lets interrupts through.

    After an interrupt there is something left to clear up, which it is to do in silence.
    """
    from multiprocessing import resource_tracker

    name = "PYTHONWARNINGS"
    before = os.environ.get(name)
    os.environ[name] = "ignore:resource_tracker:UserWarning" + (f",{before}" if before else "")
    try:
        resource_tracker.ensure_running()
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
