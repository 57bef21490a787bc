"""Designs from one table: choice of columns, coding of categories, and checks."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unshuffle.errors import InputError, quote, suggest
from unshuffle.io.columns.dates import find_date_form
from unshuffle.io.columns.missing import (
    DROPPED_LABELS,
    Missing,
    describe_dropped,
    describe_missing,
    describe_none_complete,
)
from unshuffle.io.columns.remarks import remark_columns
from unshuffle.io.table import Column, Table, as_text, check_names
from unshuffle.io.text.notation import find_number_format, find_unit, is_number

# Most levels of a category, each of which has a column in X. Text that is not declared categorical
# is more often a name, so fewer levels are allowed.
MAX_LEVELS, MAX_UNDECLARED = 100, 30

# Values of the column of anchors.
_ANSWERS: dict[Any, bool] = {
    **dict.fromkeys(("1", "true", "yes", "t", "y"), True),
    **dict.fromkeys(("0", "false", "no", "f", "n"), False),
    1.0: True,
    0.0: False,
}

# From here on different whole numbers are the same float, so bags would be merged.
LARGEST_WHOLE = 2.0**53


@dataclass(frozen=True)
class Apart:
    """Facts of labels in a table of their own.

    ``groups`` is the bag of each label, ``counts`` its frequency, and ``high`` the upper ends of
    bins whose lower ends are the values. ``is_mean`` marks mean labels of bags, or totals where
    ``are_totals``. ``same_individuals`` is that of `unshuffle.fit`.
    """

    groups: NDArray[Any] | None
    counts: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    same_individuals: bool | None = None
    is_mean: NDArray[np.bool_] | None = None
    are_totals: bool = False


@dataclass(frozen=True)
class Coding:
    """The coding of a column: as it is, or a column for each level but the base (the first)."""

    column: str
    levels: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Design:
    """The data of a fit: X (n, d), y (n,), groups (n,) or None, and how they were made.

    ``rows`` are the places of the rows in their table, from 0. ``counts`` are the frequencies of
    rows and their labels; labels ``apart`` have a number and an order of their own. ``coding`` is
    the coding of the columns of the table, and ``anchors`` marks rows beside their own label.
    Counts that ``are_shares`` are the composition of bags, and their sum has no meaning.
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    groups: NDArray[Any] | None
    feature_names: tuple[str, ...]
    notes: tuple[str, ...]
    rows: NDArray[np.intp]
    counts: NDArray[np.float64] | None = None
    apart: Apart | None = None
    coding: tuple[Coding, ...] = ()
    anchors: NDArray[np.bool_] | None = None
    are_shares: bool = False

    @property
    def base_levels(self) -> dict[str, str]:
        """The base level of each categorical column."""
        return {each.column: each.levels[0] for each in self.coding if each.levels}

    @property
    def sources(self) -> tuple[str, ...]:
        """The column of the table that each feature was made from."""
        # The longest first: one name may begin another.
        bases = sorted(self.base_levels, key=len, reverse=True)
        return tuple(
            next((base for base in bases if name.startswith(f"{base}=")), name)
            for name in self.feature_names
        )


def make_design(
    table: Table,
    *,
    label: str,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    bag: str | None = None,
    weight: str | None = None,
    categorical: Sequence[str] = (),
    missing: Missing = "error",
    anchor: str | None = None,
    base: Mapping[str, str] | None = None,
) -> Design:
    """Return the design of one table.

    Without ``features`` all columns are features but label, bag, weight, anchor, those of
    ``exclude`` and those that the table sets aside. A text column becomes one column of 0 and 1 for
    each level but the base level, named "column=level"; the base level is the first in sorted
    order, or that of ``base``. ``categorical`` names columns of numbers to be coded in the same
    way. ``weight`` is a column of frequencies, ``anchor`` one of yes and no: whether a row is
    beside its own label. Rows with missing or infinite values are refused, or with
    ``missing="drop"`` dropped and counted in a note.
    """
    label = table.find(label, "label column")
    bag = None if bag is None else table.find(bag, "bag column")
    weight = None if weight is None else table.find(weight, "weight column")
    categorical = [table.find(name) for name in categorical]
    anchor = None if anchor is None else table.find(anchor, "anchor column")
    roles = {"label": label, "bag": bag, "weight": weight, "anchor": anchor}
    chosen = choose_features(table, features, roles, exclude)
    check_numbers(table, label)
    if weight is not None:
        check_numbers(table, weight, "weight")
    check_numeric(table, [name for name in chosen if name not in categorical])
    used = [*chosen, label] + [name for name in (bag, weight, anchor) if name is not None]
    rows, notes = complete_rows(table, used, missing)
    if len(rows) < table.n_rows:
        notes.append(DROPPED_LABELS)
    rows, counts, left_out = choose_counts(table, weight, rows)
    X, names, coding, more = code_features(table, chosen, categorical, rows, base)
    numbers = [name for name in chosen if name not in categorical]
    more += remark_columns(table, numbers, [label], rows, features is not None, bag)
    groups = None if bag is None else bag_keys(table, bag, rows)
    y = table.columns[label] if len(rows) == table.n_rows else table.columns[label][rows]
    notes = [*table.notes, *notes, *left_out, *more]
    anchors = None if anchor is None else read_anchors(table, anchor, rows)
    if anchors is not None and counts is not None:
        raise InputError(
            f"{table.source}: anchors are single pairs, and the weight column {quote(weight)} "
            "makes several of one line; leave the anchor or the weight out"
        )
    if anchors is not None:
        n_known = int(anchors.sum())
        notes.append(f"column {quote(anchor, 30)}: {n_known} of {len(rows)} pairs are known")
    return Design(X, y, groups, names, tuple(notes), rows, counts, coding=coding, anchors=anchors)


