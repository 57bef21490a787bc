"""Columns of dates: what they look like, and as numbers of days since a date."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime

import numpy as np

from unshuffle.errors import InputError, quote
from unshuffle.io.table import Table

# Where nobody names another day, days are counted from here: in new data as in old.
ORIGIN = date(2000, 1, 1)
_SECONDS = 86400.0

# A pattern, and how strptime reads what matches. Day before month and month before day look alike:
# both are tried, and one alone must fit all cells.
_TIME = r"(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?Z?)?"
_ISO = re.compile(rf"(\d{{4}})-(\d{{1,2}})-(\d{{1,2}})({_TIME})")
_OTHERS = (
    (re.compile(r"(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})"), "day.month.year"),
    (re.compile(r"(?P<d>\d{1,2})/(?P<m>\d{1,2})/(?P<y>\d{4})"), "day/month/year"),
    (re.compile(r"(?P<m>\d{1,2})/(?P<d>\d{1,2})/(?P<y>\d{4})"), "month/day/year"),
    (re.compile(r"(?P<y>\d{4})/(?P<m>\d{1,2})/(?P<d>\d{1,2})"), "year/month/day"),
)


@dataclass(frozen=True)
class DateForm:
    """How the dates of a column are written; ``doubt`` is another form that fits all cells."""

    name: str
    example: str
    doubt: str | None = None


def find_date_form(cells: Collection[str]) -> DateForm | None:
    """Return how dates are written where all cells hold one; None of any other column.

    >>> find_date_form(["2021-03-04", "2021-12-31"]).name
    'year-month-day'
    >>> find_date_form(["3/4/2021", "13/4/2021"]).name, find_date_form(["3/4/2021"]).doubt
    ('day/month/year', 'month/day/year')
    """
    if not cells:
        return None
    example = next(iter(cells))
    forms = [
        name for name in ("year-month-day", *(name for _, name in _OTHERS)) if _fits(cells, name)
    ]
    return DateForm(forms[0], example, forms[1] if len(forms) > 1 else None) if forms else None


def _fits(cells: Collection[str], form: str) -> bool:
    return all(_read_day(cell, form) is not None for cell in cells)


def _read_day(cell: str, form: str) -> float | None:
    """Return a date as days since the first day of the calendar, or None."""
    cell = cell.strip()
    try:
        if form == "year-month-day":
            found = _ISO.fullmatch(cell)
            return None if found is None else _read_iso(found)
        pattern = next(pattern for pattern, name in _OTHERS if name == form)
        other = pattern.fullmatch(cell)
        if other is None:
            return None
        return float(date(int(other["y"]), int(other["m"]), int(other["d"])).toordinal())
    except ValueError:  # no such day
        return None


def _read_iso(found: re.Match[str]) -> float:
    year, month, day, time = found.groups()
    whole = date(int(year), int(month), int(day)).toordinal()
    if not time:
        return float(whole)
    clock = datetime.fromisoformat(f"2000-01-01T{time[1:].removesuffix('Z').zfill(5)}")
    start = datetime(2000, 1, 1)
    return whole + (clock - start).total_seconds() / _SECONDS


def read_origins(names: Collection[str]) -> dict[str, date]:
    """Return the day from which each column counts: "visit=2020-03-01", or "visit" alone."""
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
    """Turn columns of dates into days since a date, or name the cell that holds none."""
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
    """Name the first cell that holds no date in the form that most cells have."""
    cells = [(row, cell) for row, cell in enumerate(table.columns[name].tolist(), 1) if cell]
    if not cells:
        return InputError(f"{table.source}: column {quote(name)} holds no value; leave it out")
    names = ["year-month-day", *(name for _, name in _OTHERS)]
    best = max(names, key=lambda form: sum(_read_day(cell, form) is not None for _, cell in cells))
    row, cell = next((r, c) for r, c in cells if _read_day(c, best) is None)
    return InputError(
        f"{table.source}, row {row}: column {quote(name)} holds {quote(cell)}, no date such as "
        "2021-03-31; mend it, or leave the column out"
    )
