"""Designs from two tables, one of rows and one of labels, of different lengths and any order."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unshuffle.data.pairing import Pairing, choose_pairing
from unshuffle.errors import InputError, quote, suggest
from unshuffle.io.columns.missing import Missing
from unshuffle.io.columns.remarks import remark_columns
from unshuffle.io.designs.design_matrix import (
    Apart,
    Design,
    bag_keys,
    check_numbers,
    check_numeric,
    choose_counts,
    choose_features,
    code_features,
    complete_rows,
)
from unshuffle.io.designs.joining import assign_labels, encode_bags
from unshuffle.io.designs.label_tables import LabelTable, check_single, read_labels
from unshuffle.io.table import Table

# Rows that the shares of a bag stand for, so many that sampling error is negligible.
_ROWS_OF_BAG = 100_000


def make_design_from_two(
    rows: Table,
    labels: Table,
    *,
    label: str | None = None,
    bag: str | None = None,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    categorical: Sequence[str] = (),
    missing: Missing = "error",
    log10: bool = False,
    same_individuals: bool | None = None,
    base: Mapping[str, str] | None = None,
) -> Design:
    """Return the design of features in one table and labels in another, in any order.

    ``label`` may be omitted if the label table has one column beside bag and weight, or is a
    histogram (columns low, high, count), whose ends ``log10`` applies to. A column mean or total
    describes a bag in one line. Either table may have the ``weight``. Every bag needs rows and
    labels; their numbers may differ. ``same_individuals`` is that of `unshuffle.fit`, and the other
    parameters are those of `make_design`.
    """
    row_bag = None if bag is None else rows.find(bag, "bag column")
    label_bag = None if bag is None else labels.find(bag, "bag column")
    row_weight, label_weight = _find_weights(rows, labels, weight)
    categorical = [rows.find(name) for name in categorical]
    chosen = choose_features(rows, features, {"bag": row_bag, "weight": row_weight}, exclude)
    check_numeric(rows, [name for name in chosen if name not in categorical])
    if row_weight is not None:
        check_numbers(rows, row_weight, "weight")
    used = chosen + [name for name in (row_bag, row_weight) if name is not None]
    places, notes = complete_rows(rows, used, missing)
    side = read_labels(labels, label, label_bag, label_weight, missing, log10)
    shares = _find_shares(rows, row_weight, places, row_bag, side)
    if shares is None:
        places, counts, left_out = choose_counts(rows, row_weight, places)
    else:
        places, counts, left_out = places[shares > 0], shares[shares > 0], []
        left_out.append(_describe_shares(rows, str(row_weight)))
        if same_individuals:
            raise InputError(
                f"{rows.source}: column {quote(row_weight)} holds shares, which do not count "
                "individuals; give whole numbers, or fit separate samples (--separate)"
            )
        same_individuals = False
    X, names, coding, more = code_features(rows, chosen, categorical, places, base)
    numbers = [name for name in chosen if name not in categorical]
    more += remark_columns(rows, numbers, [], places, features is not None, row_bag)
    groups = None if row_bag is None else bag_keys(rows, row_bag, places)
    groups, other = _name_alike(groups, side.apart.groups)
    pairing, choice = _pair(
        (rows, labels), (groups, other), (counts, side.apart.counts), (X, side.y),
        same_individuals, side.apart.is_mean,
    )  # fmt: skip
    notes = [*rows.notes, *labels.notes, *notes, *left_out, *side.notes, *more, choice]
    y = side.y
    apart: Apart | None = replace(side.apart, groups=other, same_individuals=same_individuals)
    parts = (counts, side.apart.counts, side.apart.high, side.apart.is_mean)
    is_plain = all(each is None for each in parts)
    if is_plain and pairing.is_usual:
        y = y if groups is None or other is None else assign_labels(y, groups, other)
        counts = apart = None
    return Design(
        X, y, groups, names, tuple(notes), places, counts, apart, coding,
        are_shares=shares is not None,
    )  # fmt: skip


def _find_weights(rows: Table, labels: Table, weight: str | None) -> tuple[str | None, str | None]:
    """Return the weight column of each table; at least one must have it."""
    if weight is None:
        return None, None
    found = [
        table.find(weight) if weight in table.columns or weight in table.aliases else None
        for table in (rows, labels)
    ]
    if found == [None, None]:
        raise InputError(
            f"neither {rows.source} nor {labels.source} has a weight column called "
            f"{quote(weight)}; {suggest(weight, [*rows.names, *labels.names])}"
        )
    return found[0], found[1]


def _find_shares(
    rows: Table,
    weight: str | None,
    places: NDArray[np.intp],
    bag: str | None,
    side: LabelTable,
) -> NDArray[np.float64] | None:
    """Return how often each row counts where the weights are shares of its bag."""
    if weight is None:
        return None
    groups, counts, labels = None, side.apart.counts, side.apart.groups
    if bag is not None:
        groups = bag_keys(rows, bag, places)
    n_labels = np.ones(len(side.y)) if counts is None else counts
    labels = np.zeros(len(side.y)) if labels is None else labels
    codes = np.unique(labels, return_inverse=True)[1]
    return _read_shares(rows, weight, places, groups, np.bincount(codes, n_labels))


def _read_shares(
    table: Table,
    weight: str,
    places: NDArray[np.intp],
    groups: NDArray[Any] | None,
    sizes: NDArray[Any] | None = None,
) -> NDArray[np.float64] | None:
    """Return the frequencies of rows whose weights are shares; None if weights are counts.

    Weights are shares where some are no whole numbers. Whole numbers are per cent where they sum to
    100 in every bag, unless ``sizes``, the numbers of labels of the bags, are 100 too.
    """
    column = table.columns[weight][places]
    keys = np.zeros(len(places), dtype=int) if groups is None else groups
    names, codes = np.unique(keys, return_inverse=True)
    sums = np.bincount(codes, column, minlength=len(names))
    if (column < 0).any():
        return None  # refused later, as counts
    if bool((column == np.floor(column)).all()):
        is_hundred = bool((sums == 100.0).all()) and len(column) > len(names)
        if not is_hundred or (sizes is not None and bool((sizes == 100.0).all())):
            return None
    # Rounded shares may differ from their sum by 2 %.
    fits = [np.abs(sums - whole) <= 0.02 * whole for whole in (1.0, 100.0)]
    best = max(fits, key=lambda each: int(each.sum()))
    if not best.all():
        r = int(np.argmin(best))
        bag = "" if groups is None else f" of bag {quote(names[r], 30)}"
        at = int(np.argmax(column != np.floor(column)))
        raise InputError(
            f"{table.source}, row {places[at] + 1}: the weight column {quote(weight)} holds "
            f"{column[at]:g}, and the weights{bag} sum to {sums[r]:g}; give whole numbers, or "
            "shares that sum to 1 (or to 100) in every bag"
        )
    return np.asarray(np.rint(column / sums[codes] * _ROWS_OF_BAG))


def _describe_shares(table: Table, weight: str) -> str:
    """Return the note that weights are shares."""
    return (
        f"{table.source}: column {quote(weight, 30)} holds shares of the rows of a bag, which are "
        "taken as exact"
    )


def _name_alike(
    groups: NDArray[Any] | None, other: NDArray[Any] | None
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Return the bag names of rows and labels as one type: 1 and '1' are the same name."""
    if groups is None or other is None or groups.dtype == other.dtype:
        return groups, other
    return groups.astype(str).astype(object), other.astype(str).astype(object)