def read_anchors(table: Table, anchor: str, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return which rows are beside their own label, from a column of yes and no."""
    found = np.zeros(len(rows), dtype=bool)
    for place, value in enumerate(table.columns[anchor][rows].tolist()):
        answer = _ANSWERS.get(value.strip().lower() if isinstance(value, str) else value)
        if answer is None:
            shown = f"{value:g}" if isinstance(value, float) else quote(value)
            raise InputError(
                f"{table.source}, row {rows[place] + 1}: the anchor column {quote(anchor)} holds "
                f"{shown}; say 1 where the label belongs to its row, and 0 where nobody knows"
            )
        found[place] = answer
    return found


def choose_features(
    table: Table,
    features: Sequence[str] | None,
    roles: Mapping[str, str | None],
    exclude: Sequence[str] = (),
) -> list[str]:
    """Return the columns of features: those named, or all without another role."""
    if features is not None and exclude:
        raise InputError("give features or columns to exclude, not both")
    taken: dict[str, str] = {}
    for role, name in roles.items():
        if name is not None and name in taken:
            raise InputError(
                f"{table.source}: {quote(name)} cannot be both {taken[name]} and {role}"
            )
        if name is not None:
            taken[name] = role
    if features is None:
        here = [name for name in exclude if name not in table.absent]
        left_out = {table.find(name, "column to exclude") for name in here}
        left_out |= {*taken, *table.aside}
        chosen = [name for name in table.names if name not in left_out]
    else:
        chosen = [table.find(name, "feature column") for name in features]
    seen: set[str] = set()
    for name in chosen:
        if name in taken:
            raise InputError(
                f"{table.source}: {quote(name)} is the {taken[name]} column; "
                "leave it out of the features"
            )
        if name in seen:
            raise InputError(f"{table.source}: feature {quote(name)} is named twice; name it once")
        seen.add(name)
    if not chosen:
        raise InputError(f"{table.source}: no feature columns are left; name some")
    return chosen


def check_numbers(table: Table, name: str, role: str = "label") -> None:
    """Refuse a column of text where numbers are needed."""
    column = table.columns[name]
    if column.dtype == object:
        # Numbers stored as text, as in a Parquet file, count as text.
        texts = [(i, v) for i, v in enumerate(column.tolist()) if v is not None]
        place, value = next(((i, v) for i, v in texts if not is_number(v)), texts[0])
        row = f"{table.source}, row {place + 1}"
        raise InputError(describe_text(row, name, value, role))


def describe_text(place: str, name: str, value: str, role: str = "label") -> str:
    """Return the error for a cell of text in a column that must be numeric."""
    what = f"the text {quote(value)}; make it numbers, or a missing value (na={quote(value)})"
    if find_unit([value]) is not None:
        what = f"{quote(value)}, a number with a unit; write the number alone"
    return f"{place}: the {role} column {quote(name)} holds {what}, or choose another {role}"


def describe_odd_cell(place: str, name: str, value: str) -> str:
    """Return the error for a cell of text in a column of numbers."""
    return (
        f"{place}: column {quote(name)} holds numbers, but here {quote(value)}; mend it, make it a "
        f"missing value (na={quote(value)}), leave the column out, or declare it categorical"
    )


def check_numeric(table: Table, names: Sequence[str]) -> None:
    """Refuse text columns that contain numbers: with units, mixed with text, or with odd marks."""
    for name in names:
        column = table.columns[name]
        if column.dtype != object:
            continue
        levels = set(column.tolist()) - {None}
        numbers = {level for level in levels if find_number_format(level.strip()) is not None}
        unit = find_unit(levels)
        if unit is not None:
            odd = {level for level in levels if find_unit([level]) == unit}
        elif numbers and not all(map(is_number, levels)):
            odd = levels - numbers or {level for level in levels if not is_number(level)}
        else:
            continue
        place, value = next((i, v) for i, v in enumerate(column.tolist()) if v in odd)
        row = f"{table.source}, row {place + 1}"
        if unit is None:
            raise InputError(describe_odd_cell(row, name, value))
        raise InputError(
            f"{row}: column {quote(name)} holds {quote(value)}, a number with a unit; write the "
            "number alone, leave the column out, or declare it categorical"
        )


def complete_rows(
    table: Table, names: Sequence[str], missing: Missing, is_optional: bool = True
) -> tuple[NDArray[np.intp], list[str]]:
    """Return the places of rows whose cells are all present and finite, and notes.

    Errors advise to leave columns out if these are optional.
    """
    if missing not in ("error", "drop"):
        raise InputError(f"missing is 'error' or 'drop', not {quote(missing)}")
    is_complete = np.ones(table.n_rows, dtype=bool)
    counts: dict[str, int] = {}
    for name in names:
        column = table.columns[name]
        is_there = is_present(column)
        if not is_there.all():
            counts[name] = int((~is_there).sum())
            is_complete &= is_there
    if counts and missing == "error":
        # The first such row in any column, so users repair a file from its beginning.
        place = int(np.argmin(is_complete))
        name = next(name for name in counts if not is_present(table.columns[name])[place])
        n_missing, value = int((~is_complete).sum()), table.columns[name][place]
        what = (table.source, n_missing, table.n_rows, place + 1, name, value)
        raise InputError(describe_missing(*what, is_optional, counts))
    rows = np.flatnonzero(is_complete)
    if len(rows) == 0:
        raise InputError(describe_none_complete(table.source, counts))
    if not counts:
        return rows, []
    n_dropped = table.n_rows - len(rows)
    return rows, [describe_dropped(table.source, n_dropped, table.n_rows, counts)]


def is_present(column: Column) -> NDArray[np.bool_]:
    """Return which cells are text or finite numbers."""
    if column.dtype == object:
        return np.array([value is not None for value in column.tolist()], dtype=bool)
    return np.isfinite(column)


def code_features(
    table: Table,
    chosen: Sequence[str],
    categorical: Sequence[str],
    rows: NDArray[np.intp],
    base: Mapping[str, str] | None = None,
) -> tuple[NDArray[np.float64], tuple[str, ...], tuple[Coding, ...], list[str]]:
    """Return X, its column names, the coding of each column of the table, and notes.

    ``base`` names base levels of categories; the default is the first in sorted order.
    """
    bases = {table.find(name, "category"): level for name, level in (base or {}).items()}
    for name in bases:
        if name not in chosen or (table.columns[name].dtype != object and name not in categorical):
            raise InputError(
                f"{table.source}: column {quote(name)} is given a base level, but is no category "
                "among the features; leave its base level out, or declare it categorical"
            )
    blocks: list[Column] = []
    names: list[str] = []
    coding: list[Coding] = []
    notes: list[str] = []
    is_whole = len(rows) == table.n_rows
    for name in chosen:
        column = table.columns[name] if is_whole else table.columns[name][rows]
        if column.dtype != object and name not in categorical:
            blocks.append(column)
            names.append(name)
            coding.append(Coding(name))
            continue
        cells = as_text(column)
        levels = _find_levels(cells, name, table.source, name in categorical)
        levels = _put_first(levels, bases.get(name), name, table.source)
        codes = _number_levels(cells, levels)
        coding.append(Coding(name, tuple(levels)))
        blocks += [(codes == place).astype(np.float64) for place in range(1, len(levels))]
        names += [f"{name}={level}" for level in levels[1:]]
        only = " (its only level, so it adds nothing)" if len(levels) == 1 else ""
        notes.append(f"column {quote(name, 30)}: base level {quote(levels[0], 30)}{only}")
    if not blocks:
        raise InputError(f"{table.source}: the features hold one level each; nothing can be fitted")
    check_names(names, table.source)
    return _put_together(blocks), tuple(names), tuple(coding), notes


def _put_together(columns: Sequence[Column]) -> NDArray[np.float64]:
    """Return columns as a matrix, without a copy if they are the columns of one."""
    base, first = columns[0].base, columns[0]
    if base is not None and base.shape[1:] == (len(columns),) and base.flags.c_contiguous:
        X = base[: len(first)]
        if all(_is_same(X[:, j], column) for j, column in enumerate(columns)):
            return np.asarray(X)
    return np.column_stack(columns)


def _is_same(one: Column, other: Column) -> bool:
    """Whether two arrays share the same memory."""
    return bool(one.__array_interface__ == other.__array_interface__)


def _find_levels(column: Column, name: str, source: str, is_declared: bool) -> list[str]:
    """Return the levels of a category: numbers by size, then text in alphabetical order."""
    present = set(column.tolist())
    most = MAX_LEVELS if is_declared else MAX_UNDECLARED
    if not is_declared:
        _refuse_dates(present, name, source)
    if len(present) > most:
        declare = ", or declare it categorical" if len(present) <= MAX_LEVELS else ""
        raise InputError(
            f"{source}: column {quote(name)} holds {len(present)} different texts, for instance "
            f"{quote(min(present), 30)}; at most {most} make a category, leave it out{declare}"
        )
    return sorted(present, key=lambda level: (float(level) if is_number(level) else np.inf, level))


def _refuse_dates(levels: Collection[str], name: str, source: str) -> None:
    """Refuse a feature of dates, which are neither numbers nor categories."""
    form = find_date_form(sorted(levels))
    if form is not None:
        raise InputError(
            f"{source}: column {quote(name)} holds dates such as {quote(form.example)}; count days "
            f"(dates={quote(name)}), leave the column out, or declare it categorical"
        )


def _put_first(levels: list[str], base: str | None, name: str, source: str) -> list[str]:
    """Return the levels of a category with its base level first."""
    if base is None:
        return levels
    if base not in levels:
        raise InputError(
            f"{source}: column {quote(name)} has no level {quote(base)}; {suggest(base, levels)}"
        )
    return [base, *(level for level in levels if level != base)]


def _number_levels(column: Column, levels: Sequence[str]) -> NDArray[np.intp]:
    place = {level: i for i, level in enumerate(levels)}
    return np.array([place[level] for level in column.tolist()], dtype=np.intp)


def choose_counts(
    table: Table, weight: str | None, rows: NDArray[np.intp], what: str = "weight"
) -> tuple[NDArray[np.intp], NDArray[np.float64] | None, list[str]]:
    """Return the rows of positive frequency, the frequencies, and a note on the other rows.

    The frequencies are None if all are 1.
    """
    if weight is None:
        return rows, None, []
    column = table.columns[weight][rows]
    is_wrong = (column < 0) | (column != np.floor(column))
    if is_wrong.any():
        place = int(np.argmax(is_wrong))
        raise InputError(
            f"{table.source}, row {rows[place] + 1}: the {what} column {quote(weight)} holds "
            f"{column[place]:g}; a {what} says how often the line stands there, so give whole "
            "numbers of at least 0; shares of a bag are for rows whose labels are in another file"
        )
    keep = np.flatnonzero(column)
    if len(keep) == 0:
        raise InputError(
            f"{table.source}: every {what} in the column {quote(weight)} is 0, so that nothing is "
            "left; give at least one line that counts"
        )
    n_left_out = len(column) - len(keep)
    notes = [f"{table.source}: left out {n_left_out} of {len(column)} rows of {what} 0"]
    is_once = bool((column[keep] == 1).all())
    return rows[keep], None if is_once else column[keep], notes if n_left_out else []


def describe_odd_bag(place: str, bag: str, value: float) -> str:
    """Return the error for a number that cannot name a bag."""
    return (
        f"{place}: the bag column {quote(bag)} holds {value:.17g}, which names no bag; use whole "
        "numbers below 2^53 or text"
    )


def bag_keys(table: Table, bag: str, rows: NDArray[np.intp]) -> NDArray[Any]:
    """Return the names of bags: whole numbers or text."""
    column = table.columns[bag][rows]
    if column.dtype == object:
        return column
    is_whole = (column == np.floor(column)) & (np.abs(column) < LARGEST_WHOLE)
    if not is_whole.all():
        place = int(np.argmin(is_whole))
        row = f"{table.source}, row {rows[place] + 1}"
        raise InputError(describe_odd_bag(row, bag, column[place]))
    return column.astype(np.int64)
