"""New rows for a fitted model: the same columns, coded in the same way."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unshuffle.errors import InputError, quote, suggest
from unshuffle.io.columns.missing import Missing
from unshuffle.io.designs.design_matrix import Coding, bag_keys, complete_rows
from unshuffle.io.table import Column, Table, as_text
from unshuffle.io.text.notation import is_number


def code_new_rows(
    table: Table, coding: Sequence[Coding], missing: Missing = "error", bag: str | None = None
) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[Any] | None, list[str]]:
    """Return X coded as in the fit, the places of its rows in the table, their bags, and notes.

    Columns are found by name; others are ignored. Rows with missing or infinite values are refused,
    or with ``missing="drop"`` dropped.
    """
    names = [table.find(each.column, "feature column") for each in coding]
    used = names if bag is None else [*names, table.find(bag, "bag column")]
    rows, notes = complete_rows(table, used, missing, is_optional=False)
    blocks: list[Column] = []
    for each, name in zip(coding, names, strict=True):
        column = table.columns[name][rows]
        if each.levels is None:
            blocks.append(_check_numbers(column, name, table, rows))
            continue
        codes = _find_codes(as_text(column), each.levels, name, table, rows)
        blocks += [(codes == k).astype(np.float64) for k in range(1, len(each.levels))]
    groups = None if bag is None else bag_keys(table, used[-1], rows)
    return np.column_stack(blocks), rows, groups, [*table.notes, *notes]


def _check_numbers(column: Column, name: str, table: Table, rows: NDArray[np.intp]) -> Column:
    if column.dtype != object:
        return column
    # Numbers stored as text, as in a Parquet file, count as text.
    texts = list(zip(rows.tolist(), column.tolist(), strict=True))
    place, value = next((each for each in texts if not is_number(each[1])), texts[0])
    raise InputError(
        f"{table.source}, row {place + 1}: column {quote(name)} holds the text {quote(value)}, "
        "where the model has numbers; make it numbers"
    )


def _find_codes(
    column: Column, levels: Sequence[str], name: str, table: Table, rows: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the place of every cell among the levels of the fit; refuse new levels."""
    codes = {level: k for k, level in enumerate(levels)}
    for place, level in zip(rows.tolist(), column.tolist(), strict=True):
        if level not in codes:
            raise InputError(
                f"{table.source}, row {place + 1}: column {quote(name)} holds {quote(level)}, a "
                f"level that the model has not seen; {suggest(level, levels)}; leave such rows "
                "out, or fit again with them"
            )
    return np.array([codes[level] for level in column.tolist()], dtype=np.intp)
