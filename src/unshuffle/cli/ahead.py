"""Import what a fit needs while files are read: both take about as long."""

from __future__ import annotations

import contextlib
import gc
from threading import Thread


def import_ahead(method: str = "auto") -> None:
    """Begin to import, in another thread, what a fit by this method needs after its data are read.

    Wrong names are refused elsewhere.
    """
    import numpy  # noqa: F401 - both threads need it, and it must not be met half imported

    # Modules are never garbage: looking for some among them takes an eighth of the time.
    gc.disable()
    Thread(target=_import, args=(method,), name="importing").start()


def _import(method: str) -> None:
    try:
        _import_all(method)
    finally:
        gc.freeze()
        gc.enable()


def _import_all(method: str) -> None:
    # Whatever cannot be imported is missing again where it is needed, and is reported there.
    with contextlib.suppress(Exception):
        import unshuffle.answers.fit
        from unshuffle.registry import METHODS

        if method in ("auto", "likelihood"):
            import unshuffle.posterior.blocks  # noqa: F401
        else:
            _ = METHODS[method].strategy
