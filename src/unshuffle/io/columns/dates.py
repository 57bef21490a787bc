"""Columns of dates: their form, and their conversion to days since a date."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime

import numpy as np

from unshuffle.errors import InputError, quote
from unshuffle.io.table import Table

# The default origin of days, fixed so that old and new data agree.
ORIGIN = date(2000, 1, 1)
_SECONDS = 86400.0

# Forms of dates. Day before month and month before day look alike: both are tried, and one alone
# must fit all cells.
_YEAR, _MONTH, _DAY = r"(?P<y>\d{4})", r"(?P<m>\d{1,2})", r"(?P<d>\d{1,2})"
_TIME = r"(?P<time>[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?Z?)?"
_FORMS = {
    "year-month-day": re.compile(f"{_YEAR}-{_MONTH}-{_DAY}{_TIME}"),
    "day.month.year": re.compile(rf"{_DAY}\.{_MONTH}\.{_YEAR}"),
    "day/month/year": re.compile(f"{_DAY}/{_MONTH}/{_YEAR}"),
    "month/day/year": re.compile(f"{_MONTH}/{_DAY}/{_YEAR}"),
    "year/month/day": re.compile(f"{_YEAR}/{_MONTH}/{_DAY}"),
}


@dataclass(frozen=True)
class DateForm:
    """The form of the dates of a column; ``doubt`` is another form that fits all cells."""

    name: str
    example: str
    doubt: str | None = None


def find_date_form(cells: Collection[str]) -> DateForm | None:
    """Return the form of dates if all cells are dates; None for any other column.

    >>> find_date_form(["2021-03-04", "2021-12-31"]).name
    'year-month-day'
    >>> find_date_form(["3/4/2021", "13/4/2021"]).name, find_date_form(["3/4/2021"]).doubt
    ('day/month/year', 'month/day/year')
    """
    if not cells:
        return None
    example = next(iter(cells))
    forms = [form for form in _FORMS if all(_read_day(cell, form) is not None for cell in cells)]
    return DateForm(forms[0], example, forms[1] if len(forms) > 1 else None) if forms else None


def _read_day(cell: str, form: str) -> float | None:
    """Return a date as days since the first day of the calendar; None where it has another form."""
    found = _FORMS[form].fullmatch(cell.strip())
    if found is None:
        return None
    parts = found.groupdict()
    try:
        day = date(int(parts["y"]), int(parts["m"]), int(parts["d"])).toordinal()
        time = (parts.get("time") or "T0:00")[1:].removesuffix("Z")
        clock = datetime.fromisoformat(f"2000-01-01T{time.zfill(5)}")
    except ValueError:  # no such day or time
        return None
    return day + (clock - datetime(2000, 1, 1)).total_seconds() / _SECONDS


def read_origins(names: Collection[str]) -> dict[str, date]:
    """Return the first day of each column, from "visit=2020-03-01" or "visit" alone."""
    origins = {}
    for each in names:
        name, mark, day = each.rpartition("=")
        if not mark:
            name, day = each, ORIGIN.isoformat()
        try:
            origins[name] = date.fromisoformat(day)
        except ValueError:
            raise InputError(
                f"{quote(each)}: {quote(day)} is no date; write COLUMN=YEAR-MONTH-DAY"
            ) from None
    return origins


def count_days(table: Table, origins: Mapping[str, date]) -> Table:
    """Return a table with columns of dates as days since a date; refuse cells without a date."""
    columns, notes = dict(table.columns), list(table.notes)
    for asked, origin in origins.items():
        name = table.find(asked, "column of dates")
        column = columns[name]
        if column.dtype != object:
            raise InputError(
                f"{table.source}: column {quote(name)} holds numbers, not dates; leave it out of "
                "the columns of dates"
            )
        cells = dict.fromkeys(cell for cell in column.tolist() if cell is not None)
        form = find_date_form(cells)
        if form is None:
            raise _refuse_cell(table, name)
        if form.doubt is not None:
            raise InputError(
                f"{table.source}: dates of column {quote(name)} such as {quote(form.example)} are "
                f"{form.name} or {form.doubt}; write them as year-month-day"
            )
        days = {cell: (_read_day(cell, form.name) or 0.0) - origin.toordinal() for cell in cells}
        columns[name] = np.array([days.get(cell, np.nan) for cell in column.tolist()])
        notes.append(f"column {quote(name, 30)}: days since {origin.isoformat()}")
    return replace(table, columns=columns, notes=tuple(notes))


def _refuse_cell(table: Table, name: str) -> InputError:
    """Return the error for the first cell that differs from the form of most cells."""
    cells = [(row, cell) for row, cell in enumerate(table.columns[name].tolist(), 1) if cell]
    if not cells:
        return InputError(f"{table.source}: column {quote(name)} holds no value; leave it out")
    best = max(_FORMS, key=lambda form: sum(_read_day(cell, form) is not None for _, cell in cells))
    row, cell = next((r, c) for r, c in cells if _read_day(c, best) is None)
    return InputError(
        f"{table.source}, row {row}: column {quote(name)} holds {quote(cell)}, no date such as "
        "2021-03-31; mend it, or leave the column out"
    )
