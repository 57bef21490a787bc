"""Bags in canonical order, the input of all solvers in memory.

Rows and labels are sorted, and bags are ordered by content. So no bit of any result depends on the
order of rows, labels or bags.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from unshuffle.data.anchors import NO_LABEL, count_original_bags, find_links, split_pairs
from unshuffle.data.bag import Bag, number_names
from unshuffle.data.known_means import KnownMeans
from unshuffle.data.labels import Histogram, Labels, unit_masses
from unshuffle.data.pairing import Pairing, Permutation, choose_pairing
from unshuffle.data.rows import Rows
from unshuffle.data.statistics import Statistics, make_statistics, make_statistics_of_means
from unshuffle.errors import InputError

__all__ = ["Bag", "Bags", "join_bags", "make_bags"]

# Up to this number of items, frequencies are expanded into single items, which all methods take.
EXPANDED_ITEMS = 20_000


@dataclass(frozen=True, eq=False)
class Bags:
    """All bags in canonical order: rows, labels, and how they belong together.

    A known pair (an anchor) is a bag of one row, with a linked residual in every method.
    `original_bags` then has for each bag the number of the bag as given that it was part of; it is
    None without known pairs. A bag of which only the mean label is known is one row, its mean row,
    with its number of individuals in `known_means`.
    """

    rows: Rows
    labels: Labels
    pairing: Pairing = field(default_factory=Permutation)
    original_bags: np.ndarray | None = None
    known_means: KnownMeans | None = None

    @property
    def X(self) -> np.ndarray:  # noqa: N802
        """The rows (n, d)."""
        return self.rows.X

    @property
    def y(self) -> np.ndarray:
        """One value for each label, or for each bin of labels."""
        return self.labels.values

    @property
    def offsets(self) -> np.ndarray:
        """Where the rows of each bag begin and end."""
        return self.rows.offsets

    @property
    def n(self) -> int:
        """Number of rows in all bags, as they are stored."""
        return self.X.shape[0]

    @property
    def d(self) -> int:
        """Number of columns."""
        return self.X.shape[1]

    @property
    def n_bags(self) -> int:
        """Number of bags, a known pair being one."""
        return len(self.offsets) - 1

    @property
    def n_original_bags(self) -> int:
        """Number of bags as given: known pairs belong to theirs."""
        return count_original_bags(self.original_bags, self.n_bags)

    @property
    def original_places(self) -> np.ndarray:
        """The place of each bag as given, in the order of the first rows of bags."""
        firsts = np.minimum.reduceat(self.rows.order, self.offsets[:-1])
        if self.original_bags is not None:
            all_firsts = np.full(self.n_original_bags, self.rows.order.max())
            np.minimum.at(all_firsts, self.original_bags, firsts)
            firsts = all_firsts
        places = np.empty(len(firsts), dtype=int)
        places[np.argsort(firsts, kind="stable")] = np.arange(len(firsts))
        return places

    @property
    def n_anchors(self) -> int:
        """Number of known pairs inside bags of several rows."""
        if self.original_bags is None:
            return 0
        sizes = np.bincount(self.original_bags, self.sizes)
        return int(((self.sizes == 1) & (sizes[self.original_bags] > 1)).sum())

    @property
    def is_linked(self) -> bool:
        """Whether every bag is one row with its label, by anchors or as given."""
        return self.known_means is None and self.is_plain and self.n_bags == self.n

    @property
    def n_individuals(self) -> int:
        """Number of rows as given, by mass."""
        known = self.known_means
        return int((self.rows.totals if known is None else known.counts).sum())

    @property
    def sizes(self) -> np.ndarray:
        """Number of rows of each bag, as they are stored."""
        return np.diff(self.offsets)

    @property
    def columns(self) -> np.ndarray:
        """The features as a C-contiguous array of shape (d, n)."""
        return self.X.T

    @property
    def is_plain(self) -> bool:
        """Whether each row has one label of its own, known to its last digit."""
        return bool(
            self.pairing == Permutation()
            and not self.rows.has_masses
            and not self.labels.has_masses
            and self.labels.is_raw
            # Rows sampled from rows with masses may have unit masses, but fewer rows than labels.
            and np.array_equal(self.rows.offsets, self.labels.offsets)
        )

    @cached_property
    def statistics(self) -> Statistics:
        """Sizes, means and second moments, of every bag and pooled."""
        if self.known_means is not None:
            return make_statistics_of_means(self.rows, self.labels, self.known_means)
        return make_statistics(self.rows, self.labels, self.pairing, self.is_plain)

    def bag_means(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean row (R, d) and the mean label (R,) of each bag."""
        return self.statistics.row_means, self.statistics.label_means

    def with_columns(self, X: np.ndarray) -> Bags:
        """Return the same bags with other columns."""
        return replace(self, rows=replace(self.rows, X=np.asfortranarray(X)))

    def mapped(self, X: np.ndarray, shift: float, scale: float) -> Bags:
        """Return the same bags with other columns, and labels (y − shift)/scale."""
        # `standardise` scales `known_means`.
        return replace(self.with_columns(X), labels=self.labels.mapped(shift, scale))

    def subsample(self, n_rows: int, rng: np.random.Generator) -> Bags:
        """Return about `n_rows` rows drawn at random, with as many evenly spaced labels.

        The labels are order statistics at the middles of equal slices, which keeps their
        distribution. Each bag keeps its share of the rows, at least two. Where rows and labels
        differ in number, all labels stay.
        """
        chosen, kept, sizes = [], [], []
        for start, stop in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            size = stop - start
            m = min(size, max(2, round(n_rows * size / self.n)))
            chosen.append(start + np.sort(rng.choice(size, m, replace=False)))
            kept.append(start + np.floor((np.arange(m) + 0.5) * size / m).astype(int))
            sizes.append(m)
        some = np.concatenate(chosen)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        X = np.asfortranarray(self.X[some])
        rows = Rows(X, unit_masses(len(some)), offsets, self.rows.order[some])
        if not self.is_plain:
            return replace(self, rows=replace(rows, masses=self.rows.masses[some]))
        taken = np.concatenate(kept)
        y = self.y[taken]
        labels = Labels(y, y, unit_masses(len(y)), offsets, self.labels.order[taken])
        return Bags(rows, labels, original_bags=self.original_bags)


