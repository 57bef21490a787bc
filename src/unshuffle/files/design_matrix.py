"""From a table to X, y and groups: choosing columns, coding categories, refusing what is broken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unshuffle.errors import InputError, quote
from unshuffle.files.dialect import is_number
from unshuffle.files.table import Column, Table, as_text, check_names

Missing = Literal["error", "drop"]

# One column per level but one: more levels than this are an identifier, not a category, and a
# million rows of them would not fit in memory.
MAX_LEVELS = 100

# From here on neighbouring whole numbers are the same float, so bags would melt together.
_LARGEST_WHOLE = 2.0**53


@dataclass(frozen=True)
class Design:
    """What a fit needs: X (n, d), y (n,), groups (n,) or None, and how they came about.

    ``rows`` holds the place of each row in its table, counted from 0; ``base_levels`` maps a
    categorical column to the level that has no column of its own.
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    groups: NDArray[Any] | None
    feature_names: tuple[str, ...]
    notes: tuple[str, ...]
    base_levels: Mapping[str, str]
    rows: NDArray[np.intp]


def make_design(
    table: Table,
    *,
    label: str,
    features: Sequence[str] | None = None,
    bag: str | None = None,
    categorical: Sequence[str] = (),
    missing: Missing = "error",
) -> Design:
    """Choose label, features and bag from one table.

    Without ``features`` all columns but label and bag are used. A text column becomes one column
    of 0 and 1 per level but the first in sorted order, named "column=level"; ``categorical`` names
    columns of numbers to be coded the same way. ``missing`` says what to do with rows that hold a
    missing or infinite value: refuse them, or drop them and say how many.
    """
    label = table.find(label, "label column")
    bag = None if bag is None else table.find(bag, "bag column")
    categorical = [table.find(name) for name in categorical]
    chosen = _choose_features(table, features, label, bag)
    _check_label(table, label)
    _check_numeric(table, [name for name in chosen if name not in categorical])
    used = [*chosen, label] + ([] if bag is None else [bag])
    rows, notes = _complete_rows(table, used, missing)
    if len(rows) < table.n_rows:
        notes.append(
            "labels are not linked to rows, so a dropped row takes along a label of its bag that "
            "may belong to another row"
        )
    X, names, base_levels, more = _code_features(table, chosen, categorical, rows)
    groups = None if bag is None else _bag_keys(table, bag, rows)
    y = table.columns[label][rows]
    notes = [*table.notes, *notes, *more]
    return Design(X, y, groups, names, tuple(notes), base_levels, rows)


def make_design_from_two(
    rows: Table,
    labels: Table,
    *,
    label: str | None = None,
    bag: str | None = None,
    features: Sequence[str] | None = None,
    categorical: Sequence[str] = (),
    missing: Missing = "error",
) -> Design:
    """Choose features from one table and labels from another; their order carries no meaning.

    ``label`` may be left out when the label table has one column beside the bag column. Every bag
    needs as many rows as labels. The other parameters are those of `make_design`.
    """
    row_bag = None if bag is None else rows.find(bag, "bag column")
    label_bag = None if bag is None else labels.find(bag, "bag column")
    label = _choose_label(labels, label, label_bag)
    categorical = [rows.find(name) for name in categorical]
    chosen = _choose_features(rows, features, None, row_bag)
    _check_label(labels, label)
    _check_numeric(rows, [name for name in chosen if name not in categorical])
    row_places, notes = _complete_rows(rows, chosen + ([row_bag] if row_bag else []), missing)
    needed = [label] + ([label_bag] if label_bag else [])
    label_places, more = _complete_rows(labels, needed, missing)
    X, names, base_levels, coding = _code_features(rows, chosen, categorical, row_places)
    groups = None if row_bag is None else _bag_keys(rows, row_bag, row_places)
    other = None if label_bag is None else _bag_keys(labels, label_bag, label_places)
    if groups is not None and other is not None and groups.dtype != other.dtype:
        groups, other = groups.astype(str).astype(object), other.astype(str).astype(object)
    y = labels.columns[label][label_places]
    _check_counts(groups, other, (rows, labels), (len(X), len(y)))
    if groups is not None and other is not None:
        y = _deal_labels(y, groups, other)
    notes = [*rows.notes, *labels.notes, *notes, *more, *coding]
    return Design(X, y, groups, names, tuple(notes), base_levels, row_places)