def _pair(
    tables: tuple[Table, Table],
    groups: tuple[NDArray[Any] | None, NDArray[Any] | None],
    counts: tuple[NDArray[np.float64] | None, NDArray[np.float64] | None],
    items: tuple[NDArray[Any], NDArray[Any]],
    same_individuals: bool | None,
    is_mean: NDArray[np.bool_] | None = None,
) -> tuple[Pairing, str]:
    """Return the pairing of rows and labels and a sentence on it; refuse impossible numbers."""
    sizes = [len(side) for side in items]
    masses = [np.ones(s) if c is None else c for s, c in zip(sizes, counts, strict=True)]
    keys, codes = encode_bags(*groups, *sizes)
    _check_both_sides(tables, keys, codes)
    n, m = (
        np.bincount(code, mass, minlength=len(keys))
        for code, mass in zip(codes, masses, strict=True)
    )
    if is_mean is not None:  # a mean counts as a label of every row
        check_single(tables[1], codes[1], is_mean, keys)
        by_mean = codes[1][is_mean]
        m[by_mean] = n[by_mean]

    def describe(r: int) -> str:
        bag = f"bag {quote(keys[r], 30)} has " if groups[0] is not None else ""
        return f"{bag}{n[r]:g} rows in {tables[0].source} and {m[r]:g} labels in {tables[1].source}"

    if same_individuals and (m > n).any():
        raise InputError(
            f"{describe(int(np.argmax(m > n)))}, more labels than individuals; give every "
            "individual's row, or fit them as separate samples (--separate)"
        )
    pairing = choose_pairing(n, m, same_individuals)
    if same_individuals is not None:
        return pairing, pairing.sentence
    if pairing.is_usual:
        why = "the numbers agree in every bag; for separate samples give --separate"
    else:
        why = describe(int(np.argmax(n != m)))
        if (m <= n).all():
            why += "; if labels of the same individuals are missing, give --same-individuals"
    return pairing, f"{pairing.sentence.removesuffix('.')} ({why})."


def _check_both_sides(
    tables: tuple[Table, Table], keys: NDArray[Any], codes: tuple[NDArray[np.intp], ...]
) -> None:
    """Refuse bags that have rows and no labels, or the other way round."""
    n, m = (np.bincount(code, minlength=len(keys)) for code in codes)
    rows, labels = tables[0].source, tables[1].source
    if not ((n > 0) & (m > 0)).any():
        raise InputError(
            f"no bag is both in {rows} (first {quote(keys[np.argmax(n > 0)], 30)}) and in {labels} "
            f"(first {quote(keys[np.argmax(m > 0)], 30)}): every bag needs rows and labels, so "
            "write its name alike in both files"
        )
    lacking = np.flatnonzero((n == 0) | (m == 0))
    if len(lacking) == 0:
        return
    r = int(lacking[0])
    others = [str(key) for key, here in zip(keys, n if m[r] else m, strict=True) if here]
    raise InputError(
        f"bag {quote(keys[r], 30)} has {n[r]} rows in {rows} and {m[r]} labels in {labels}; every "
        "bag needs some of both, so add what is missing or leave the bag out of both files "
        f"(the bags of {rows if m[r] else labels}: {suggest(str(keys[r]), others)})"
    )