def make_bags(
    X: np.ndarray,
    y: np.ndarray,
    groups: Sequence[Hashable] | np.ndarray | None = None,
    anchors: Any = None,
) -> Bags:
    """Return bags in canonical order from rows, labels and bag names; `anchors` are known pairs.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The rows.
    y : array-like of shape (n,)
        The labels, in any order inside a bag.
    groups : sequence of n hashable labels, optional
        The bag of each row and of each label; all rows form one bag without it.
    anchors : sequence, optional
        Pairs that are known, as in `ShuffledLinearRegression.fit`.

    Returns
    -------
    Bags
        The data in canonical order, in which no result depends on the order of rows, labels or
        bags.

    Raises
    ------
    InputError
        For rows, labels and groups of different number.

    Examples
    --------
    >>> bags = make_bags(np.array([[2.0], [1.0], [3.0]]), np.array([5.0, 4.0, 9.0]), "aab")
    >>> bags.sizes.tolist(), bags.y.tolist(), bags.X.ravel().tolist()
    ([1, 2], [9.0, 4.0, 5.0], [3.0, 1.0, 2.0])
    """
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    n = len(y)
    if len(X) != n:
        raise InputError(f"there are {len(X)} rows but {n} labels: give as many labels as rows")
    if groups is not None and len(groups) != n:
        raise InputError(
            f"groups has {len(groups)} entries but there are {n} rows: give the bag of every row"
        )
    links = find_links(anchors, n)
    if links is not None:
        codes = np.zeros(n, dtype=int) if groups is None else number_names(groups)
        row_codes, label_codes, original_bags = split_pairs(codes, links)
        return arrange(X, y, row_codes, label_codes, original_bags)
    if groups is None:
        row_order, label_order = _order_rows(X, None), np.argsort(y, kind="stable")
        offsets = np.array([0, n])
        return _plain(_gather(X, row_order), y[label_order] + 0.0, offsets, row_order, label_order)
    codes = number_names(groups)
    return arrange(X, y, codes, codes)


