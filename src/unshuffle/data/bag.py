"""`Bag`, a bag as given by the user, and numbers of bags by their names."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unshuffle.data.labels import Histogram, as_numbers, check_counts
from unshuffle.errors import InputError


@dataclass(frozen=True, eq=False)
class Bag:
    """One bag: rows `X` and labels `y` whose pairing is unknown.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The rows.
    y : array-like of shape (m,) or Histogram, optional
        The labels, in any order.
    row_counts, label_counts : array-like, optional
        Whole frequencies of rows and labels: a count of 2 is the row, or the label, written twice.
    anchors : sequence, optional
        Pairs that are known, as in `ShuffledLinearRegression.fit`, counted inside the bag.
    mean, total : float, optional
        In place of `y`: the mean or the sum of the labels of all rows (ecological regression;
        Goodman 1953).

    Raises
    ------
    InputError
        For data of the wrong shape, and for labels with a mean or a total as well.

    Examples
    --------
    >>> Bag([[1.0], [2.0]], [3.0, 1.0]).n
    2
    >>> Bag([[1.0], [2.0]], Histogram([0.0, 1.0, 4.0], [5, 2])).n_labels
    7
    >>> Bag([[1.0], [2.0]], total=5.0).mean
    2.5
    """

    X: np.ndarray
    y: Any = None
    row_counts: np.ndarray | None = None
    label_counts: np.ndarray | None = None
    anchors: Any = None
    mean: float | None = None
    total: float | None = None

    def __post_init__(self) -> None:
        X = as_numbers(self.X, "the X of a bag")
        if self.y is None:
            self._set_mean(X)
            return
        if self.mean is not None or self.total is not None:
            raise InputError(
                "a bag has labels y, and a mean or total as well: give y alone, which says more"
            )
        y: Any = self.y if isinstance(self.y, Histogram) else as_numbers(self.y, "the y of a bag")
        if X.ndim != 2 or (isinstance(y, np.ndarray) and y.ndim != 1):
            raise InputError(
                f"a bag needs a two-dimensional X and a one-dimensional y, got shapes {X.shape} "
                f"and {np.shape(y)}: use X.reshape(-1, 1) for one feature and y.ravel()"
            )
        if 0 in X.shape or (isinstance(y, np.ndarray) and len(y) == 0):
            n_labels = y.n if isinstance(y, Histogram) else len(y)
            raise InputError(
                f"a bag is empty: {X.shape[0]} rows, {X.shape[1]} features and {n_labels} labels; "
                "leave it out, or give at least one of each"
            )
        if isinstance(y, Histogram) and self.label_counts is not None:
            raise InputError("a histogram has counts of its own: leave label_counts out")
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", y)
        for name, items in (("row_counts", X), ("label_counts", y)):
            counts = getattr(self, name)
            if counts is not None:
                object.__setattr__(self, name, _check_item_counts(counts, items, name))
        if self.anchors is not None and not self.is_plain:
            raise InputError(
                f"anchors need one label for each row, and a bag of {len(X)} rows has bins, counts "
                "or another number of labels: leave its anchors out, or give it pairs of row and "
                "label"
            )

    def _set_mean(self, X: np.ndarray) -> None:
        """Check a bag of which only the mean or the total of the labels is known."""
        if (self.mean is None) == (self.total is None):
            raise InputError("a bag needs its labels: give one of y, mean and total")
        if X.ndim != 2 or 0 in X.shape:
            raise InputError(
                f"a bag needs a two-dimensional X with at least one row, got shape {X.shape}"
            )
        if self.label_counts is not None or self.anchors is not None:
            raise InputError(
                "a bag of which only the mean is known has no single labels: leave label_counts "
                "and anchors out"
            )
        object.__setattr__(self, "X", X)
        if self.row_counts is not None:
            counts = _check_item_counts(self.row_counts, X, "row_counts")
            object.__setattr__(self, "row_counts", counts)
        which = "total" if self.mean is None else "mean"
        value = as_numbers(getattr(self, which), f"the {which} of a bag")
        if value.ndim or not np.isfinite(value):
            raise InputError(f"the {which} of a bag must be one finite number, got {value}")
        object.__setattr__(self, "mean", float(value) / (self.n if which == "total" else 1))

    @property
    def has_mean_alone(self) -> bool:
        """Whether only the mean of the labels is known."""
        return self.y is None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.X) if self.row_counts is None else int(self.row_counts.sum())

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        if isinstance(self.y, Histogram):
            return self.y.n
        if self.y is None:
            return self.n
        return len(self.y) if self.label_counts is None else int(self.label_counts.sum())

    @property
    def is_plain(self) -> bool:
        """Whether it is one label for each row, and nothing else."""
        return (
            isinstance(self.y, np.ndarray)
            and self.row_counts is None
            and self.label_counts is None
            and len(self.X) == len(self.y)
        )


def _check_item_counts(counts: Any, items: Any, name: str) -> np.ndarray:
    """Return frequencies as numbers, one for each item."""
    what = "row" if name == "row_counts" else "label"
    found = as_numbers(counts, name)
    if found.shape != (len(items),):
        raise InputError(
            f"{name} has shape {found.shape} but there are {len(items)} {what}s: give one for each"
        )
    check_counts(found, "weight", what)
    return found


def choose_kind(n_bags: int) -> type[np.signedinteger[Any]]:
    """Return the smallest integer type for the numbers of n bags."""
    return np.int8 if n_bags <= 127 else np.int16 if n_bags <= 32767 else np.int32


def _number_whole(groups: np.ndarray, low: int, high: int) -> np.ndarray:
    """Return the numbers of bag names that are integers from low to high, by blocks."""
    size = 1 << 16
    parts = [slice(at, at + size) for at in range(0, len(groups), size)]
    is_there = np.zeros(high - low + 1, bool)
    for part in parts:
        is_there[groups[part].astype(np.int64) - low] = True
    numbers = np.cumsum(is_there) - 1
    numbers = numbers.astype(choose_kind(int(numbers[-1]) + 1))
    codes = np.empty(len(groups), numbers.dtype)
    for part in parts:
        codes[part] = numbers[groups[part].astype(np.int64) - low]
    return codes


def bag_key(name: Hashable) -> str:
    """Return the name of a bag as text, the same for 3, 3.0 and NumPy numbers.

    >>> bag_key(3.0), bag_key(np.int64(3)), bag_key("a")
    ('3', '3', 'a')
    """
    name = name.item() if isinstance(name, np.generic) else name
    return str(int(name)) if isinstance(name, float) and name.is_integer() else str(name)


def number_names(groups: Sequence[Hashable] | np.ndarray) -> np.ndarray:
    """Return the numbers of bag names, which may be any hashable values, as int64."""
    return number_tightly(groups).astype(np.int64, copy=False)


def number_tightly(groups: Sequence[Hashable] | np.ndarray) -> np.ndarray:
    """Return the numbers of bag names in any integer type; for integer names in the smallest."""
    if isinstance(groups, np.ndarray) and groups.dtype.kind == "i" and len(groups):
        low, high = int(groups.min()), int(groups.max())
        if high - low < len(groups):  # without sorting, which takes several times the memory
            return _number_whole(groups, low, high)
    if isinstance(groups, np.ndarray) and groups.dtype.kind in "iubUS":
        return np.unique(groups, return_inverse=True)[1].ravel()
    # One by one: an array made of a list would turn 1 and "1" into the same name.
    items = groups.tolist() if isinstance(groups, np.ndarray) else groups
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in items], dtype=int)
