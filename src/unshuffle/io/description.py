"""Description of a table by columns, with a suggested label and bag."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unshuffle.data.outliers import LEAST_ROWS, Outlier, find_outlier, is_code
from unshuffle.errors import quote
from unshuffle.io.columns.dates import find_date_form
from unshuffle.io.columns.forgotten_bags import find_forgotten_bag
from unshuffle.io.columns.remarks import describe_alike, numbers_rows
from unshuffle.io.designs.design_matrix import MAX_UNDECLARED, is_present
from unshuffle.io.reading import FilePath, check_stems, read_table
from unshuffle.io.table import Column, Table, keep_common, stack_tables

# Types of columns, as in output and JSON.
NUMBERS, WHOLE, BINARY, TEXT, DATES = "numbers", "whole numbers", "0 and 1", "text", "dates"
CONSTANT, EMPTY, NAMES = "constant", "empty", "row names"

# Number of levels that are shown.
_N_SHOWN = 3
# Frequent names of label columns, the likeliest first.
_LABELS = (
    "label", "y", "outcome", "response", "target", "fluorescence", "income", "wage", "score",
    "expression", "yield", "price", "value", "result",
)  # fmt: skip
# Channels of scatter, which are unlikely labels.
_SCATTER = re.compile(r"(?i)^(fsc|ssc|time|width|event)")
# Area, height and width of a pulse, in names of cytometry channels.
_CHANNEL = re.compile(r"-[AHW]$")


@dataclass(frozen=True)
class ColumnFacts:
    """A column: its type, range or levels, missing values, and remarks.

    ``first_missing`` is a row counted from 1, ``other_name`` the long name of a channel, ``levels``
    the most frequent values of a text or of few whole numbers with their counts, ``remarks``
    sentences without the name of the column, and ``codes`` values that may stand for missing ones.
    """

    name: str
    type: str
    n_missing: int
    first_missing: int | None
    low: float | None
    median: float | None
    high: float | None
    n_levels: int | None
    levels: tuple[tuple[str, int], ...]
    other_name: str | None
    remarks: tuple[str, ...]
    codes: tuple[float, ...] = ()


@dataclass(frozen=True)
class Description:
    """A table: its columns, the suggested label and bag, and remarks."""

    source: str
    n_rows: int
    columns: tuple[ColumnFacts, ...]
    label: str | None
    bag: str | None
    remarks: tuple[str, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the description as the JSON object of its schema."""
        columns = [
            {
                **asdict(each),
                "levels": [{"value": value, "rows": rows} for value, rows in each.levels],
                "remarks": list(each.remarks),
                "codes": list(each.codes),
            }
            for each in self.columns
        ]
        return {
            "source": self.source,
            "rows": self.n_rows,
            "columns": columns,
            "suggested_label": self.label,
            "suggested_bag": self.bag,
            "remarks": list(self.remarks),
            "notes": list(self.notes),
        }


def read_common(paths: Sequence[FilePath], bag: str, **how: Any) -> Table:
    """Read files as one table of their common columns; a note names the others.

    The column `bag` has the file of each row; the parameters `how` are those of `read_table`.
    """
    if len(paths) == 1:
        return read_table(paths[0], **how)
    tables = keep_common([read_table(path, **how) for path in paths], ())
    has_bag = bag in tables[0].columns
    return stack_tables(tables) if has_bag else stack_tables(tables, check_stems(paths), bag)


def describe_table(table: Table) -> Description:
    """Return the description of a table, with a suggested label and bag."""
    others = {name: alias for alias, name in table.aliases.items()}
    columns = tuple(_describe_column(table, name, others.get(name)) for name in table.names)
    bag = _suggest_bag(table, columns)
    label = _suggest_label(table, columns, bag)
    remarks = [
        f"column {quote(each.name, 30)}: {remark}" for each in columns for remark in each.remarks
    ]
    return Description(table.source, table.n_rows, columns, label, bag, tuple(remarks), table.notes)