def arrange(
    X: np.ndarray,
    y: np.ndarray,
    row_codes: np.ndarray,
    label_codes: np.ndarray,
    original_bags: np.ndarray | None = None,
) -> Bags:
    """Return bags in canonical order from numbered rows and labels, as many of each in a bag.

    `original_bags` numbers, for each bag, the one that it was part of.
    """
    row_order, label_order = _order_rows(X, row_codes), np.lexsort((y, label_codes))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row_codes))])
    X, y = _gather(X, row_order), y[label_order] + 0.0
    bag_order, original_bags = _order_bags(X, y, offsets, original_bags)
    take = np.concatenate([np.arange(offsets[r], offsets[r + 1]) for r in bag_order])
    sizes = np.diff(offsets)[bag_order]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    bags = _plain(_gather(X, take), y[take], offsets, row_order[take], label_order[take])
    return bags if original_bags is None else replace(bags, original_bags=original_bags)


def _plain(
    X: np.ndarray,
    y: np.ndarray,
    offsets: np.ndarray,
    row_order: np.ndarray,
    label_order: np.ndarray,
) -> Bags:
    """Return bags with one label for each row."""
    ones = unit_masses(len(y))
    return Bags(Rows(X, ones, offsets, row_order), Labels(y, y, ones, offsets, label_order))


