"""Connection to a Dask cluster during a fit: local workers, or a running scheduler."""

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
# Timeout in seconds for the answer of a scheduler.
_PATIENCE = 10


@contextmanager
def connect(address: str, n_jobs: int | None = None) -> Iterator[Any]:
    """Yield the client of a scheduler, or of workers on this machine for the address "local".

    Local workers are processes of one thread: `n_jobs` of them, by default one for each processor.
    """
    distributed = import_extra("distributed", "dask", "--dask")
    # Closed connections are logged otherwise; errors are raised.
    for name in ("distributed", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        if address == LOCAL:
            n_workers = effective_n_jobs(-1 if n_jobs is None else n_jobs)
            with _block_interrupts():
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
def _block_interrupts() -> Iterator[None]:
    """Block Ctrl-C in processes and threads started meanwhile; this process gets it afterwards.

    A terminal interrupts all processes of a command, and every worker would print a traceback.
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
    """Start the resource tracker of multiprocessing, without its warnings after an interrupt.

    Starting it unblocks signals, so it is started before they are blocked.
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
