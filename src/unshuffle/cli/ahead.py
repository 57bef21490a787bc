"""Import what a fit needs while files are read: both take about as long."""

from __future__ import annotations

import contextlib
import gc
import importlib
from collections.abc import Sequence
from pathlib import Path
from threading import Thread

# Files of more bytes hold many rows as a rule: 40 000 of six numbers.
_MANY_BYTES = 1 << 22
# Kernels of every fit of many rows, and of methods that ask for no others: to load them takes a
# tenth of a second.
_FIRST_LOOK = "widen_extremes hash_rows add_moments add_label_squares add_to_cells"
_OF_METHOD = {
    "ls": "add_monomials add_label_powers gram screen_squares evaluate_sorted advance_descent "
    "evaluate_tensors fill_sorted_cells match_sorted_cells curve_sorted_cells",
}


def import_ahead(method: str = "auto", paths: Sequence[str] = ()) -> None:
    """Begin to import, in another thread, what a fit by this method needs after its data are read.

    Where files are large the compiled functions for many rows are loaded too. Wrong names, of
    methods and of files, are refused elsewhere.
    """
    import numpy  # noqa: F401 - both threads need it, and it must not be met half imported

    is_large = _are_large(paths)
    if is_large:
        _import_reading()
    # Modules are never garbage: looking for some among them takes an eighth of the time.
    gc.disable()
    Thread(target=_import, args=(method, is_large), name="importing").start()


def _import(method: str, is_large: bool) -> None:
    try:
        _import_all(method)
        if is_large:
            _load_kernels(method)
        _import_output()
    finally:
        gc.freeze()
        gc.enable()


def _import_reading() -> None:
    # Both at once would take as long, and parsing, which needs no interpreter, begin later.
    with contextlib.suppress(Exception):
        import unshuffle.files.reading  # noqa: F401

        importlib.import_module("pyarrow.csv")


def _import_all(method: str) -> None:
    # Whatever cannot be imported is missing again where it is needed, and is reported there.
    with contextlib.suppress(Exception):
        import unshuffle.answers.fit
        from unshuffle.registry import METHODS

        if method in ("auto", "likelihood"):
            import unshuffle.posterior.blocks  # noqa: F401
        else:
            _ = METHODS[method].strategy


def _import_output() -> None:
    with contextlib.suppress(Exception):
        import rich.console
        import rich.table  # noqa: F401


def _are_large(paths: Sequence[str]) -> bool:
    try:
        return sum(Path(path).stat().st_size for path in paths) > _MANY_BYTES
    except (OSError, ValueError):
        return False


def _load_kernels(method: str) -> None:
    # Whatever cannot be loaded is compiled where it is needed, or fails there.
    with contextlib.suppress(Exception):
        import numpy.ma  # noqa: F401 - which numba asks whether an array is masked

        from unshuffle import kernels
        from unshuffle.kernels.loading import load_stored

        for name in f"{_FIRST_LOOK} {_OF_METHOD.get(method, '')}".split():
            load_stored(getattr(kernels, name))
