"""Conversion of frames of any library to pandas, which formulaic reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import narwhals as nw
import numpy as np

from unshuffle.errors import InputError, import_extra, quote, suggest


def find_library(data: Any) -> str | None:
    """Return the library of a frame, "pandas" or "polars"; None for other data."""
    frame = nw.from_native(data, pass_through=True, eager_only=True)
    if not isinstance(frame, nw.DataFrame):
        return None
    name = frame.implementation.name.lower()
    return name if name in ("pandas", "polars") else None


def is_frame(data: Any) -> bool:
    """Return whether data are a frame, or a dictionary of columns."""
    frame = nw.from_native(data, pass_through=True, eager_only=True)
    return isinstance(data, Mapping) or isinstance(frame, nw.DataFrame)


def read_frame(data: Any) -> Any:
    """Return a frame or a dictionary of columns as a pandas frame with rows from 0."""
    pandas = import_extra("pandas", "formula", "a formula")
    if isinstance(data, Mapping):
        lengths = {name: len(column) for name, column in data.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"the columns of data differ in length: {lengths}")
        frame = pandas.DataFrame({str(name): np.asarray(each) for name, each in data.items()})
    elif isinstance(data, pandas.DataFrame):
        frame = data.reset_index(drop=True)
        frame.columns = [str(name) for name in frame.columns]
    else:
        native = nw.from_native(data, pass_through=True, eager_only=True)
        if not isinstance(native, nw.DataFrame):
            raise InputError(
                f"a formula names columns, and data of {type(data).__name__} have none: give a "
                "frame (pandas, polars, …) or a dictionary of columns"
            )
        columns = {name: _read_series(native[name], pandas) for name in native.columns}
        frame = pandas.DataFrame(columns)
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise InputError(f"two columns of data are called {quote(twice)}: rename one of them")
    return frame


def _read_series(series: Any, pandas: Any) -> Any:
    """Return a column for pandas; the levels of an Enum keep their order."""
    if isinstance(series.dtype, nw.Enum):
        return pandas.Categorical(series.to_list(), categories=list(series.dtype.categories))
    if series.dtype == nw.Categorical:
        return np.array(series.to_list(), dtype=object)
    return series.to_numpy()


def check_column(name: str, columns: Collection[str], what: str) -> None:
    """Refuse an unknown column, with the nearest name."""
    if name not in columns:
        raise InputError(f"{what}: no column is called {quote(name)}; {suggest(name, columns)}")


def find_column(frame: Any, name: str, what: str) -> Any:
    """Return a column by its name; refuse an unknown one."""
    check_column(name, list(frame.columns), what)
    return frame[name]


def take_columns(frame: Any, names: Collection[str], what: str) -> Any:
    """Return the named columns as a pandas frame; refuse dates, missing and infinite values."""
    pandas = import_extra("pandas", "formula", "a formula")
    taken = {}
    for name in names:
        column = find_column(frame, name, what)
        kinds = pandas.api.types
        if kinds.is_datetime64_any_dtype(column) or kinds.is_timedelta64_dtype(column):
            raise InputError(
                f"{what}: column {quote(name)} holds dates or times: turn them into numbers first, "
                "for instance days"
            )
        missing = column.isna().to_numpy(dtype=bool)
        is_category = isinstance(column.dtype, pandas.CategoricalDtype)
        is_number = kinds.is_numeric_dtype(column) and not is_category
        if is_number and not missing.any():
            column = pandas.Series(_as_numbers(column))
            missing = ~np.isfinite(column.to_numpy(dtype=float))
        if missing.any():
            n, row = int(missing.sum()), int(np.argmax(missing))
            rows = "1 row" if n == 1 else f"{n} rows"
            raise InputError(
                f"{what}: column {quote(name)} has missing or infinite values in {rows} "
                f"(first: row {row}): drop such rows with their labels, or fill them in"
            )
        if not is_number and not is_category:
            # Some versions of formulaic do not know the text types of some versions of pandas.
            column = pandas.Series(np.array(column.tolist(), dtype=object), dtype=object)
        taken[name] = column
    return pandas.DataFrame(taken)


def _as_numbers(column: Any) -> np.ndarray:
    """Return a column as a NumPy array; whole numbers stay integers, for they may be levels."""
    if column.dtype.kind == "f":
        return np.asarray(column.to_numpy(dtype=float))
    return np.asarray(column.to_numpy(dtype=bool if column.dtype.kind == "b" else np.int64))
