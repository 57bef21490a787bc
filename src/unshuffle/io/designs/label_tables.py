"""Tables of labels: single labels, bins of histograms, and means or totals of bags.

A histogram has the columns low, high and count, with one line for each bin of a bag. A column mean
or total describes a bag in one line, alone or beside bags of single labels.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unshuffle.errors import InputError, quote
from unshuffle.io.columns.missing import Missing
from unshuffle.io.columns.remarks import remark_columns
from unshuffle.io.designs.design_matrix import (
    Apart,
    bag_keys,
    check_numbers,
    choose_counts,
    complete_rows,
)
from unshuffle.io.table import Column, Table

_LOW, _HIGH, _COUNT = _COLUMNS = ("low", "high", "count")
_MEAN, _TOTAL = "mean", "total"


@dataclass(frozen=True)
class LabelTable:
    """Labels as read from a table of their own: values or lower ends of bins, and the rest."""

    y: NDArray[np.float64]
    apart: Apart
    notes: list[str]


def read_labels(
    labels: Table,
    label: str | None,
    bag: str | None,
    weight: str | None,
    missing: Missing,
    log10: bool,
) -> LabelTable:
    """Return the labels of a table; the caller takes logarithms of single labels."""
    if label is None and is_histogram(labels):
        if weight not in (None, _COUNT):
            raise InputError(
                f"{labels.source}: a histogram has its numbers in the column {quote(_COUNT)}, so "
                f"that the weight column {quote(weight)} means nothing there; leave it out"
            )
        places, low, high, counts, notes = _read_bins(labels, bag, missing, log10)
        groups = None if bag is None else bag_keys(labels, bag, places)
        return LabelTable(low, Apart(groups, counts, high), notes)
    column = _find_mean_column(labels, label)
    if column is not None:
        return _read_means(labels, column, label, bag, weight, missing, log10)
    name = _choose_label(labels, label, bag, weight)
    check_numbers(labels, name)
    if weight is not None:
        check_numbers(labels, weight, "weight")
    needed = [name] + [each for each in (bag, weight) if each is not None]
    places, notes = complete_rows(labels, needed, missing)
    places, repeats, left_out = choose_counts(labels, weight, places)
    groups = None if bag is None else bag_keys(labels, bag, places)
    notes += [*left_out, *remark_columns(labels, [], [name], places, True)]
    return LabelTable(labels.columns[name][places], Apart(groups, repeats), notes)


def is_histogram(table: Table) -> bool:
    """Return whether a table of labels is a histogram; one that lacks a column is refused.

    Two of the three names are taken for a histogram with one misspelt column.
    """
    n_found = sum(name in table.names for name in _COLUMNS)
    if n_found == 2:
        for name in _COLUMNS:
            table.find(name, "column of a histogram")
    return n_found == len(_COLUMNS)


def _read_bins(
    table: Table, bag: str | None, missing: Missing, log10: bool = False
) -> tuple[NDArray[np.intp], NDArray[Any], NDArray[Any], NDArray[Any], list[str]]:
    """Return the places, ends and counts of the bins that hold labels, and notes.

    An empty cell is an open end. Bins of one bag may have gaps but must not overlap. With ``log10``
    the ends become logarithms.
    """
    check_numbers(table, _COUNT, "count")
    low, high = (_read_ends(table, name) for name in (_LOW, _HIGH))
    places, notes = complete_rows(table, [_COUNT] + ([bag] if bag else []), missing)
    low, high = low[places], high[places]
    _check_ends(table, places, low, high)
    _check_overlap(table, places, low, high, bag)
    # An empty bin is the same as a gap.
    keep, counts, _ = choose_counts(table, _COUNT, places, "count")
    is_kept = np.isin(places, keep)
    low, high = low[is_kept], high[is_kept]
    counts = np.ones(len(keep)) if counts is None else counts
    if log10:
        low, high = _take_logs(table, keep, low, high)
        notes.append("edges turned into log10; a bin that begins at 0 or below is open there")
    return keep, low, high, counts, notes


def _take_logs(
    table: Table, places: NDArray[np.intp], low: NDArray[np.float64], high: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bins on the scale of log10; an end of 0 or below is an open one."""
    if (high <= 0).any():
        k = int(np.argmax(high <= 0))
        raise InputError(
            f"{table.source}, row {places[k] + 1}: the bin ends at {high[k]:g}, and labels of 0 "
            "and below have no logarithm; leave it out, or fit without logarithms"
        )
    logs = np.log10(low, out=np.full(len(low), -np.inf), where=low > 0)
    return logs, np.log10(high)


