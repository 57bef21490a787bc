"""Rows in one table and labels in another, in numbers of their own and in any order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unshuffle.data.pairing import Pairing, choose_pairing
from unshuffle.errors import InputError, quote, suggest
from unshuffle.io.columns.missing import Missing
from unshuffle.io.columns.remarks import remark_columns
from unshuffle.io.columns.shares import describe_shares, read_shares
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
    find_base_levels,
)
from unshuffle.io.designs.histograms import COUNT, HIGH, LOW, is_histogram, read_bins
from unshuffle.io.designs.joining import deal_labels, encode_bags
from unshuffle.io.designs.mean_labels import TOTAL, check_single, find_mean_column, is_mean_table
from unshuffle.io.table import Table


@dataclass(frozen=True)
class _Side:
    """The labels as read: values or lower ends, upper ends of bins, and how often each is there.

    ``is_mean`` marks means of bags, or totals.
    """

    y: NDArray[np.float64]
    high: NDArray[np.float64] | None
    counts: NDArray[np.float64] | None
    groups: NDArray[Any] | None
    notes: list[str]
    is_mean: NDArray[np.bool_] | None = None
    are_totals: bool = False


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
    """Choose features from one table and labels from another; their order carries no meaning.

    ``label`` may be left out when the label table has one column beside those of bag and weight,
    or is a histogram: columns low, high and count, fitted on the scale of ``log10`` where that is
    asked for. A column mean or total of the label table tells a bag in one line. ``weight`` is
    looked for in both tables. Every bag needs rows and labels, but their numbers may differ;
    ``same_individuals`` is that of `unshuffle.fit`. The other parameters are
    those of `make_design`.
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
    side = _read_labels(labels, label, label_bag, label_weight, missing, log10)
    shares = _find_shares(rows, row_weight, places, row_bag, side)
    if shares is None:
        places, counts, left_out = choose_counts(rows, row_weight, places)
    else:
        places, counts, left_out = places[shares > 0], shares[shares > 0], []
        left_out.append(describe_shares(rows, str(row_weight)))
        same_individuals = _refuse_individuals(rows, str(row_weight), same_individuals)
    X, names, coding, more = code_features(rows, chosen, categorical, places, base)
    numbers = [name for name in chosen if name not in categorical]
    more += remark_columns(rows, numbers, [], places, features is not None, row_bag)
    groups = None if row_bag is None else bag_keys(rows, row_bag, places)
    groups, other = _name_alike(groups, side.groups)
    pairing, choice = _pair(
        (rows, labels), (groups, other), (counts, side.counts), (X, side.y), same_individuals,
        side.is_mean,
    )  # fmt: skip
    notes = [*rows.notes, *labels.notes, *notes, *left_out, *side.notes, *more, choice]
    is_plain = counts is None and side.counts is None and side.high is None
    y = side.y
    apart: Apart | None = Apart(
        other, side.counts, side.high, same_individuals, side.is_mean, side.are_totals
    )
    is_plain &= side.is_mean is None
    if is_plain and pairing.is_usual:
        y = y if groups is None or other is None else deal_labels(y, groups, other)
        counts = apart = None
    base_levels = find_base_levels(coding)
    return Design(
        X, y, groups, names, tuple(notes), base_levels, places, counts, apart, coding,
        are_shares=shares is not None,
    )  # fmt: skip


def _find_weights(rows: Table, labels: Table, weight: str | None) -> tuple[str | None, str | None]:
    """Return the weight column of each table, of which one at least must have it."""
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
    side: _Side,
) -> NDArray[np.float64] | None:
    """Return how often each row counts where the weights are shares of its bag."""
    if weight is None:
        return None
    groups = None if bag is None else bag_keys(rows, bag, places)
    n_labels = np.ones(len(side.y)) if side.counts is None else side.counts
    codes = np.unique(np.zeros(len(side.y)) if side.groups is None else side.groups,
                      return_inverse=True)[1]  # fmt: skip
    return read_shares(rows, weight, places, groups, np.bincount(codes, n_labels))


