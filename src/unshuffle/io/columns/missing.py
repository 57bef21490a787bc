"""Messages on missing values, and on labels without a logarithm."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Literal

import numpy as np

from unshuffle.errors import InputError, quote
from unshuffle.formatting import SHOWN_NAMES
from unshuffle.io.table import Table

Missing = Literal["error", "drop"]

_LOGS = "labels turned into log10"
DROPPED_LABELS = (
    "labels are not linked to rows, so a dropped row takes along a label of its bag that may "
    "belong to another row"
)


def note_logs(missing: Missing) -> str:
    """Return the note that labels are logarithms, and how those without one are treated."""
    return _LOGS if missing == "error" else f"{_LOGS}; values of 0 and below count as missing"


def describe_missing(
    source: str,
    n_rows: int,
    n: int,
    row: int,
    name: str,
    value: object,
    is_optional: bool = True,
    counts: Mapping[str, int] | None = None,
) -> str:
    """Return the error for rows with missing values; ``row`` is the first, from 1.

    Optional columns may be left out as well. ``counts`` has the number of missing values by column.

    >>> describe_missing("d.csv", 3, 80, 7, "age", None).partition(";")[0]
    "d.csv, row 7: missing value in column 'age' (3 of 80 rows miss a value)"
    >>> describe_missing("d.csv", 3, 80, 7, "age", None, counts={"age": 2, "sex": 1})[:79]
    "d.csv, row 7: missing value in column 'age' (3 of 80 rows miss a value: 2 in 'a"
    """
    is_infinite = isinstance(value, float) and np.isinf(value)
    what = f"infinite value ({value:g})" if is_infinite else "missing value"
    by_column = f": {list_counts(counts)}" if counts and len(counts) > 1 else ""
    rows = f" ({n_rows} of {n} rows miss a value{by_column})" if n_rows > 1 else ""
    leave_out = "leave such columns out" if by_column else "leave the column out"
    way_out = f"mend it, {leave_out}," if is_optional else "mend it"
    return (
        f"{source}, row {row}: {what} in column {quote(name)}{rows}; {way_out} or drop such rows "
        "(missing='drop')"
    )


def describe_dropped(source: str, n_rows: int, n: int, counts: Mapping[str, int]) -> str:
    """Return the note on rows that were dropped for missing values."""
    return (
        f"{source}: dropped {n_rows} of {n} rows with missing or infinite values "
        f"({list_counts(counts)})"
    )


def describe_none_complete(source: str, counts: Mapping[str, int]) -> str:
    """Return the error for a table without a complete row."""
    worst = max(counts, key=lambda name: counts[name])
    return (
        f"{source}: every row misses a value (column {quote(worst)} in {counts[worst]} rows); "
        "leave such columns out"
    )


def list_counts(counts: Mapping[str, int]) -> str:
    """Return columns with their numbers of missing values as text.

    >>> list_counts({"age": 2, "sex": 1})
    "2 in 'age', 1 in 'sex'"
    """
    shown = [f"{count} in {quote(name, 30)}" for name, count in list(counts.items())[:SHOWN_NAMES]]
    more = f" and {len(counts) - SHOWN_NAMES} more columns" if len(counts) > SHOWN_NAMES else ""
    return f"{', '.join(shown)}{more}"


def describe_no_logs(source: str, n_labels: int, n: int, row: int, name: str, value: float) -> str:
    """Return the error for labels without a logarithm; ``row`` is the first, from 1."""
    return (
        f"{source}: {n_labels} of {n} labels are 0 or negative and have no logarithm (first: row "
        f"{row}, column {quote(name)}, value {value:g}); drop such rows (missing='drop'), or leave "
        "log10 out"
    )


def keep_positive(table: Table, names: Collection[str], missing: Missing) -> Table:
    """Return a table whose labels are positive, marked for logarithms.

    Labels of 0 and below are refused, or with ``missing="drop"`` become missing values.
    """
    columns = dict(table.columns)
    for name in names:
        values = columns[name]
        if values.dtype == object:  # refused later, as text
            continue
        without = np.flatnonzero(values <= 0)
        if len(without) and missing == "error":
            first = int(without[0])
            raise InputError(
                describe_no_logs(
                    table.source, len(without), len(values), first + 1, name, values[first]
                )
            )
        columns[name] = np.where(values > 0, values, np.nan)
    notes = (*table.notes, note_logs(missing))
    return dataclasses.replace(table, columns=columns, notes=notes, logs=frozenset(names))
