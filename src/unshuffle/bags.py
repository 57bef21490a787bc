"""Bags: rows and labels that belong together as sets, the only input type of the core.

Everything is brought to one canonical order first: labels sorted, rows sorted, bags ordered by
content. Whatever is computed afterwards cannot depend on the order of the labels inside a bag,
of the rows, or of the bags, down to the last bit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from unshuffle.errors import InputError


@dataclass(frozen=True, eq=False)
class Bag:
    """One bag: the rows of `X` produced the labels `y`, in an unknown order.

    >>> Bag([[1.0], [2.0]], [3.0, 1.0]).n
    2
    """

    X: np.ndarray
    y: np.ndarray

    def __post_init__(self) -> None:
        X = np.asarray(self.X, dtype=float)
        y = np.asarray(self.y, dtype=float)
        if X.ndim != 2 or y.ndim != 1:
            raise InputError(
                f"a bag needs a two-dimensional X and a one-dimensional y, got shapes {X.shape} "
                f"and {y.shape}: use X.reshape(-1, 1) for one feature and y.ravel()"
            )
        if len(X) != len(y):
            raise InputError(
                f"a bag has {len(X)} rows but {len(y)} labels: give as many labels as rows"
            )
        if 0 in X.shape:
            raise InputError(
                f"a bag is empty: {X.shape[0]} rows and {X.shape[1]} features; leave it out, or "
                "give at least one of each"
            )
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", y)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y)


@dataclass(frozen=True, eq=False)
class Bags:
    """All bags end to end in canonical order.

    Bag r holds rows and labels ``offsets[r]:offsets[r + 1]``. ``X`` is stored by columns, which
    is what the kernels read. ``row_order[i]`` and ``label_order[i]`` say where row i and label i
    stood in the data as given, so that results can be handed back in the user's order.
    """

    X: np.ndarray
    y: np.ndarray
    offsets: np.ndarray
    row_order: np.ndarray
    label_order: np.ndarray

    @property
    def n(self) -> int:
        """Number of rows in all bags."""
        return self.X.shape[0]

    @property
    def d(self) -> int:
        """Number of columns."""
        return self.X.shape[1]

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> np.ndarray:
        """Number of rows of each bag."""
        return np.diff(self.offsets)

    @property
    def columns(self) -> np.ndarray:
        """The features as a C-contiguous array of shape (d, n)."""
        return self.X.T

    def bag_means(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean row (R, d) and the mean label (R,) of each bag."""
        starts, sizes = self.offsets[:-1], self.sizes
        rows = np.add.reduceat(self.X, starts, axis=0) / sizes[:, None]
        return rows, np.add.reduceat(self.y, starts) / sizes

    def with_values(self, X: np.ndarray, y: np.ndarray) -> Bags:
        """Return the same bags with other columns and labels (in the same order)."""
        return Bags(np.asfortranarray(X), y, self.offsets, self.row_order, self.label_order)

    def thin(self, n_rows: int, rng: np.random.Generator) -> Bags:
        """Return about `n_rows` rows drawn at random, with as many evenly spaced labels.

        The labels are order statistics at the middles of equal slices, so that the law of the
        labels is kept; each bag keeps its share of the rows, at least two.
        """
        rows, labels, sizes = [], [], []
        for start, stop in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            size = stop - start
            m = min(size, max(2, round(n_rows * size / self.n)))
            rows.append(start + np.sort(rng.choice(size, m, replace=False)))
            labels.append(start + np.floor((np.arange(m) + 0.5) * size / m).astype(int))
            sizes.append(m)
        chosen, kept = np.concatenate(rows), np.concatenate(labels)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        X = np.asfortranarray(self.X[chosen])
        return Bags(X, self.y[kept], offsets, self.row_order[chosen], self.label_order[kept])


def make_bags(
    X: np.ndarray, y: np.ndarray, groups: Sequence[Hashable] | np.ndarray | None = None
) -> Bags:
    """Bring rows, labels and bag names to the canonical order.

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
    if groups is None:
        row_order, label_order = _order_rows(X, None), np.argsort(y, kind="stable")
        offsets = np.array([0, n])
        return Bags(_gather(X, row_order), y[label_order] + 0.0, offsets, row_order, label_order)
    codes = _encode(groups)
    row_order, label_order = _order_rows(X, codes), np.lexsort((y, codes))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(codes))])
    X, y = _gather(X, row_order), y[label_order] + 0.0
    bag_order = _order_bags(X, y, offsets)
    take = np.concatenate([np.arange(offsets[r], offsets[r + 1]) for r in bag_order])
    sizes = np.diff(offsets)[bag_order]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Bags(_gather(X, take), y[take], offsets, row_order[take], label_order[take])


def _gather(X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return rows in a new order, stored by columns, one column at a time to save memory.

    Adding zero turns -0.0 into 0.0: equal values must have equal bits to be ordered by content.
    """
    out = np.empty((len(rows), X.shape[1]), order="F")
    for j in range(X.shape[1]):
        out[:, j] = X[rows, j]
        out[:, j] += 0.0
    return out


def join_bags(bags: Iterable[Bag]) -> Bags:
    """Bring separate bags to the canonical form."""
    bags = list(bags)
    if not bags:
        raise InputError("no bags given: pass at least one Bag(X, y)")
    widths = {bag.X.shape[1] for bag in bags}
    if len(widths) > 1:
        raise InputError(
            f"the bags have different numbers of columns, {sorted(widths)}: "
            "every bag needs the same features"
        )
    groups = np.repeat(np.arange(len(bags)), [bag.n for bag in bags])
    X = np.concatenate([bag.X for bag in bags])
    return make_bags(X, np.concatenate([bag.y for bag in bags]), groups)


def _encode(groups: Sequence[Hashable] | np.ndarray) -> np.ndarray:
    """Number the bag names; any hashable names will do, also of mixed types."""
    if isinstance(groups, np.ndarray) and groups.dtype.kind in "iubUS":
        return np.unique(groups, return_inverse=True)[1].ravel()
    # One by one: an array made of a list would turn 1 and "1" into the same name.
    items = groups.tolist() if isinstance(groups, np.ndarray) else groups
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in items], dtype=int)


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


def _order_bags(X: np.ndarray, y: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Order bags by size, then labels, then rows: by content alone, never by name."""

    def content(r: int) -> tuple[int, bytes, bytes]:
        part = slice(offsets[r], offsets[r + 1])
        return offsets[r + 1] - offsets[r], y[part].tobytes(), X[part].tobytes()

    return np.array(sorted(range(len(offsets) - 1), key=content), dtype=int)