def _refuse_individuals(rows: Table, weight: str, same_individuals: bool | None) -> bool:
    """Return that rows and labels are separate samples, as shares tell nothing of individuals."""
    if same_individuals:
        raise InputError(
            f"{rows.source}: column {quote(weight)} holds shares, which do not count individuals; "
            "give whole numbers, or fit separate samples (--separate)"
        )
    return False


def _read_labels(
    labels: Table,
    label: str | None,
    bag: str | None,
    weight: str | None,
    missing: Missing,
    log10: bool,
) -> _Side:
    """Read raw labels or bins; logarithms of raw labels are left to the caller."""
    if label is None and is_histogram(labels):
        if weight not in (None, COUNT):
            raise InputError(
                f"{labels.source}: a histogram has its numbers in the column {quote(COUNT)}, so "
                f"that the weight column {quote(weight)} means nothing there; leave it out"
            )
        places, low, high, counts, notes = read_bins(labels, bag, missing, log10)
        groups = None if bag is None else bag_keys(labels, bag, places)
        return _Side(low, high, counts, groups, notes)
    if is_mean_table(labels, label):
        return _read_means(labels, label, bag, weight, missing, log10)
    name = choose_label(labels, label, bag, weight)
    check_numbers(labels, name)
    if weight is not None:
        check_numbers(labels, weight, "weight")
    needed = [name] + [each for each in (bag, weight) if each is not None]
    places, notes = complete_rows(labels, needed, missing)
    places, repeats, left_out = choose_counts(labels, weight, places)
    groups = None if bag is None else bag_keys(labels, bag, places)
    notes += [*left_out, *remark_columns(labels, [], [name], places, True)]
    return _Side(labels.columns[name][places], None, repeats, groups, notes)


def _read_means(
    labels: Table,
    label: str | None,
    bag: str | None,
    weight: str | None,
    missing: Missing,
    log10: bool,
) -> _Side:
    """Read means or totals of bags; with a label too, lines without one have a mean or total."""
    column = find_mean_column(labels, label)
    assert column is not None
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
    return _Side(
        values[places], None, None, groups, notes, is_mean[places], are_totals=column == TOTAL
    )


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


def choose_label(labels: Table, label: str | None, bag: str | None, weight: str | None) -> str:
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
        return f"{LOW} to {HIGH}"
    if label is None and is_mean_table(labels, label):
        return str(find_mean_column(labels, label))
    return choose_label(labels, label, bag, weight)


def _name_alike(
    groups: NDArray[Any] | None, other: NDArray[Any] | None
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Return the bags of rows and labels in one type: 1 in one file may be '1' in the other."""
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
    """Return how rows and labels belong together and a sentence on it; refuse what cannot be."""
    sizes = [len(side) for side in items]
    masses = [np.ones(s) if c is None else c for s, c in zip(sizes, counts, strict=True)]
    keys, codes = encode_bags(*groups, *sizes)
    _check_both_sides(tables, keys, codes)
    n, m = (
        np.bincount(code, mass, minlength=len(keys))
        for code, mass in zip(codes, masses, strict=True)
    )
    if is_mean is not None:  # a mean stands for a label of every row
        check_single(tables[1], codes[1], is_mean, keys)
        by_mean = codes[1][is_mean]
        m[by_mean] = n[by_mean]

    def tell(r: int) -> str:
        bag = f"bag {quote(keys[r], 30)} has " if groups[0] is not None else ""
        return f"{bag}{n[r]:g} rows in {tables[0].source} and {m[r]:g} labels in {tables[1].source}"

    if same_individuals and (m > n).any():
        raise InputError(
            f"{tell(int(np.argmax(m > n)))}, more labels than individuals; give every "
            "individual's row, or fit them as separate samples (--separate)"
        )
    pairing = choose_pairing(n, m, same_individuals)
    if same_individuals is not None:
        return pairing, pairing.sentence
    if pairing.is_usual:
        why = "the numbers agree in every bag; for separate samples give --separate"
    else:
        why = tell(int(np.argmax(n != m)))
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
