"""Import what a fit needs while files are read: both take about as long."""

from __future__ import annotations

import contextlib
import gc
from threading import Thread


def import_ahead() -> None:
    """Begin to import, in another thread, what every fit imports after its data are read."""
    import numpy  # noqa: F401 - both threads need it, and it must not be met half imported

    # Modules are never garbage: looking for some among them takes an eighth of the time.
    gc.disable()
    Thread(target=_import, name="importing").start()


def _import() -> None:
    try:
        _import_all()
    finally:
        gc.freeze()
        gc.enable()


def _import_all() -> None:
    # Whatever cannot be imported is missing again where it is needed, and is reported there.
    with contextlib.suppress(Exception):
        # What numba imports before it runs the first compiled function of a process, which takes
        # as long as numba itself.
        from numba.core.compiler_lock import global_compiler_lock
        from numba.core.registry import cpu_target

        import unshuffle.answers.fit  # noqa: F401

        with global_compiler_lock:
            cpu_target.target_context.refresh()