def _read_ends(table: Table, name: str) -> NDArray[np.float64]:
    """Return one end of every bin: an empty cell is minus or plus infinity."""
    column: Column = table.columns[name]
    if column.dtype == object and any(value is not None for value in column.tolist()):
        check_numbers(table, name, "histogram")
    open_end = -np.inf if name == _LOW else np.inf
    if column.dtype == object:
        return np.full(table.n_rows, open_end)
    return np.where(np.isnan(column), open_end, column)


def _check_ends(
    table: Table, places: NDArray[np.intp], low: NDArray[np.float64], high: NDArray[np.float64]
) -> None:
    """Refuse bins whose ends decrease, and bins without a finite end."""
    is_wrong = ~(low <= high)
    if is_wrong.any():
        k = int(np.argmax(is_wrong))
        raise InputError(
            f"{table.source}, row {places[k] + 1}: the bin goes from {low[k]:g} down to "
            f"{high[k]:g}; exchange its ends or mend them"
        )
    is_endless = (np.isinf(low) & np.isinf(high)) | (low == np.inf) | (high == -np.inf)
    if is_endless.any():
        k = int(np.argmax(is_endless))
        raise InputError(
            f"{table.source}, row {places[k] + 1}: the bin goes from {low[k]:g} to {high[k]:g} and "
            "says nothing; give it at least one end, or leave it out"
        )


def _check_overlap(
    table: Table,
    places: NDArray[np.intp],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    bag: str | None,
) -> None:
    """Refuse bins of one bag that overlap."""
    names = np.zeros(len(places), dtype=int)
    if bag is not None:
        names = np.unique(table.columns[bag][places], return_inverse=True)[1]
    order = np.lexsort([high, low, names])
    before, after = order[:-1], order[1:]
    is_wrong = (names[before] == names[after]) & (low[after] < high[before])
    if is_wrong.any():
        k = int(np.argmax(is_wrong))
        one, other = before[k], after[k]
        where = "" if bag is None else f" of bag {quote(table.columns[bag][places[one]], 30)}"
        raise InputError(
            f"{table.source}, rows {places[one] + 1} and {places[other] + 1}: the bins{where} from "
            f"{low[one]:g} to {high[one]:g} and from {low[other]:g} to {high[other]:g} overlap; "
            "give every label one bin"
        )