def _choose_features(
    table: Table, features: Sequence[str] | None, label: str | None, bag: str | None
) -> list[str]:
    taken = {name: role for name, role in ((label, "label"), (bag, "bag")) if name is not None}
    if label is not None and label == bag:
        raise InputError(f"{table.source}: {quote(label)} cannot be both label and bag")
    if features is None:
        chosen = [name for name in table.names if name not in taken]
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


def _choose_label(labels: Table, label: str | None, bag: str | None) -> str:
    if label is not None:
        return labels.find(label, "label column")
    left = [name for name in labels.names if name != bag]
    if len(left) != 1:
        shown = ", ".join(quote(name, 30) for name in left[:6]) or "none"
        raise InputError(f"{labels.source}: which column is the label? Name one of: {shown}")
    return left[0]


def _check_label(table: Table, label: str) -> None:
    column = table.columns[label]
    if column.dtype == object:
        # Numbers written as text, in a Parquet file or a frame, are text all the same.
        texts = [(i, v) for i, v in enumerate(column.tolist()) if v is not None]
        place, value = next(((i, v) for i, v in texts if not is_number(v)), texts[0])
        raise InputError(
            f"{table.source}, row {place + 1}: the label column {quote(label)} holds the text "
            f"{quote(value)}; make it numbers or choose another label"
        )


def _check_numeric(table: Table, names: Sequence[str]) -> None:
    """Refuse columns that mix numbers with text: more often a slip than a category."""
    for name in names:
        column = table.columns[name]
        if column.dtype != object:
            continue
        levels = set(column.tolist()) - {None}
        # A decimal comma or a thousands mark the reader did not expect is such a slip as well.
        words = {v for v in levels if not is_number(v, ",")}
        odd = words or {v for v in levels if not is_number(v)}
        if odd and len(words) < len(levels):
            place, value = next((i, v) for i, v in enumerate(column.tolist()) if v in odd)
            raise InputError(
                f"{table.source}, row {place + 1}: column {quote(name)} holds numbers, but here "
                f"{quote(value)}; mend it, leave the column out, or declare it categorical"
            )


def _complete_rows(
    table: Table, names: Sequence[str], missing: Missing
) -> tuple[NDArray[np.intp], list[str]]:
    """Return the places of rows whose cells are all present and finite."""
    if missing not in ("error", "drop"):
        raise InputError(f"missing is 'error' or 'drop', not {quote(missing)}")
    is_complete = np.ones(table.n_rows, dtype=bool)
    counts = {}
    for name in names:
        column = table.columns[name]
        is_present = _is_present(column)
        if not is_present.all():
            counts[name] = int((~is_present).sum())
            is_complete &= is_present
    if counts and missing == "error":
        # The first broken row of all columns, so that mending proceeds from the top.
        place = int(np.argmin(is_complete))
        raise InputError(_describe_missing(table, list(counts), place))
    rows = np.flatnonzero(is_complete)
    if len(rows) == 0:
        worst = max(counts, key=lambda name: counts[name])
        raise InputError(
            f"{table.source}: every row misses a value (column {quote(worst)} in "
            f"{counts[worst]} rows); leave such columns out"
        )
    if not counts:
        return rows, []
    shown = ", ".join(f"{count} in {quote(name, 30)}" for name, count in list(counts.items())[:6])
    n_dropped = table.n_rows - len(rows)
    return rows, [
        f"{table.source}: dropped {n_dropped} of {table.n_rows} rows with missing or infinite "
        f"values ({shown})"
    ]


def _is_present(column: Column) -> NDArray[np.bool_]:
    if column.dtype == object:
        return np.array([value is not None for value in column.tolist()], dtype=bool)
    return np.isfinite(column)


def _describe_missing(table: Table, names: Sequence[str], place: int) -> str:
    for name in names:
        value = table.columns[name][place]
        is_infinite = isinstance(value, float) and np.isinf(value)
        if value is None or not (isinstance(value, str) or np.isfinite(value)):
            what = f"is {value:g}" if is_infinite else "is missing"
            return (
                f"{table.source}, row {place + 1}: column {quote(name)} {what}; mend it, "
                "leave the column out, or drop such rows (missing='drop')"
            )
    raise AssertionError("unreachable: the row was found incomplete")


