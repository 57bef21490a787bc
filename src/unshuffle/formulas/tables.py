"""Designs of tables by a formula, and new rows for the fitted model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unshuffle.formulas.columns import FormulaColumns, list_variables, read_formula
from unshuffle.io.columns.missing import Missing
from unshuffle.io.designs.design_matrix import (
    Design,
    bag_keys,
    choose_counts,
    complete_rows,
    read_anchors,
)
from unshuffle.io.table import Table


def make_formula_design(
    table: Table,
    text: str,
    *,
    bag: str | None = None,
    weight: str | None = None,
    anchor: str | None = None,
    aside: Collection[str] = (),
    missing: Missing = "error",
) -> tuple[Design, FormulaColumns]:
    """Return the design of a table by a formula, and how the formula made its columns."""
    roles = [table.find(name) for name in (bag, weight, anchor) if name is not None]
    left_out = {*roles, *aside, *table.aside}
    variables = list_variables(text, table.names, left_out)
    rows, notes = complete_rows(table, [*variables, *roles], missing)
    rows, counts, left = choose_counts(table, None if weight is None else table.find(weight), rows)
    columns, X, y = read_formula(text, _take(table, variables, rows), left_out)
    groups = None if bag is None else bag_keys(table, table.find(bag), rows)
    anchors = None if anchor is None else read_anchors(table, table.find(anchor), rows)
    notes = [*table.notes, *notes, *left]
    design = Design(X, y, groups, columns.names, tuple(notes), rows, counts, anchors=anchors)
    return design, columns


def build_new_rows(
    table: Table, columns: FormulaColumns, missing: Missing = "error", bag: str | None = None
) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[Any] | None, list[str]]:
    """Return X coded as in the fit, the places of its rows in the table, their bags, and notes."""
    used = [table.find(name) for name in columns.variables]
    more = [] if bag is None else [table.find(bag, "bag column")]
    rows, notes = complete_rows(table, [*used, *more], missing, is_optional=False)
    taken = dict(zip(columns.variables, _take(table, used, rows).values(), strict=True))
    groups = None if bag is None else bag_keys(table, more[0], rows)
    return columns.build(taken), rows, groups, [*table.notes, *notes]


def _take(table: Table, names: Sequence[str], rows: NDArray[np.intp]) -> dict[str, Any]:
    """Return columns of a table by name; whole numbers as integers, for they may be levels."""
    taken = {}
    for name in names:
        column = table.columns[name][rows]
        is_whole = column.dtype != object and bool((column == np.floor(column)).all())
        is_small = is_whole and bool((np.abs(column) < 2.0**53).all())
        taken[name] = column.astype(np.int64) if is_small else column
    return taken