def make_edges(
    low: NDArray[np.float64], high: NDArray[np.float64], counts: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the edges and counts of the bins of one bag, in order; gaps are bins of count 0.

    >>> make_edges(np.array([4.0, 0.0]), np.array([5.0, 1.0]), np.array([2.0, 3.0]))[1].tolist()
    [3.0, 0.0, 2.0]
    """
    edges: list[float] = []
    found: list[float] = []
    for k in np.lexsort([counts, high, low]):
        if not edges:
            edges.append(float(low[k]))
        elif low[k] > edges[-1]:
            edges.append(float(low[k]))
            found.append(0.0)
        edges.append(float(high[k]))
        found.append(float(counts[k]))
    return np.array(edges), np.array(found)


def _find_mean_column(table: Table, label: str | None) -> str | None:
    """Return the column that holds means or totals; None where there is none.

    A column that is named as the label holds labels, whatever its name.
    """
    found = [name for name in (_MEAN, _TOTAL) if name in table.names and name != label]
    if len(found) == 2:
        raise InputError(
            f"{table.source} has a column {quote(_MEAN)} and a column {quote(_TOTAL)}; leave one "
            "out"
        )
    return found[0] if found else None


def is_mean_table(table: Table, label: str | None) -> bool:
    """Return whether a table of labels holds means or totals of bags."""
    return _find_mean_column(table, label) is not None


def _read_means(
    labels: Table,
    column: str,
    label: str | None,
    bag: str | None,
    weight: str | None,
    missing: Missing,
    log10: bool,
) -> LabelTable:
    """Read means or totals of bags; each line has one of them, or a label where one is named."""
    if log10:
        raise InputError(
            f"{labels.source}: the {column} of logarithms does not follow from that of the labels; "
            f"give the {column} of log10 labels, and leave --log10 out"
        )
    if weight is not None:
        raise InputError(
            f"{labels.source}: the number of labels behind a {column} is that of the rows of its "
            f"bag; leave the weight column {quote(weight)} out"
        )
    check_numbers(labels, column)
    values = labels.columns[column].astype(float)
    is_mean = ~np.isnan(values)
    places, notes = np.arange(labels.n_rows), list[str]()
    if label is None:
        needed = [column] + ([] if bag is None else [bag])
        places, notes = complete_rows(labels, needed, missing)
    else:
        name = labels.find(label, "label column")
        check_numbers(labels, name)
        single = labels.columns[name].astype(float)
        _check_one_value(labels, name, column, is_mean, ~np.isnan(single))
        values = np.where(is_mean, values, single)
    groups = None if bag is None else bag_keys(labels, bag, places)
    notes.append(f"bags with a {column} are known by that alone")
    apart = Apart(groups, is_mean=is_mean[places], are_totals=column == _TOTAL)
    return LabelTable(values[places], apart, notes)


def _check_one_value(
    labels: Table,
    name: str,
    column: str,
    is_mean: NDArray[np.bool_],
    is_label: NDArray[np.bool_],
) -> None:
    """Refuse lines with a label and a mean, and lines with neither."""
    wrong = np.flatnonzero(is_mean == is_label)
    if len(wrong):
        row, found = wrong[0], "both" if is_mean[wrong[0]] else "neither"
        raise InputError(
            f"{labels.source}, row {row + 1}: {found} of {quote(name)} and {quote(column)}; give "
            f"a label on a line of its own, or one line with the {column} of a bag"
        )


def check_single(
    table: Table, codes: NDArray[np.intp], is_mean: NDArray[np.bool_], keys: NDArray[np.generic]
) -> None:
    """Refuse a bag with several means, or with a mean and labels of its own."""
    n_lines = np.bincount(codes, minlength=len(keys))
    wrong = np.flatnonzero((n_lines > 1) & (np.bincount(codes, is_mean, len(keys)) > 0))
    if len(wrong):
        r = int(wrong[0])
        raise InputError(
            f"{table.source}: bag {quote(keys[r], 30)} has a mean or total and {n_lines[r] - 1} "
            "more lines; give one line with its mean or total, or name the column with --label if "
            "it holds single labels"
        )


def _choose_label(labels: Table, label: str | None, bag: str | None, weight: str | None) -> str:
    """Return the column of labels: the one named, or the only one there is."""
    if label is not None:
        return labels.find(label, "label column")
    left = [name for name in labels.names if name not in (bag, weight)]
    if len(left) != 1:
        shown = ", ".join(quote(name, 30) for name in left[:6]) or "none"
        raise InputError(f"{labels.source}: which column is the label? Name one of: {shown}")
    return left[0]


def describe_label(labels: Table, label: str | None, bag: str | None, weight: str | None) -> str:
    """Return the name of what is fitted: a column, or the ends of bins."""
    if label is None and is_histogram(labels):
        return f"{_LOW} to {_HIGH}"
    column = None if label is not None else _find_mean_column(labels, label)
    return column or _choose_label(labels, label, bag, weight)
