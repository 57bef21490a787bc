"""Notes on columns before a fit: outliers, constants, row numbers, and names almost alike."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from unshuffle.data.outliers import Outlier, describe_outliers, find_outlier, is_code
from unshuffle.errors import quote
from unshuffle.formatting import SHOWN_NAMES
from unshuffle.io.table import Column, Table

# Names of columns that number rows: id, ID, row_id, rowId.
_ID = re.compile(r"(?:.*[\W_])?(?:id|Id|ID)|.*[a-z]I[dD]")
# Groups of names that are almost alike, and names of a group.
_N_NAMES = 3


def remark_columns(
    table: Table,
    features: Sequence[str],
    labels: Sequence[str],
    rows: NDArray[np.intp],
    is_chosen: bool,
    bag: str | None = None,
) -> list[str]:
    """Return notes on columns of numbers in these rows, and on the names of bags.

    Row numbers are noted if the features were not chosen by name.
    """
    found, numbered, constant, codes = [], [], [], []
    for name in [*features, *labels]:
        column = table.columns[name]
        if column.dtype == object:
            continue
        column = column if len(rows) == table.n_rows else column[rows]
        is_log = name in table.logs
        outlier = find_outlier(np.log10(column) if is_log else column)
        if outlier is not None:
            where = _name_cell(table.source, rows[outlier.row] + 1, name)
            found.append((where, replace(outlier, is_log=is_log)))
            codes += [f"{name}={outlier.value:g}"] if is_code(outlier.value) else []
        if name in features and len(column) > 1 and (column == column[0]).all():
            constant.append(name)
        if name in features and not is_chosen and numbers_rows(column, name):
            numbered.append(name)
    notes = [describe_outliers(found)] if found else []
    if codes:
        notes.append(f"name codes of missing values (na='{','.join(codes)}')")
    if constant:
        shown = ", ".join(quote(name, 30) for name in constant[:SHOWN_NAMES])
        notes.append(f"the same in every row, and no use as features: {shown}")
    if bag is not None and table.columns[bag].dtype == object:
        alike = describe_alike(Counter(table.columns[bag][rows].tolist()))
        notes += [f"bag {quote(bag, 30)} has {each}" for each in alike]
    if not is_chosen:
        notes += [*remark_numbers(numbered), *remark_aside(table)]
    return notes


def _name_cell(source: str, row: int, name: str) -> str:
    return f"{source}, row {row}, column {quote(name)}"


class OutlierSearch:
    """Search for outliers in columns read piece by piece: first in a piece, then against all."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, Outlier]] = {}
        # The range of values that are no outliers in their piece.
        self._ends: dict[str, tuple[float, float]] = {}

    def look(
        self,
        name: str,
        values: NDArray[np.float64],
        rows: NDArray[np.intp],
        source: str,
        is_log: bool = False,
    ) -> None:
        """Search values of a column in these rows of its file, counted from 1."""
        if not len(values):
            return
        low, high = float(values.min()), float(values.max())
        found = find_outlier(values)
        if found is not None:
            is_high = found.value > found.centre
            low, high = (low, found.rest) if is_high else (found.rest, high)
            where = _name_cell(source, rows[found.row], name)
            self._found.setdefault(name, (where, replace(found, is_log=is_log)))
        before = self._ends.get(name, (low, high))
        self._ends[name] = min(low, before[0]), max(high, before[1])

    def describe(self) -> list[str]:
        """Return notes on the outliers that remain."""
        found = [each for n, each in self._found.items() if each[1].stands_out(*self._ends[n])]
        return [describe_outliers(found)] if found else []


def remark_numbers(names: Sequence[str]) -> list[str]:
    """Return a note on features that look like row numbers."""
    if not names:
        return []
    shown = ", ".join(quote(name, 30) for name in names[:SHOWN_NAMES])
    return [f"used as features, but look like numbers of rows: {shown}; exclude them if they are"]


def remark_aside(table: Table) -> list[str]:
    """Return notes on columns that are features only if they are named."""
    return [
        f"column {quote(name, 30)} is {reason}: no feature unless it is named as one"
        for name, reason in table.aside.items()
    ]


def find_alike(names: Iterable[str]) -> list[list[str]]:
    """Return groups of names that differ in case, blanks or punctuation alone.

    >>> find_alike(["Site A", "site  a", "Site B", "site-A"])
    [['Site A', 'site  a', 'site-A']]
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(re.sub(r"[\W_]+", "", name).casefold(), []).append(name)
    return [group for key, group in groups.items() if key and len(group) > 1]


def describe_alike(counts: Counter[str]) -> list[str]:
    """Return a note on names that differ in case, blanks or punctuation alone."""
    # Names of rows are too many to compare.
    groups = find_alike(counts) if len(counts) <= sum(counts.values()) / 2 else []
    shown = []
    for group in groups[:_N_NAMES]:
        common = sorted(group, key=lambda name: -counts[name])[:_N_NAMES]
        shown.append(" and ".join(f"{quote(name, 30)} ({counts[name]})" for name in common))
    more = f"; {len(groups) - _N_NAMES} more" if len(groups) > _N_NAMES else ""
    found = f"names that differ in case, blanks or marks alone: {'; '.join(shown)}{more}"
    return [found] if groups else []


def numbers_rows(column: Column, name: str) -> bool:
    """Return whether a column of numbers looks like row numbers.

    They are whole and all different, and run without gaps, or have a name of ids.

    >>> numbers_rows(np.arange(40.0), "x"), numbers_rows(7.0 * np.arange(40), "patient_id")
    (True, True)
    >>> numbers_rows(7.0 * np.arange(40), "humid")
    False
    """
    n = len(column)
    # In short tables a quantity may run like this, such as doses of 1, 2, 3.
    if n < 10 or not np.array_equal(column, np.round(column)):
        return False
    is_named = _ID.fullmatch(name) is not None
    # Running numbers may lack one in twenty.
    if not is_named and np.ptp(column) + 1 > 1.05 * n:
        return False
    return len(np.unique(column)) == n