def _describe_column(table: Table, name: str, other_name: str | None) -> ColumnFacts:
    column = table.columns[name]
    is_there = is_present(column)
    lacking = np.flatnonzero(~is_there)
    values = column[is_there]
    first = int(lacking[0]) + 1 if len(lacking) else None
    describe = _describe_text if column.dtype == object else _describe_numbers
    return describe(table, name, values, (len(lacking), first), other_name)


def _describe_numbers(
    table: Table, name: str, values: Column, missing: tuple[int, int | None], other: str | None
) -> ColumnFacts:
    if not len(values):
        why = ("holds no value: leave it out",)
        return ColumnFacts(name, EMPTY, *missing, None, None, None, 0, (), other, why)
    low, high = float(values.min()), float(values.max())
    is_whole = bool(np.array_equal(values, np.round(values)))
    levels, counts = np.unique(values, return_counts=True) if is_whole else (values[:0], None)
    n_levels = len(levels) if is_whole else None
    kind = WHOLE if is_whole else NUMBERS
    remarks: list[str] = []
    codes: list[float] = []
    if low == high:
        kind, n_levels = CONSTANT, 1
        remarks.append(f"holds {low:g} in every row: it adds nothing")
    elif is_whole and n_levels == 2 and (low, high) == (0.0, 1.0):
        kind = BINARY
    elif numbers_rows(table.columns[name], name):
        kind = NAMES
        remarks.append("looks like numbers of rows: leave it out of the features")
    else:
        outlier = find_outlier(table.columns[name])
        if outlier is not None:
            remarks.append(_describe_outlier(outlier, name))
        remarks += _describe_codes(table.columns[name], outlier)
        codes += [code for code, _ in find_codes(table.columns[name])]
        if outlier is not None and is_code(outlier.value) and outlier.value not in codes:
            codes.append(outlier.value)
    shown: tuple[tuple[str, int], ...] = ()
    if is_whole and counts is not None and kind != NAMES and len(levels) <= MAX_UNDECLARED:
        order = np.argsort(-counts, kind="stable")[:_N_SHOWN]
        shown = tuple((f"{levels[k]:g}", int(counts[k])) for k in order)
    if name in table.aside:
        remarks.append(f"is {table.aside[name]}: no feature unless it is named as one")
    median = float(np.median(values))
    return ColumnFacts(
        name, kind, *missing, low, median, high, n_levels, shown, other, tuple(remarks),
        tuple(codes),
    )  # fmt: skip


def _describe_text(
    table: Table, name: str, values: Column, missing: tuple[int, int | None], other: str | None
) -> ColumnFacts:
    counts = Counter(values.tolist())
    n_levels, kind = len(counts), TEXT
    remarks: list[str] = []
    form = find_date_form(counts)
    if not counts:
        kind = EMPTY
        remarks.append("holds no value: leave it out")
    elif n_levels == 1:
        kind = CONSTANT
        remarks.append(f"holds {quote(next(iter(counts)), 30)} in every row: it adds nothing")
    elif form is not None:
        kind = DATES
        remarks.append(f"holds dates: count days (dates={quote(name)}), or leave it out")
    elif n_levels == len(values) and n_levels >= LEAST_ROWS:
        kind = NAMES
        remarks.append("is different in every row: leave it out of the features")
    elif n_levels > MAX_UNDECLARED:
        remarks.append(
            f"has {n_levels} different texts: a bag, or a category only if declared (--categorical)"
        )
    remarks += [] if kind in (DATES, NAMES) else describe_alike(counts)
    common = tuple(counts.most_common(_N_SHOWN)) if kind != NAMES else ()
    return ColumnFacts(
        name, kind, *missing, None, None, None, n_levels, common, other, tuple(remarks)
    )


def _describe_outlier(outlier: Outlier, name: str) -> str:
    code = f"; if it is a code for missing values, name it (na='{name}={outlier.value:g}')"
    what = code if is_code(outlier.value) else ""
    return f"row {outlier.row + 1} {outlier.describe()}{what}"


def _describe_codes(column: Column, outlier: Outlier | None) -> list[str]:
    """Return remarks on ends of a column that look like missing codes and are no outliers."""
    known = None if outlier is None else outlier.value
    return [
        f"{code:g} in {rows} rows looks like a code for missing values"
        for code, rows in find_codes(column)
        if code != known
    ]


