"""Calls of Dask, on a cluster or in this process, with errors of workers in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from unshuffle.errors import InputError, import_extra, shorten

PURPOSE = "fitting data of Dask"


def find_client() -> Any:
    """Return the client of a running cluster; None if Dask computes in this process."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        client = distributed.get_client()
    except ValueError:  # there is none
        return None
    return None if client.asynchronous else client


def find_future(piece: Any) -> Any:
    """Return the future of a persisted piece; None if it is in this process."""
    found = sys.modules["distributed"].futures_of(piece)
    return found[0] if found else None


def compute(things: Sequence[Any]) -> list[Any]:
    """Return the values of delayed objects."""
    dask = import_extra("dask", "dask", PURPOSE)
    return list(run(dask.compute, *things))


def run(action: Callable[..., Any], *things: Any) -> Any:
    """Call an action of Dask; errors of its workers become one line."""
    try:
        return action(*things)
    except ImportError as exc:
        raise InputError(
            f"a worker of Dask cannot import what it needs ({shorten(exc, 100)}): install the same "
            "unshuffle there as here"
        ) from exc
    except Exception as exc:
        if type(exc).__name__ not in ("KilledWorker", "FutureCancelledError"):
            raise
        raise InputError(
            f"Dask lost the workers of a task ({shorten(exc, 100)}): give them more memory, or "
            "make partitions smaller"
        ) from exc
