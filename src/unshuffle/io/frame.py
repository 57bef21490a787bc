"""Data frames of pandas, polars and others, by narwhals (which scikit-learn brings along)."""

import hashlib
from typing import Any

import numpy as np

from unshuffle.errors import InputError, shorten
from unshuffle.io.table import Column, Table, make_table


def table_from_frame(frame: Any, source: str = "data frame") -> Table:
    """Turn a pandas or polars frame into a `Table`; its index is left out.

    >>> import pandas as pd
    >>> table_from_frame(pd.DataFrame({"x": [1, 2], "y": [3.0, 4.0]})).names
    ('x', 'y')
    """
    import narwhals as nw  # here, because the command line must start fast

    try:
        wrapped = nw.from_native(frame, eager_only=True)
        names = [str(name) for name in wrapped.columns]
        columns = [_convert(wrapped[name]) for name in wrapped.columns]
    except (TypeError, ValueError, nw.exceptions.NarwhalsError) as exc:
        raise InputError(
            f"{source}: cannot be read as a data frame ({shorten(exc, 120)}); "
            "give a pandas or polars frame whose columns have different names"
        ) from exc
    digest = hashlib.sha256()
    for name, column in zip(names, columns, strict=True):
        content = column.tobytes() if column.dtype != object else repr(column.tolist()).encode()
        digest.update(repr(name).encode() + content)
    return make_table(names, columns, source, (), digest.hexdigest())


def _convert(series: Any) -> Column:
    if series.dtype.is_numeric():
        values = [] if len(series) == 0 else series.to_numpy()
        return np.array(values, dtype=np.float64)
    # NaN is how pandas writes a missing text; it is the only value unequal to itself.
    texts = [None if v is None or v != v else str(v) for v in series.to_list()]
    return np.array(texts, dtype=object)