def find_codes(column: NDArray[np.float64]) -> list[tuple[float, int]]:
    """Return ends of a column that look like missing codes, and their frequencies.

    A code (99, 999, -9, …) is in several rows and far from all other values.

    >>> ages = np.append(np.arange(18.0, 65.0), [999.0, 999.0])
    >>> find_codes(ages)
    [(999.0, 2)]
    """
    levels, counts = np.unique(column[np.isfinite(column)], return_counts=True)
    if len(levels) < 3 or counts.sum() < LEAST_ROWS:
        return []
    found = []
    for end, rest in ((-1, levels[:-1]), (0, levels[1:])):
        gap = abs(float(levels[end]) - float(rest[end]))
        # A code is further from the others than half of their range.
        is_apart = gap > 0.5 * float(np.ptp(rest)) or levels[end] < 0 <= rest[0]
        if is_code(float(levels[end])) and counts[end] > 1 and is_apart:
            found.append((float(levels[end]), int(counts[end])))
    return found


def _suggest_bag(table: Table, columns: Sequence[ColumnFacts]) -> str | None:
    """Return the column whose name and values are those of bags, else the likeliest text."""
    out = {each.name for each in columns if each.type in (CONSTANT, EMPTY, NAMES)}
    found = find_forgotten_bag(table, out)
    if found is not None:
        return found[0]
    for each in columns:
        is_text = each.type == TEXT and each.n_levels is not None
        if is_text and 3 <= (each.n_levels or 0) <= table.n_rows / 5:
            return each.name
    for each in columns:
        is_whole = each.type == WHOLE and 3 <= (each.n_levels or 0) <= table.n_rows / 5
        if is_whole and each.n_levels == _count_runs(table.columns[each.name]):
            return each.name
    return None


def _count_runs(column: Column) -> int:
    """Return the number of runs of equal values in a column."""
    return int((column[1:] != column[:-1]).sum()) + 1


def _suggest_label(table: Table, columns: Sequence[ColumnFacts], bag: str | None) -> str | None:
    """Return the column with the name of a label, else the last possible column of numbers."""
    left = [
        each.name
        for each in columns
        if each.type in (NUMBERS, WHOLE) and each.name not in (bag, *table.aside)
    ]
    for word in _LABELS:
        for name in left:
            if word in re.findall(r"[a-z]+", name.lower()):
                return name
    if table.aliases or any(_CHANNEL.search(name) for name in left):
        left = [name for name in left if not _SCATTER.match(name)]
        return left[0] if left else None
    return left[-1] if len(left) > 1 or bag is not None else None


def list_columns(found: Description) -> tuple[list[str], list[list[str]]]:
    """Return the header and the lines of a table of the columns."""
    has_names = any(each.other_name for each in found.columns)
    head = ["column", *(["long name"] if has_names else []), "type", "missing"]
    lines = []
    for each in found.columns:
        where = "" if not each.n_missing else f"{each.n_missing} (row {each.first_missing})"
        names = [each.name, *([each.other_name or ""] if has_names else [])]
        lines.append([*names, each.type, where or "0", show_range(each)])
    return [*head, "least … median … greatest, or values (rows)"], lines


def show_range(facts: ColumnFacts) -> str:
    """Return range or levels of a column as a short text.

    >>> facts = ColumnFacts("x", NUMBERS, 0, None, 0.0, 0.5, 1.0, None, (), None, ())
    >>> show_range(facts)
    '0 … 0.5 … 1'
    """
    if facts.low is not None and facts.type != CONSTANT:
        ends = (facts.low, facts.median, facts.high)
        return " … ".join(_show(end) for end in ends if end is not None)
    if facts.type in (CONSTANT, EMPTY):
        return ""
    shown = ", ".join(f"{value} ({rows})" for value, rows in facts.levels)
    n_more = (facts.n_levels or 0) - len(facts.levels)
    return (
        f"{facts.n_levels} different"
        if not shown
        else shown + (f", {n_more} more" if n_more > 0 else "")
    )


def _show(value: float) -> str:
    """Return a number with four significant digits, or all before the point."""
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"
