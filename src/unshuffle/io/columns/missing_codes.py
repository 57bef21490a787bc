"""Codes of missing values, such as 999 or "unknown", given by the user."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from unshuffle.io.columns.missing import list_counts
from unshuffle.io.table import Column, Table
from unshuffle.io.text.notation import TextColumn, is_number


@dataclass(frozen=True)
class MissingCodes:
    """Codes of all columns, and codes of single columns by their name."""

    everywhere: frozenset[str] = frozenset()
    by_column: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.everywhere or self.by_column)

    def find(self, name: str) -> frozenset[str]:
        """Return the codes of a column."""
        return self.everywhere | self.by_column.get(name, frozenset())

    def clear_texts(self, name: str, column: TextColumn) -> tuple[TextColumn, int]:
        """Return a column of text with codes as missing values, and the number of such cells."""
        codes = self.find(name)
        found = np.array([is_code(level, codes) for level in column.levels], dtype=bool)
        levels = [None if each else level for level, each in zip(column.levels, found, strict=True)]
        return TextColumn(levels, column.codes), int(found[column.codes].sum())

    def clear(self, name: str, column: Column) -> tuple[Column, int]:
        """Return a column with codes as missing values, and the number of such cells."""
        codes = self.find(name)
        if column.dtype == object:
            found = np.array([is_code(cell, codes) for cell in column.tolist()], dtype=bool)
            left = column.copy()
            left[found] = None
            return (_as_numbers(left) if found.any() else column), int(found.sum())
        found = np.isin(column, [float(code) for code in codes if is_number(code)])
        return np.where(found, np.nan, column), int(found.sum())


def read_codes(given: Sequence[str]) -> MissingCodes:
    """Parse codes: "999" is for all columns, "age=999" for the column age.

    >>> codes = read_codes(["-9", "age=999"])
    >>> sorted(codes.find("age")), sorted(codes.find("income"))
    (['-9', '999'], ['-9'])
    """
    everywhere, by_column = set(), dict[str, set[str]]()
    for each in given:
        name, _, code = each.rpartition("=")
        if name.strip():
            by_column.setdefault(name.strip(), set()).add(code.strip())
        else:
            everywhere.add(each.strip())
    columns = {name: frozenset(codes) for name, codes in by_column.items()}
    return MissingCodes(frozenset(everywhere), columns)


def is_code(cell: str | None, codes: Collection[str]) -> bool:
    """Return whether a cell is one of the codes, as text or as the same number.

    >>> is_code("999.0", {"999"}), is_code("unknown", {"999"}), is_code(None, {""})
    (True, False, False)
    """
    if cell is None:
        return False
    word = cell.strip()
    if word in codes or not is_number(word):
        return word in codes
    return any(is_number(code) and float(code) == float(word) for code in codes)


def _as_numbers(column: Column) -> Column:
    """Return a column of text as numbers if only numbers are left."""
    cells = column.tolist()
    if not all(cell is None or is_number(cell) for cell in cells) or not any(cells):
        return column
    return np.array([np.nan if cell is None else float(cell) for cell in cells])


def clear_table(
    table: Table, codes: MissingCodes, cleared: Mapping[str, int] | None = None
) -> Table:
    """Return a table with codes as missing values, and a note on their number.

    ``cleared`` are the numbers of cells that the reader of the file has cleared before.
    """
    columns, counts = dict(table.columns), dict(cleared or {})
    by_name = MissingCodes(
        codes.everywhere,
        {table.aliases.get(name, name): found for name, found in codes.by_column.items()},
    )
    for name in table.names:
        columns[name], n_cells = by_name.clear(name, table.columns[name])
        counts[name] = counts.get(name, 0) + n_cells
    found = {name: count for name, count in counts.items() if count}
    note = f"missing codes: {list_counts(found)}" if found else "no cell holds a missing code"
    return replace(table, columns=columns, notes=(*table.notes, note))
