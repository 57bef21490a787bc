"""Lazy predictions on Dask collections, partition by partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unshuffle.errors import InputError, import_extra

_PURPOSE = "predicting rows of Dask"


def map_rows(
    X: Any, function: Callable[[Any], np.ndarray], names: tuple[str, ...] | None = None
) -> Any:
    """Return a function of the rows of a Dask frame or array as a lazy collection.

    The function returns a number for each row, or a column for each of these `names`. A frame gives
    a series or a frame with the same index, an array gives an array.
    """
    if getattr(X, "ndim", None) != 2:
        raise InputError(f"X must be a table, as ddf[['a', 'b']], got {type(X).__name__} of Dask")
    if not hasattr(X, "map_partitions"):
        return _map_blocks(X, function, names)
    pandas = import_extra("pandas", "dask", _PURPOSE)

    def run(part: Any) -> Any:
        if not len(part):
            return meta
        found = function(part)
        if names is None:
            return pandas.Series(found, index=part.index, name="prediction")
        return pandas.DataFrame(found, index=part.index, columns=list(names))

    empty = X._meta.index
    if names is None:
        meta = pandas.Series(np.empty(0), index=empty, name="prediction")
    else:
        meta = pandas.DataFrame(np.empty((0, len(names))), index=empty, columns=list(names))
    return X.map_partitions(run, meta=meta)


def _map_blocks(X: Any, function: Callable[[Any], np.ndarray], names: Any) -> Any:
    whole = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X

    def run(part: np.ndarray) -> np.ndarray:
        if not len(part):
            return np.empty(0 if names is None else (0, len(names)))
        return function(part)

    empty = np.empty(0 if names is None else (0, 0))
    if names is None:
        return whole.map_blocks(run, drop_axis=1, dtype=float, meta=empty)
    chunks = (whole.chunks[0], (len(names),))
    return whole.map_blocks(run, chunks=chunks, dtype=float, meta=empty)
