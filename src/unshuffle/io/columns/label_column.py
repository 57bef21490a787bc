"""Labels computed from columns: the value of an expression becomes a column of the table."""

from __future__ import annotations

from dataclasses import replace

from unshuffle.errors import InputError, quote
from unshuffle.io.columns.expressions import Expression, is_expression, parse_expression
from unshuffle.io.columns.missing import Missing
from unshuffle.io.table import Table


def find_expression(table: Table, label: str) -> Expression | None:
    """Return the label as an expression of columns; None if it is a name."""
    names = [*table.names, *table.aliases]
    return parse_expression(label, names) if is_expression(label, names) else None


def list_sources(table: Table, label: str | None) -> tuple[str, ...]:
    """Return the columns of a label: itself, or those of its expression.

    A name that is not in the table is returned as it is.
    """
    if label is None:
        return ()
    expression = find_expression(table, label)
    if expression is not None:
        return tuple(table.aliases.get(name, name) for name in expression.columns)
    return (table.aliases.get(label, label),)


def add_label(table: Table, label: str, missing: Missing = "error") -> Table:
    """Return the table with its label as a column, computed if it is an expression.

    The columns of an expression are set aside: they are features only if they are named. Rows
    without a value are refused, or with ``missing="drop"`` become missing values.
    """
    expression = find_expression(table, label)
    if expression is None:
        return table
    inputs = {name: table.columns[table.aliases.get(name, name)] for name in expression.columns}
    for name, column in inputs.items():
        if column.dtype == object:
            raise InputError(
                f"{table.source}: the label {quote(label)} needs numbers, and column "
                f"{quote(name)} holds text; make it numbers"
            )
    values, gap = expression.evaluate(inputs)
    notes = list(table.notes)
    if gap is not None:
        lacking = f"{gap.n_rows} of {table.n_rows} rows"
        if gap.n_rows == table.n_rows or missing == "error":
            way_out = "drop such rows (missing='drop'), or mend them"
            if gap.n_rows == table.n_rows:
                way_out = "write another expression"
            raise InputError(
                f"{table.source}, row {gap.row + 1}: the label {quote(label)} has no value: "
                f"{gap.why} ({lacking}); {way_out}"
            )
        notes.append(f"label {quote(label)}: no value in {lacking}, which count as missing")
    parts = {table.aliases.get(name, name): "part of the label" for name in expression.columns}
    return replace(
        table,
        names=(*table.names, label),
        columns={**table.columns, label: values},
        aside={**parts, **table.aside},
        notes=tuple(notes),
    )
