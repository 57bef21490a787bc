"""Tables as CSV with all digits."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def format_csv(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    r"""Return a header and rows as CSV: None is an empty cell, and floats keep all digits.

    >>> format_csv(["a", "b"], [(1, 0.1), ("x,y", None)])
    'a,b\n1,0.1\n"x,y",\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_show(cell) for cell in row] for row in rows)
    return text.getvalue()


def format_columns(columns: Mapping[str, Iterable[Any]]) -> str:
    """Return columns by name as CSV."""
    return format_csv(list(columns), zip(*columns.values(), strict=True))


def list_cells(column: Any) -> list[Any]:
    """Return the cells of a column of a table: whole numbers as such, missing ones as None.

    >>> import numpy as np
    >>> list_cells(np.array([1.0, 0.5, np.nan]))
    [1, 0.5, None]
    """
    if column.dtype == object:
        return list(column.tolist())
    return [
        None if cell != cell else int(cell) if cell.is_integer() else cell
        for cell in column.tolist()
    ]


def _show(cell: Any) -> Any:
    return repr(cell) if isinstance(cell, float) else "" if cell is None else cell
