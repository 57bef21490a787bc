"""Labels that are computed from columns: an expression becomes a column of its table."""

from __future__ import annotations

from dataclasses import replace

from unshuffle.errors import InputError, quote
from unshuffle.io.columns.expressions import Expression, is_expression, parse_expression
from unshuffle.io.columns.missing import Missing
from unshuffle.io.table import Table


def find_expression(table: Table, label: str, role: str = "label") -> Expression | None:
    """Return the label as an expression of columns; None where it is a column or a plain name."""
    names = [*table.names, *table.aliases]
    return parse_expression(label, names, role) if is_expression(label, names) else None


def list_sources(table: Table, label: str | None) -> tuple[str, ...]:
    """Return the columns of which a label is made: itself, or those of its expression.

    A name that the table does not have is returned as it is.
    """
    if label is None:
        return ()
    expression = find_expression(table, label)
    if expression is not None:
        return tuple(table.aliases.get(name, name) for name in expression.columns)
    return (table.aliases.get(label, label),)


def add_label(table: Table, label: str, missing: Missing = "error", role: str = "label") -> Table:
    """Return a table that has its label as a column, computed where it is an expression.

    The columns of an expression are set aside: they are features only where they are named. Rows in
    which it has no value are refused, or with ``missing`` of "drop" become missing values.
    """
    expression = find_expression(table, label, role)
    if expression is None:
        return table
    inputs = {name: table.columns[table.aliases.get(name, name)] for name in expression.columns}
    for name, column in inputs.items():
        if column.dtype == object:
            raise InputError(
                f"{table.source}: the {role} {quote(label)} needs numbers, and column "
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
                f"{table.source}, row {gap.row + 1}: the {role} {quote(label)} has no value: "
                f"{gap.why} ({lacking}); {way_out}"
            )
        notes.append(f"{role} {quote(label)}: no value in {lacking}, which count as missing")
    parts = {table.aliases.get(name, name): f"part of the {role}" for name in expression.columns}
    return replace(
        table,
        names=(*table.names, label),
        columns={**table.columns, label: values},
        aside={**parts, **table.aside},
        notes=tuple(notes),
    )
