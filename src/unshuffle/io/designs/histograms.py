"""Labels as a table of bins: columns low, high and count, a line for each bin of a bag."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unshuffle.errors import InputError, quote
from unshuffle.io.columns.missing import Missing
from unshuffle.io.designs.design_matrix import check_numbers, choose_counts, complete_rows
from unshuffle.io.table import Column, Table

LOW, HIGH, COUNT = "low", "high", "count"
_COLUMNS = (LOW, HIGH, COUNT)


def is_histogram(table: Table) -> bool:
    """Return whether a table of labels is a histogram; one that lacks a column is refused.

    Two of the three names are taken for a histogram with a slip in the third.
    """
    n_found = sum(name in table.names for name in _COLUMNS)
    if n_found == 2:
        for name in _COLUMNS:
            table.find(name, "column of a histogram")
    return n_found == len(_COLUMNS)


def read_bins(
    table: Table, bag: str | None, missing: Missing, log10: bool = False
) -> tuple[NDArray[np.intp], NDArray[Any], NDArray[Any], NDArray[Any], list[str]]:
    """Return the places, the ends and the counts of the bins that hold labels, and notes.

    An empty cell is an open end. Bins of one bag may lie apart, but not on each other. With
    ``log10`` the ends are turned into their logarithms.
    """
    check_numbers(table, COUNT, "count")
    low, high = (_read_ends(table, name) for name in (LOW, HIGH))
    places, notes = complete_rows(table, [COUNT] + ([bag] if bag else []), missing)
    low, high = low[places], high[places]
    _check_ends(table, places, low, high)
    _check_overlap(table, places, low, high, bag)
    # Empty bins say no more than a gap would.
    keep, counts, _ = choose_counts(table, COUNT, places, "count")
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
    open_end = -np.inf if name == LOW else np.inf
    if column.dtype == object:
        return np.full(table.n_rows, open_end)
    return np.where(np.isnan(column), open_end, column)


def _check_ends(
    table: Table, places: NDArray[np.intp], low: NDArray[np.float64], high: NDArray[np.float64]
) -> None:
    """Refuse bins whose ends decrease, or that have none."""
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
    """Refuse bins of one bag that lie on each other."""
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