def _code_features(
    table: Table, chosen: Sequence[str], categorical: Sequence[str], rows: NDArray[np.intp]
) -> tuple[NDArray[np.float64], tuple[str, ...], dict[str, str], list[str]]:
    """Return X, its column names, the base level of each category, and notes."""
    blocks: list[Column] = []
    names: list[str] = []
    base_levels: dict[str, str] = {}
    notes: list[str] = []
    for name in chosen:
        column = table.columns[name][rows]
        if column.dtype != object and name not in categorical:
            blocks.append(column)
            names.append(name)
            continue
        levels, codes = _find_levels(as_text(column), name, table.source)
        base_levels[name] = levels[0]
        blocks += [(codes == place).astype(np.float64) for place in range(1, len(levels))]
        names += [f"{name}={level}" for level in levels[1:]]
        only = " (its only level, so it adds nothing)" if len(levels) == 1 else ""
        notes.append(f"column {quote(name, 30)}: base level {quote(levels[0], 30)}{only}")
    if not blocks:
        raise InputError(f"{table.source}: the features hold one level each; nothing can be fitted")
    check_names(names, table.source)
    return np.column_stack(blocks), tuple(names), base_levels, notes


def _find_levels(column: Column, name: str, source: str) -> tuple[list[str], NDArray[np.intp]]:
    present = set(column.tolist())
    if len(present) > MAX_LEVELS:
        raise InputError(
            f"{source}: column {quote(name)} holds {len(present)} different texts, for instance "
            f"{quote(min(present), 30)}; at most {MAX_LEVELS} make a category, leave it out"
        )
    # Numbers in order of size, everything else in alphabetical order.
    levels = sorted(
        present, key=lambda level: (float(level) if is_number(level) else np.inf, level)
    )
    place = {level: i for i, level in enumerate(levels)}
    return levels, np.array([place[level] for level in column.tolist()], dtype=np.intp)


def _bag_keys(table: Table, bag: str, rows: NDArray[np.intp]) -> NDArray[Any]:
    column = table.columns[bag][rows]
    if column.dtype == object:
        return column
    is_whole = (column == np.floor(column)) & (np.abs(column) < _LARGEST_WHOLE)
    if not is_whole.all():
        place = int(np.argmin(is_whole))
        raise InputError(
            f"{table.source}, row {rows[place] + 1}: the bag column {quote(bag)} holds "
            f"{column[place]:.17g}, which names no bag; use whole numbers below 2^53 or text"
        )
    return column.astype(np.int64)


def _check_counts(
    groups: NDArray[Any] | None,
    other: NDArray[Any] | None,
    tables: tuple[Table, Table],
    counts: tuple[int, int],
) -> None:
    """Refuse bags that have more rows than labels or the other way round."""
    where = ""
    if groups is not None and other is not None:
        keys, codes = np.unique(np.concatenate([groups, other]), return_inverse=True)
        row_counts = np.bincount(codes[: len(groups)], minlength=len(keys))
        label_counts = np.bincount(codes[len(groups) :], minlength=len(keys))
        worst = int(np.argmax(row_counts != label_counts))
        counts = int(row_counts[worst]), int(label_counts[worst])
        where = f"bag {quote(keys[worst], 30)} has "
    if counts[0] != counts[1]:
        raise InputError(
            f"{where}{counts[0]} rows in {tables[0].source} and {counts[1]} labels in "
            f"{tables[1].source}; every bag needs as many rows as labels, so check both files"
        )


def _deal_labels(
    y: NDArray[np.float64], groups: NDArray[Any], other: NDArray[Any]
) -> NDArray[np.float64]:
    """Lay the labels of each bag beside its rows, in any order."""
    _, codes = np.unique(np.concatenate([groups, other]), return_inverse=True)
    row_codes, label_codes = codes[: len(groups)], codes[len(groups) :]
    dealt = np.empty(len(y))
    dealt[np.argsort(row_codes, kind="stable")] = y[np.argsort(label_codes, kind="stable")]
    return dealt