def _gather(X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return rows in a new order, stored by columns, one column at a time to save memory.

    Adding zero turns -0.0 into 0.0: equal values must have equal bits to be ordered by content.
    """
    out = np.empty((len(rows), X.shape[1]), order="F")
    for j in range(X.shape[1]):
        out[:, j] = X[rows, j]
        out[:, j] += 0.0
    return out


def join_bags(bags: Iterable[Bag], same_individuals: bool | None = None) -> Bags:
    """Join separate bags in canonical order.

    `same_individuals` is whether rows and labels are the same individuals; None means that they are
    if their numbers agree in every bag.
    """
    bags = list(bags)
    if not bags:
        raise InputError("no bags given: pass at least one Bag(X, y)")
    widths = {bag.X.shape[1] for bag in bags}
    if len(widths) > 1:
        raise InputError(
            f"the bags have different numbers of columns, {sorted(widths)}: "
            "every bag needs the same features"
        )
    n = np.array([bag.n for bag in bags], dtype=float)
    m = np.array([bag.n_labels for bag in bags], dtype=float)
    pairing = choose_pairing(n, m, same_individuals)
    if any(bag.has_mean_alone for bag in bags):
        return _join_with_means(bags, pairing)
    if any(bag.anchors is not None for bag in bags):
        return _join_anchored(bags, pairing)
    write_rows, write_labels = n.sum() <= EXPANDED_ITEMS, m.sum() <= EXPANDED_ITEMS
    rows = [_order_items(bag.X, bag.row_counts, write_rows) for bag in bags]
    labels = [_order_labels(bag, write_labels) for bag in bags]

    def content(r: int) -> tuple[Any, ...]:
        parts = (*labels[r][:3], *rows[r][:2])
        return len(rows[r][0]), len(labels[r][0]), *(part.tobytes() for part in parts)

    return _stack_bags(bags, rows, labels, sorted(range(len(bags)), key=content), pairing)


def _stack_bags(
    bags: list[Bag],
    rows: Sequence[tuple[np.ndarray, ...]],
    labels: Sequence[tuple[np.ndarray, ...]],
    places: list[int],
    pairing: Pairing,
) -> Bags:
    """Return bags in the order of `places`, from their ordered rows and labels."""
    return Bags(
        _stack_rows([rows[r] for r in places], _starts([len(bag.X) for bag in bags])[places]),
        _stack_labels([labels[r] for r in places], _starts(list(map(_n_items, bags)))[places]),
        pairing,
    )


def _join_with_means(bags: list[Bag], pairing: Pairing) -> Bags:
    """Join bags of which some or all are known by their mean label."""
    others = [bag for bag in bags if not bag.has_mean_alone]
    if pairing != Permutation() or not all(bag.is_plain and bag.anchors is None for bag in others):
        raise InputError(
            "bags of which only the mean is known go with bags of one label for each row: leave "
            "same_individuals=False, bins, counts, missing labels and anchors out"
        )
    rows, labels, scatters = [], [], []
    for bag in bags:
        X, masses, place = _order_items(bag.X, bag.row_counts, False)
        if bag.has_mean_alone:
            centre = (X * masses[:, None]).sum(axis=0) / masses.sum()
            rest = (X - centre) * np.sqrt(masses)[:, None]
            rows.append((centre[None] + 0.0, np.ones(1), place[:1] * 0))
            y = np.array([bag.mean]) + 0.0
            labels.append((y, y, np.ones(1), np.zeros(1, dtype=int)))
            scatters.append(rest.T @ rest)
        else:
            rows.append((X, masses, place))
            labels.append(_order_labels(bag, True))
            scatters.append(np.zeros((X.shape[1], X.shape[1])))

    def content(r: int) -> tuple[Any, ...]:
        parts = (labels[r][0], rows[r][0], scatters[r])
        size = len(rows[r][0]), bags[r].has_mean_alone, bags[r].n
        return *size, *(part.tobytes() for part in parts)

    places = sorted(range(len(bags)), key=content)
    known = KnownMeans(
        np.array([bags[r].n for r in places], dtype=float),
        np.array([bags[r].has_mean_alone for r in places]),
        np.sum([scatters[r] for r in places], axis=0),
    )
    return replace(_stack_bags(bags, rows, labels, places, pairing), known_means=known)


def _join_anchored(bags: list[Bag], pairing: Pairing) -> Bags:
    """Join bags of which some pairs are known."""
    if pairing != Permutation() or not all(bag.is_plain for bag in bags):
        raise InputError(
            "anchors are pairs of a row and its label, which separate samples, bins, counts and "
            "missing labels do not have: leave the anchors out, or give one label for each row"
        )
    sizes = [bag.n for bag in bags]
    links = [
        np.full(n, NO_LABEL) if found is None else np.where(found < 0, NO_LABEL, start + found)
        for r, (bag, n, start) in enumerate(zip(bags, sizes, _starts(sizes), strict=True))
        for found in [find_links(bag.anchors, n, f"bag {r}, ")]
    ]
    return make_bags(
        np.concatenate([bag.X for bag in bags]),
        np.concatenate([bag.y for bag in bags]),
        np.repeat(np.arange(len(bags)), sizes),
        np.concatenate(links),
    )


def _stack_rows(parts: list[tuple[np.ndarray, ...]], starts: np.ndarray) -> Rows:
    """Concatenate the rows of bags; `starts` are the places of their first rows as given."""
    X = np.asfortranarray(np.concatenate([part[0] for part in parts]))
    order = np.concatenate([start + part[2] for start, part in zip(starts, parts, strict=True)])
    offsets = _offsets([len(part[0]) for part in parts])
    return Rows(X, _as_masses([part[1] for part in parts]), offsets, order)


def _stack_labels(parts: list[tuple[np.ndarray, ...]], starts: np.ndarray) -> Labels:
    """Concatenate the labels of bags; both ends are one array where all bins have width zero."""
    low, high = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    order = np.concatenate([start + part[3] for start, part in zip(starts, parts, strict=True)])
    offsets = _offsets([len(part[0]) for part in parts])
    ends = (low, low) if (low == high).all() else (low, high)
    return Labels(*ends, _as_masses([part[2] for part in parts]), offsets, order)


def _n_items(bag: Bag) -> int:
    if bag.has_mean_alone:
        return 1
    return len(bag.y.counts) if isinstance(bag.y, Histogram) else len(bag.y)


def _offsets(sizes: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)])


def _starts(sizes: list[int]) -> np.ndarray:
    return _offsets(sizes)[:-1]


def _as_masses(parts: list[np.ndarray]) -> np.ndarray:
    """Concatenate masses; ones are a broadcast array that takes no memory."""
    masses = np.concatenate(parts)
    return unit_masses(len(masses)) if (masses == 1.0).all() else masses


def _order_items(
    X: np.ndarray, counts: np.ndarray | None, write: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows of a bag sorted, their masses, and their places as given."""
    place = np.arange(len(X))
    masses = np.ones(len(X)) if counts is None else counts
    if counts is not None and write:
        place, masses = np.repeat(place, counts.astype(int)), np.ones(int(counts.sum()))
    else:
        place, masses = place[masses > 0], masses[masses > 0]
    items = X[place] + 0.0
    order = np.lexsort([masses, *items.T[::-1]])
    return items[order], masses[order], place[order]


def _order_labels(bag: Bag, write: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the ends of the labels of a bag sorted, their masses, and their places as given."""
    if isinstance(bag.y, Histogram):
        keep = np.flatnonzero(bag.y.counts)
        low, high, masses = bag.y.edges[:-1][keep], bag.y.edges[1:][keep], bag.y.counts[keep]
        is_point = (low == high).all()
        if is_point and write:
            copies = masses.astype(int)
            keep, low, high = (np.repeat(part, copies) for part in (keep, low, high))
            masses = np.ones(len(keep))
        # Bins of the same ends are ordered by their masses.
        order = np.lexsort([masses, high, low])
        return low[order] + 0.0, high[order] + 0.0, masses[order], keep[order]
    values, masses, place = _order_items(bag.y[:, None], bag.label_counts, write)
    return values[:, 0], values[:, 0], masses, place


def _order_rows(X: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
    """Sort rows by bag, then by all columns; the later columns only matter where ties are."""
    keys = [X[:, 0]] if codes is None else [X[:, 0], codes]
    order = np.lexsort(keys)
    first = X[order, 0]
    has_ties = first[1:] == first[:-1]
    if codes is not None:
        has_ties &= codes[order][1:] == codes[order][:-1]
    if X.shape[1] > 1 and has_ties.any():
        order = np.lexsort([*X.T[::-1]] if codes is None else [*X.T[::-1], codes])
    return order


def _order_bags(
    X: np.ndarray, y: np.ndarray, offsets: np.ndarray, original_bags: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Order bags by size, then labels, then rows: by content alone, never by name.

    Also return their original bags, numbered by content and in the new order. Equal pairs are in
    the order of their original bags.
    """

    def content(r: int) -> tuple[int, bytes, bytes]:
        part = slice(offsets[r], offsets[r + 1])
        return offsets[r + 1] - offsets[r], y[part].tobytes(), X[part].tobytes()

    places = range(len(offsets) - 1)
    if original_bags is None:
        return np.array(sorted(places, key=content), dtype=int), None
    contents = [content(r) for r in places]
    parts: list[list[tuple[int, bytes, bytes]]] = [[] for _ in np.unique(original_bags)]
    for r in sorted(places, key=contents.__getitem__):
        parts[original_bags[r]].append(contents[r])
    rank = np.argsort(sorted(range(len(parts)), key=parts.__getitem__), kind="stable")
    order = np.array(sorted(places, key=lambda r: (contents[r], rank[original_bags[r]])), dtype=int)
    return order, rank[original_bags[order]]
