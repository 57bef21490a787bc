"""Conversion of columns of pyarrow to arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


def as_floats(column: Any) -> np.ndarray:
    """Return a column of pyarrow's doubles or integers as an array, missing cells as NaN.

    Arrays are returned as they are. pyarrow's `to_numpy` would import pandas, which takes as long
    as reading half a million rows.
    """
    if isinstance(column, np.ndarray):
        return column
    values = np.empty(len(column))
    start, kind = 0, np.int64 if str(column.type) == "int64" else np.float64
    for chunk in (chunk for chunk in column.chunks if len(chunk)):
        stop, skipped = start + len(chunk), chunk.offset
        validity, data = chunk.buffers()
        found = np.frombuffer(data, kind, len(chunk), 8 * skipped)
        values[start:stop] = found
        if chunk.null_count:
            bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
            values[start:stop][bits[skipped : skipped + len(chunk)] == 0] = np.nan
        start = stop
    return values
